"""primalsvm demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import one_line_errors

OutputFolder = Annotated[Path, typer.Option(metavar="DIR", help="Folder for what the demo writes.")]


def demo(output: OutputFolder = Path("primalsvm-demo")) -> None:
    """Train, certify and draw small examples."""
    with one_line_errors():
        from ..demo import run

        run(output)
