"""`proveout run`: a model by its name on one backend, beside eager PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from proveout.capture.named import named
from proveout.cli.options import CacheDir, Json, ScriptArgs, SearchDir
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.coding import to_json
from proveout.columns.words import number, pcc_text
from proveout.devices.registry import HOST, find, settings_for
from proveout.prove import prove_named
from proveout.report.tables.terminal import grid
from proveout.runtimes import canonical
from proveout.store import Store
from proveout.types import Do, Job, Record, Timing, Workload

Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A script or its stem in the corpora, or a name for transformers; may be repeated.",
        show_default=False,
    ),
]
Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="B",
        help="proveout, stat, eager, inductor or ort; also torch_ttnn and torch_stat, as before.",
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="D", help="For the backend proveout.")]
Iterations = Annotated[int, typer.Option("--iterations", min=1, metavar="N", help="Timed calls.")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each model.")]


def verb(
    model: Models,
    backend: Backend = "proveout",
    device: Device = "sim",
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    cache_dir: CacheDir = None,
    iterations: Iterations = 5,
    timeout: Timeout = 600.0,
    as_json: Json = False,
) -> int:
    """Run a model by name and compare it with eager PyTorch.

    The backend stat runs the ATen graphs unchanged and counts their ops.

    \b
    Examples:
      proveout run --model linear --backend proveout
      proveout run --model bert --backend stat --script-args "num_hidden_layers=2"
    """
    store = Store(cache_dir)
    store.check_writable()
    chosen, name = named(model, search_dir or [], script_args), canonical(backend)
    info = find(device)
    place = info.name if name == "proveout" else HOST
    settings = settings_for(place)

    def job_of(workload: Workload) -> Job:
        do: tuple[Do, ...] = ("run", "benchmark")
        return Job(workload, place, settings, do, iterations, 1, timeout, runtime=name)

    records: list[Record] = []
    with Progress(len(chosen)) as progress:
        for one in chosen:
            progress.start(what := f"running {one.name} on {name}")
            for record in prove_named(one, job_of, timeout):
                store.write(record)
                records.append(record)
            progress.step(what, f"{one.name}: {'ran' if _passed(records[-1]) else 'failed'}")
    if as_json:
        emit_json({"runs": list(map(_document, records))})
    else:
        emit(grid(TITLES, list(map(_cells, records)), colour()))
        for op, count in _all_ops(records) if name == "stat" else ():
            emit(f"  {count:>6,}  {op}")
        if name == "proveout" and info.times == "modelled" and any(map(_device, records)):
            note("Call ms is the simulation's own time on this machine; Device ms is modelled for the chip.")
        for record in records:
            if record.reason:
                note(f"{'✓' if _passed(record) else '✘'} {record.job.workload.name}: {record.reason}")
    return 0 if all(map(_passed, records)) else 1


TITLES = (
    "Model",
    "Backend",
    "Device",
    "Status",
    "PCC",
    "Max |Δ|",
    "Ops",
    "On host",
    "Eager ms",
    "Call ms",
    "Device ms",
)


def _passed(record: Record) -> bool:
    return record.status in ("passed", "expected_failure")


def _cells(record: Record) -> tuple[object, ...]:
    furthest = max((c.max_abs for c in record.comparisons if c.max_abs is not None), default=None)
    return (
        record.job.workload.name,
        record.job.runtime,
        record.job.device,
        "✓ close" if _passed(record) else "✘ failed",
        pcc_text(record.pcc),
        number(furthest),
        len(record.coverage.ops) or None,
        _on_host(record),
        _time(record.timing("eager")),
        _time(_call(record)),
        _time(_device(record)),
    )


def _time(timing: Timing | None) -> str | None:
    return None if timing is None else f"{number(timing.median_ns / 1e6)} {timing.kind}"


def _call(record: Record) -> Timing | None:
    """A call of the backend on this machine: always measured."""
    names = ("simulation", "compiled", "eager")
    return next((t for what in names if (t := record.timing(what)) is not None and t.kind == "measured"), None)


def _device(record: Record) -> Timing | None:
    timing = record.timing("compiled")
    return timing if timing is not None and timing.kind == "modelled" else None


def _on_host(record: Record) -> int | None:
    """None where the backend has no graphs of ours."""
    return record.coverage.remain if record.job.runtime == "proveout" and record.coverage.ops else None


def _all_ops(records: Sequence[Record]) -> list[tuple[str, int]]:
    total = Counter(op.aten for record in records for op in record.coverage.ops)
    return sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))


def _document(record: Record) -> dict[str, Any]:
    return {
        "model": record.job.workload.name,
        "backend": record.job.runtime,
        "device": record.job.device,
        "parameters": record.job.workload.parameters,
        "passed": _passed(record),
        "status": record.status,
        "reason": record.reason,
        "pcc": record.pcc,
        "compile_s": sum(seconds for _, seconds in record.compile_s),
        "ops": dict(_all_ops([record])),
        "ops_on_host": _on_host(record),
        "comparisons": to_json(record.comparisons),
        "timings": to_json(record.timings),
    }
