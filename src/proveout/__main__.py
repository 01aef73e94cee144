"""`proveout`, `benchit` and `python -m proveout`: the command line."""

import sys
from pathlib import Path


def main() -> int:
    """Run the command line; Ctrl-C while it is being loaded ends in a sentence, too."""
    try:
        from proveout.cli import main as run
    except KeyboardInterrupt:
        print(f"{Path(sys.argv[0]).stem}: error: interrupted before anything was done.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
