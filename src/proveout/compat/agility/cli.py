"""`mlagility.cli.cli.main`: `benchit` on this process's own words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from proveout.cli import NotParsed, invoke
from proveout.compat.agility import report, spawn
from proveout.compat.onnxflow.exceptions import ArgError
from proveout.errors import UsageError


class CommandError(ArgError, argparse.ArgumentError):
    """A command line that cannot be right: both errors that MLAgility raises for one."""

    def __init__(self, message: str) -> None:
        argparse.ArgumentError.__init__(self, None, message)
        self.args = (message,)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `benchit`; what is wrong is raised, as MLAgility's own does."""
    try:
        return invoke(sys.argv[1:] if argv is None else argv, "benchit")
    except (UsageError, NotParsed) as error:
        raise CommandError(str(error)) from error


cli = sys.modules[__name__]
"""`import mlagility.cli.cli` and `import mlagility.cli.report` both begin here."""

__all__ = ["cli", "main", "report", "spawn"]
