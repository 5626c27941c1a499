"""python -m primalsvm"""

from .cli import main

main()
