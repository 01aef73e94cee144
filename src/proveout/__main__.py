"""`proveout`, `benchit` and `python -m proveout`: the command line."""

import sys
from pathlib import Path

try:
    from proveout.cli import main
except KeyboardInterrupt:  # while it is being loaded
    print(f"{Path(sys.argv[0]).stem}: error: interrupted before anything was done.", file=sys.stderr)
    sys.exit(130)

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
