"""`proveout check`: compare compiled models with their reference."""

from __future__ import annotations

from proveout.cli.jobs import present, run
from proveout.cli.request import Request, takes_request


@takes_request
def verb(request: Request) -> int:
    """Compare compiled models with their reference.

    Compiles the models of scripts and compares their outputs, and every step, with the reference. Nothing
    is timed.

    \b
    Example:
      proveout check linear.py --search-dir selftest --pcc 0.999
    """
    return present("check", run(request, ("check",)), request)
