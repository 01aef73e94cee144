"""`python -m proveout`: the command line, where its script is not on PATH."""

import sys

from proveout.cli import main

if __name__ == "__main__":
    sys.exit(main())
