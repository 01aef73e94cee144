"""`proveout trace`: which ops models' graphs hold, forward and backward, and how large their tensors are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proveout.capture.named import named
from proveout.cli.jobs import check_folder
from proveout.cli.options import Json, ScriptArgs, SearchDir
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.devices.registry import find, settings_for
from proveout.errors import UsageError
from proveout.prove import prove_named
from proveout.report.stat import PHASES, node_counts, write_reports
from proveout.report.tables.terminal import grid
from proveout.tracer import raw
from proveout.types import Job, Trace, Workload
from proveout.words import counted

Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Scripts, their stems in the corpora, or architectures of transformers.",
        show_default=False,
    ),
]
Orig = Annotated[bool, typer.Option("--orig", help="The original ATen graphs, not what the compiler makes of them.")]
Backward = Annotated[bool, typer.Option("--backward", help="Also the backward graphs, from the sum of the outputs.")]
Profile = Annotated[bool, typer.Option("--profile", help="Also a Chrome trace of each model.")]
ReportOnly = Annotated[bool, typer.Option("--report-only", help="Trace nothing; make the reports from DIR/raw again.")]
Device = Annotated[str, typer.Option("--device", metavar="D", help="What to compile for, without --orig.")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each script.")]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where raw dumps and reports go.")]


def verb(
    models: Models = None,
    orig: Orig = False,
    backward: Backward = False,
    profile: Profile = False,
    report_only: ReportOnly = False,
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    device: Device = "sim",
    timeout: Timeout = 600.0,
    output: Output = Path("stat"),
    as_json: Json = False,
) -> int:
    """Count the ops of models and the sizes of their tensors.

    Leaves every node with its shapes and dtypes in DIR/raw, and makes reports of all dumps there: counts of nodes, and
    for each op how large all its inputs and outputs are, as CSV and as a picture.

    \b
    Examples:
      proveout trace linear --orig --backward --profile -o stat
      proveout trace --report-only -o stat
    """
    if report_only and (models or orig or backward or profile):
        raise UsageError("--report-only traces nothing: leave out the models, --orig, --backward and --profile.")
    check_folder(output)
    errors = [] if report_only else _trace(
        models or [], search_dir or [], script_args, output, timeout,
        orig=orig, backward=backward, profile=profile, device=device,
    )  # fmt: skip
    dumps = raw.load(output / "raw") if report_only or any((output / "raw").glob("*.json")) else []
    files = write_reports(dumps, output)
    counts = {short: node_counts(dumps, phase) for short, phase in PHASES.items()}
    if as_json:
        traced = [
            {
                "model": d.model,
                "kind": d.kind,
                "forward_nodes": d.count("forward"),
                "backward_nodes": d.count("backward"),
            }
            for d in dumps
        ]
        written = [str(path) for path in files]
        emit_json({"folder": str(output), "models": traced, "counts": counts, "files": written, "errors": errors})
    elif dumps:
        titles = ("Model", "Graphs", "Forward nodes", "Backward nodes")
        cells = [(d.model, d.kind, d.count("forward"), d.count("backward")) for d in dumps]
        emit(grid(titles, cells, colour()))
        note(f"{counted(len(dumps), 'raw dump')} in {output / 'raw'}; {counted(len(files), 'report')} in {output}")
    for error in errors:
        note(error)
    return 1 if errors else 0


def _trace(
    models: list[str], search_dir: list[str], script_args: str, output: Path, timeout: float,
    *, orig: bool, backward: bool, profile: bool, device: str,
) -> list[str]:  # fmt: skip
    """Trace each script in a process of its own; what went wrong, in sentences."""
    place, settings, folder = find(device).name, settings_for(device), str(output.expanduser().absolute())

    def job_of(workload: Workload) -> Job:
        options = Trace(orig, backward, profile)
        return Job(workload, place, settings, ("trace",), timeout_s=timeout, artifacts=folder, trace=options)

    chosen, errors = named(models, search_dir, script_args), []
    with Progress(len(chosen)) as progress:
        for one in chosen:
            progress.start(what := f"tracing {one.name}")
            records = prove_named(one, job_of, timeout)
            traced = [record for record in records if record.status == "passed"]
            progress.step(what, f"{one.name}: {len(traced)} traced")
            lines = [
                f"{r.job.workload.name}: {r.reason}" for r in records if r.reason and r.status != "expected_failure"
            ]
            errors += [] if records[0].job.workload.expects_failure else lines
    return errors
