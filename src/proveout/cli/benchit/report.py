"""`benchit report` and `benchit cache report`: the builds of one or more caches as a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.benchit.builds import builds
from proveout.cli.jobs import check_folder
from proveout.cli.options import Json
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.verbs import report as ours
from proveout.compat.onnxflow.build import Info, load_state, state_file
from proveout.errors import UsageError
from proveout.report.cells import render
from proveout.report.tables.terminal import grid
from proveout.store import Store
from proveout.types import Record

COLUMNS = (
    "model_name", "author", "model_class", "params", "hash", "license", "task", "groq_chips_used",
    "groq_estimated_latency", "nvidia_latency", "x86_latency", "onnx_exported", "onnx_optimized", "onnx_converted",
)  # fmt: skip
"""MLAgility's, in its order. Latencies are means in milliseconds; `-` is what is not known."""

CacheDirs = Annotated[
    list[str] | None,
    typer.Option("--cache-dir", "-d", metavar="DIR", help="One cache or several.", show_default=False),
]
ReportDir = Annotated[
    Path, typer.Option("--report-dir", "-r", metavar="DIR", help="Where the CSV file goes [default: here].")
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Write `proveout report`'s files here.", show_default=False),
]


def verb(
    cache_dir: CacheDirs = None, report_dir: ReportDir = Path(), output: Output = None, as_json: Json = False
) -> int:
    """Write the builds of one or more caches as CSV, named by the day.

    \b
    Examples:
      benchit report
      benchit report -d x86_results nvidia_results -r reports
    """
    if output is not None:
        if len(cache_dir or []) > 1:
            raise UsageError("-o writes the report of one cache; several are for the CSV file alone.")
        return ours.verb(cache_dir[0] if cache_dir else None, output, as_json=as_json)
    return write(cache_dir or [], report_dir, as_json)


def write(caches: Sequence[str], folder: Path, as_json: bool) -> int:
    """One line a build."""
    stores = [Store(cache) for cache in caches] or [Store()]
    for store in stores:
        if caches and not store.folder.is_dir():
            raise UsageError(f"{store.folder} is not a folder. Name one that --cache-dir named when benchmarking.")
    check_folder(folder, "-r DIR")
    grouped: dict[str, list[Record]] = {}
    for store in stores:
        for build, records in builds(store).items():
            grouped.setdefault(build, []).extend(record for _, record in records)
    rows = [_row(records, _build_info(stores, name)) for name, records in grouped.items()]
    path = folder / f"{date.today().isoformat()}.csv"
    path.write_text(render([COLUMNS, *([row.get(name, "") for name in COLUMNS] for row in rows)]), encoding="utf-8")
    if as_json:
        emit_json({"file": str(path), "caches": [str(store.folder) for store in stores], "builds": rows})
        return 0
    shown = ("model_name", "author", "model_class", "params", "hash", "x86_latency", "nvidia_latency", "onnx_exported")
    emit(grid(shown, [[row[name] for name in shown] for row in rows], colour()) if rows else "No builds.")
    note(f"cache {', '.join(str(store.folder) for store in stores)}: {len(rows)} builds")
    emit(f"Summary spreadsheet saved at {path}")
    return 0


def _build_info(stores: Sequence[Store], name: str) -> Info:
    """Of the first of the caches that has it."""
    for store in stores:
        if state_file(store.folder, name).is_file():
            return load_state(store.folder, name).info
    return Info()


def _row(records: Sequence[Record], build: Info) -> dict[str, str]:
    workload = records[0].job.workload
    labels = {key: values[0] for key, values in workload.labels}
    exported = any(record.job.runtime == "ort" and record.status == "passed" for record in records)
    return {
        "model_name": labels.get("name", workload.name),
        "author": labels.get("author", "-"),
        "model_class": workload.class_name or "-",
        "params": str(workload.parameters) if workload.class_name and not workload.is_onnx else "-",
        "hash": workload.model_hash or "-",
        "license": labels.get("license", "-"),
        "task": labels.get("task", "-"),
        "groq_chips_used": "-",
        "groq_estimated_latency": "-",
        "nvidia_latency": _latency(records, "cuda"),
        "x86_latency": _latency(records, "cpu"),
        "onnx_exported": str(exported),
        "onnx_optimized": str(bool(build.opt_onnx_exported)),
        "onnx_converted": str(bool(build.converted_onnx_exported)),
    }


def _latency(records: Sequence[Record], device: str) -> str:
    """The mean in milliseconds, of ONNX Runtime where it ran the model, else of whatever did; measured only."""
    order = sorted(records, key=lambda record: record.job.runtime != "ort")
    for record in order:
        if record.job.device.partition(":")[0] == device and record.status == "passed":
            timing = record.timing("eager" if record.job.runtime == "eager" else "compiled")
            if timing is not None and timing.kind == "measured":
                return f"{timing.mean_ns / 1e6:.6f}"
    return "-"
