"""What every test may rely on."""

import signal

# A suite started in the background ignores Ctrl-C, and so would the programs it starts: the tests of Ctrl-C need it
signal.signal(signal.SIGINT, signal.default_int_handler)
