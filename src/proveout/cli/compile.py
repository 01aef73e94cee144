"""`proveout compile`: what converts, what stays on the host and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.request import Request, takes_request

DryRun = Annotated[bool, typer.Option("--dry-run", help="Compile only; run nothing on the device.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Leave the Programs here.", show_default=False),
]


@takes_request
def verb(request: Request, dry_run: DryRun = False, output: Output = None) -> int:
    """Say which ops convert, and why others stay on the host.

    Compiles the models of scripts and runs each once, or not at all with --dry-run.

    \b
    Examples:
      proveout compile --dry-run linear.py --search-dir selftest
      proveout compile linear.py --search-dir selftest -o programs
    """
    from proveout.cli.jobs import present, run
    from proveout.cli.output import note
    from proveout.report.terminal import host_ops, modelled_time

    results = run(request, ("compile",) if dry_run else ("compile", "run"), output)
    code = present("compile", results, request, details=lambda record: [*modelled_time(record), *host_ops(record)])
    if output:
        note(f"Programs are in {output}")
    return code
