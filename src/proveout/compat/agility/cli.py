"""`mlagility.cli.cli.main`: `benchit` on this process's own words."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from proveout.cli import invoke


def main(argv: Sequence[str] | None = None) -> int:
    """Run `benchit`; what is wrong is raised, as MLAgility's own does."""
    return invoke(sys.argv[1:] if argv is None else argv, "benchit")


__all__ = ["main"]
