"""`proveout benchmark`: check and time the models of scripts."""

from __future__ import annotations

from proveout.cli.request import Request, takes_request


@takes_request
def verb(request: Request) -> int:
    """Compile, check and time the models of scripts.

    Finds the models that each script calls, compiles them for the device, compares their outputs with
    the reference and times them beside the original.

    \b
    Examples:
      proveout benchmark linear.py --search-dir selftest
      proveout benchmark models/*.py --device sim,cpu --iterations 50
    """
    from proveout.cli.jobs import present, run

    return present("benchmark", run(request, ("check", "benchmark")), request)
