"""`proveout compile`: what converts, what stays on the host and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.jobs import present, run
from proveout.cli.output import note
from proveout.cli.request import SharedOptions, takes_request
from proveout.report.dump import write_pages
from proveout.report.tables.terminal import chips_used, ledger, modelled_time

DryRun = Annotated[bool, typer.Option("--dry-run", help="Compile only; run nothing on the device.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Save the Programs here.", show_default=False),
]

Dump = Annotated[
    Path | None,
    typer.Option("--dump", metavar="DIR", help="Save each graph here after every pass.", show_default=False),
]


@takes_request
def verb(request: SharedOptions, dry_run: DryRun = False, output: Output = None, dump: Dump = None) -> int:
    """Say which ops convert, and why others stay on the host.

    Compiles the models of scripts and runs each once; with
    --dry-run it runs nothing.

    \b
    Examples:
      proveout compile --dry-run linear.py --search-dir selftest
      proveout compile linear.py --search-dir selftest -o programs
      proveout compile --dry-run linear.py --search-dir selftest --dump passes
      proveout compile --dry-run --all --weights meta      all at their true size
    """
    results = run(request, ("compile",) if dry_run else ("compile", "run"), output, dump)
    code = present(
        "compile",
        results,
        request,
        details=lambda record: [*modelled_time(record), *chips_used(record), *ledger(record)],
    )
    if output:
        note(f"Programs are in {output}")
    if dump:
        note(f"What each pass did is in {write_pages(dump)}")
    return code
