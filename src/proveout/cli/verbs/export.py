"""`proveout export`: models as plain scripts of ttnn calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.jobs import present, run
from proveout.cli.output import note
from proveout.cli.request import SharedOptions, takes_request
from proveout.devices.registry import find
from proveout.errors import UsageError

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the scripts and their tensors go.")]


@takes_request
def verb(request: SharedOptions, output: Output = Path("exported")) -> int:
    """Write models as Python scripts of plain ttnn calls.

    Each graph of a model gets a folder: model.py, the Program and its tensors. model.py reproduces the outputs.

    \b
    Example:
      proveout export linear.py --search-dir selftest -o exported
    """
    from proveout.report.script import write_script

    for name in request.device.split(","):
        if find(name.strip()).target != "ttnn":
            raise UsageError(f"export writes ttnn calls, and device {name!r} has none. Use --device sim.")
    results = run(request, ("compile", "export"), output)
    for result in results:
        if result.record.job.artifacts and result.record.status == "passed":
            for program in sorted(Path(result.record.job.artifacts).rglob("tensors.safetensors")):
                path = write_script(program.parent, result.record.job.workload.name)
                note(f"wrote {path}")
    return present("export", results, request)
