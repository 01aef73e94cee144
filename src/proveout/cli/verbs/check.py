"""`proveout check`: compare compiled models with their reference."""

from __future__ import annotations

from proveout.cli.jobs import present, run
from proveout.cli.request import SharedOptions, takes_request
from proveout.report.tables import trust


@takes_request
def verb(request: SharedOptions) -> int:
    """Compare compiled models with their reference.

    Compiles the models of scripts and compares their outputs, and every step, with the reference. Nothing
    is timed but the host's part of a modelled call. In faithful numerics it also says whether the PCC of the
    fast ones could be trusted.

    \b
    Examples:
      proveout check linear.py --search-dir selftest --pcc 0.999
      proveout check linear.py --search-dir selftest --set numerics=faithful
    """
    return present("check", run(request, ("check",)), request, details=trust.of_record)
