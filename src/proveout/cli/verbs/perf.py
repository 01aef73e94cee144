"""`proveout perf`: where the time of a call goes on the modelled chip, and what would make it quicker."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from proveout import isolate, recording
from proveout.cli.jobs import check_folder, run
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.request import SharedOptions, takes_request
from proveout.devices.registry import find
from proveout.errors import ScriptError, UsageError
from proveout.folders import file_name
from proveout.recording import Recorded
from proveout.types import Comparison

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where memory/ and performance/ go.")]
Trace = Annotated[bool, typer.Option("--trace", help="As if the device replayed a captured trace.")]
Queues = Annotated[int, typer.Option("--queues", min=1, max=2, help="Command queues; 2 overlap the transfers.")]
NameOption = Annotated[
    str | None, typer.Option("-n", "--name", metavar="NAME", help="What to call it, with -c.", show_default=False)
]
Command = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--command",
        metavar="COMMAND",
        help="Profile the Programs that this command runs.",
        show_default=False,
    ),
]

Apply = Annotated[
    int | None,
    typer.Option("--apply", metavar="N", min=1, help="Make change N of the advice and plan again.", show_default=False),
]


@takes_request
def verb(
    request: SharedOptions,
    output: Output = Path("proveout-perf"),
    trace: Trace = False,
    queues: Queues = 1,
    name: NameOption = None,
    command: Command = None,
    apply: Apply = None,
) -> int:
    """Show where the time of a call goes, op by op.

    Ranks what would save time. All times are modelled. Leaves performance/ for
    tt-perf-report and memory/ for ttnn-visualizer.

    \b
    Examples:
      proveout perf linear.py --search-dir selftest --trace -o perf
      proveout perf linear.py --search-dir selftest --apply 1
      proveout perf -n bert -c "pytest tests/test_bert.py" -o perf
    """
    chosen = {**({"trace": True} if trace else {}), **({"queues": queues} if queues > 1 else {})}
    for setting in chosen:
        if any(text.partition("=")[0].strip() == setting for text in request.overrides or ()):
            raise UsageError(f"--{setting} and --set {setting}=… say the same thing twice; keep one.")
    if command is not None and apply is not None:
        raise UsageError("--apply compiles a script's model again; with -c change the command's own settings.")
    if command is not None:
        return _of_command(request, command, name or "command", chosen, output)
    if name is not None:
        raise UsageError('-n NAME is for -c "COMMAND"; a script\'s models have names.')
    return _of_scripts(request, chosen, output, apply)


def _of_scripts(request: SharedOptions, chosen: dict[str, Any], output: Path, apply: int | None) -> int:
    for device in request.device.split(","):
        if find(device.strip()).target != "ttnn":
            raise UsageError(f"device {device!r} has no modelled chip. Use --device sim, or `proveout benchmark`.")
    overrides = [*(request.overrides or ()), *(f"{key}={str(value).lower()}" for key, value in chosen.items())]
    planned = dataclasses.replace(request, overrides=overrides or None)
    results = run(planned, ("check", "perf"), output / "programs")
    sheets = []
    for result in results:
        record = result.record
        label = f"{record.job.workload.name} on {record.job.device}"
        if record.status != "passed":
            note(f"{label}: {record.reason}")
        programs = recording.load(Path(record.job.artifacts)) if record.job.artifacts else []
        if programs:
            breaks = len(record.coverage.graph_breaks)
            sheets.append(Recording(record.job.workload.name, programs, record.comparisons, breaks))
        elif not record.reason:
            note(f"{label}: no op of it runs on the chip")
    if apply is not None:
        return _applied(planned, sheets, apply, output)
    return _show(sheets, request, output, failed=sum(r.failed for r in results))


@dataclasses.dataclass(frozen=True)
class Recording:
    """The Programs that one model ran, and what is known of it besides."""

    model: str
    programs: Sequence[Recorded]
    comparisons: Sequence[Comparison] = ()
    num_breaks: int = 0


def _applied(request: SharedOptions, sheets: Sequence[Recording], number: int, output: Path) -> int:
    """One change of the advice made, and the model compiled and checked again."""
    from proveout.report.perf.apply import chosen, outcome

    if len(sheets) != 1:
        raise UsageError(f"--apply changes one model, and there are {len(sheets)}. Name one: proveout perf NAME.py::…")
    name, recorded = sheets[0].model, sheets[0].programs
    change = chosen(name, recorded, number)
    words = [f"{key}={'true' if value is True else value}" for key, value in change.settings.items()]
    kept = [o for o in request.overrides or () if o.partition("=")[0].strip() not in change.settings]
    precise = None if "precision" in change.settings else request.precision
    again = dataclasses.replace(request, overrides=[*kept, *words], precision=precise)
    (result,) = run(again, ("check", "perf"), output / "applied")
    record = result.record
    breaks = len(record.coverage.graph_breaks)
    document = outcome(name, change, recorded, recording.load(Path(record.job.artifacts)), breaks)
    text, reason = document.pop("text"), record.reason
    if request.as_json:
        emit_json({"verb": "perf", "failed": int(result.failed), "applied": {**document, "reason": reason}})
    else:
        emit(f"{text}\n  but {reason}" if result.failed else text)
    return 1 if result.failed else 0


def _of_command(request: SharedOptions, command: str, name: str, chosen: dict[str, Any], output: Path) -> int:
    changed = [f.name for f in dataclasses.fields(SharedOptions) if getattr(request, f.name) != f.default]
    extra = sorted(set(changed) - {"as_json", "timeout", "all_scripts"})
    if extra or request.all_scripts:
        named = "scripts" if "scripts" in extra or request.all_scripts else f"--{extra[0].replace('_', '-')}"
        raise UsageError(
            f"{named} cannot be given with -c: the command itself chooses its models, device and settings."
        )
    if not command.strip():
        raise UsageError('-c takes a command, for example: proveout perf -n bert -c "pytest tests/test_bert.py"')
    folder = output.absolute() / "programs" / file_name(name)
    check_folder(folder)
    recording.clear(folder)
    environment = {recording.VARIABLE: str(folder)}
    outcome = isolate.run_command(command, output=sys.stderr, timeout_s=request.timeout, environment=environment)
    programs = [r.as_under(dataclasses.replace(r.settings, **chosen)) for r in recording.load(folder)]
    if not programs:
        if outcome.ok:
            raise ScriptError(
                "the command ran no Program on a modelled chip: it must compile for a `sim` device or call ttnn "
                "(`from proveout import ttnn`)."
            )
        raise ScriptError(f"the command {outcome.story} before it ran a Program; what it printed is above.")
    if not outcome.ok:
        note(f"the command {outcome.story}; these are the Programs it had run")
    by_device: dict[str, list[Recorded]] = {}
    for one in programs:
        by_device.setdefault(one.device, []).append(one)
    return _show([Recording(name, group) for group in by_device.values()], request, output, 0 if outcome.ok else 1)


def _show(sheets: Sequence[Recording], request: SharedOptions, output: Path, failed: int) -> int:
    """Write and print each sheet; several have a folder each."""
    from proveout.report.perf.files import produce

    when = datetime.now(UTC)
    documents, texts = [], []
    for one in sheets:
        stem = file_name(one.model)
        own = f"{stem}-{file_name(one.programs[0].device)}"
        folder = output if len(sheets) == 1 else output / own
        sheet = produce(stem, one.programs, folder, when, one.comparisons, one.num_breaks, colour())
        documents.append({**sheet.document, "files": {k: str(path) for k, path in sheet.files.items()}})
        texts.append(sheet.text)
        note(f"wrote {sheet.files['csv']}, {sheet.files['memory']} and {sheet.files['sheet']}")
    if request.as_json:
        emit_json({"verb": "perf", "failed": failed, "sheets": documents})
    elif texts:
        emit("\n\n".join(texts))
    return 1 if failed else 0
