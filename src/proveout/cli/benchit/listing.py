"""What `benchit` shows: each script's models as MLAgility lists them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.columns.table import row
from proveout.columns.words import status_words
from proveout.devices.registry import HOST
from proveout.store import read_record
from proveout.sweep import Result
from proveout.types import Record, Timing, Workload

RUNTIME_WORDS = {"ort": "ort", "eager": "torch-eager", "inductor": "torch-compiled", "proveout": "proveout"}
PACKAGES = {"ort": "onnxruntime", "eager": "torch", "inductor": "torch", "proveout": "proveout"}


Entry = tuple[Workload, Record | None]


def listing(entries: Sequence[Entry], cache: Path | None = None) -> str:
    """Every model once, with its invocations, and what became of each."""
    lines = ["Models discovered:", ""]
    scripts = dict.fromkeys(w.script for w, _ in entries)
    for script in scripts:
        lines.append(f"{Path(script).name}:")
        for workload, record in ((w, r) for w, r in entries if w.script == script):
            lines += [f"\t{line}" if line else "" for line in _model(workload, record, cache)]
        lines.append("")
    return "\n".join(lines)


def _model(w: Workload, record: Record | None, cache: Path | None) -> list[str]:
    if not w.selector:
        return [f"Status:\t\t{record.reason if record else 'no model was called'}", *_log(record)]
    name = w.name if w.depth == 0 else f"{w.name} (depth {w.depth})"
    shapes = ", ".join(f"{name!r}: {tuple(spec.shape)}" for name, spec in w.inputs)
    theirs = f" (MLAgility's: {w.other_hashes[-1]})" if w.other_hashes else ""
    size = w.parameter_bytes / 2**20
    lines = [
        f"{name} (executed {w.calls}x{f' - {w.seconds:.2f}s' if record is None else ''})",
        f"\tModel Type:\t{'ONNX file' if w.is_onnx else 'Pytorch (torch.nn.Module)'}",
        f"\tClass:\t\t{w.class_name}",
        f"\tLocation:\t{_place(w)}",
        *([] if w.is_onnx else [f"\tParameters:\t{w.parameters:,} ({f'{size:.1f}' if size > 0.1 else '<0.1'} MB)"]),
        f"\tInput Shape:\t{shapes}",
        f"\tHash:\t\t{w.selector}{theirs}",
    ]
    if cache is not None and record is not None:
        lines.append(f"\tBuild:\t\t{w.build_name} in {cache}")
    return lines + [f"\t{line}" for line in _outcome(record)] if record is not None else lines


def _place(w: Workload) -> str:
    file, _, line = w.location.rpartition(":")
    return f"{Path(w.script).parent / file}, line {line}" if file else w.location


def _outcome(record: Record) -> list[str]:
    job = record.job
    if record.status not in ("passed", "expected_failure"):
        return [f"Status:\t\tfailed ({record.failure}): {record.reason}", *_log(record)]
    if job.do == ("compile",):
        files = _onnx(job.artifacts)
        return [f"Status:\t\tModel successfully built! (compiled{f': {files}' if files else ''})"]
    measured = measured_of(record)
    if measured is None:
        return [f"Status:\t\t{status_words(row(record)).words} on {job.device}"]
    timing = measured.timing
    return [
        f"Status:\t\tSuccessfully benchmarked on {measured.where}, {timing.kind}",
        f"\t\tMean Latency:\t{timing.mean_ns / 1e6:.3f}\tmilliseconds (ms)",
        f"\t\tThroughput:\t{1e9 / timing.mean_ns:.1f}\tinferences per second (IPS)",
    ]


@dataclass(frozen=True)
class Measured:
    """A model's time, and what ran it where."""

    timing: Timing
    device: str
    runtime: str
    version: str

    @property
    def where(self) -> str:
        return f"{self.device} ({self.runtime}{f' v{self.version}' if self.version else ''})"


def measured_of(record: Record) -> Measured | None:
    """Of the model itself; its simulation's where nothing else was timed."""
    job, facts = record.job, dict(record.environment)
    first, second = ("eager", "eager") if job.runtime == "eager" else ("compiled", "simulation")
    timing = record.timing(first) or record.timing(second)
    if timing is None:
        return None
    device = (facts.get("cpu") if job.device == HOST else None) or job.device
    runtime = RUNTIME_WORDS.get(job.runtime, job.runtime)
    return Measured(timing, device, runtime, facts.get(PACKAGES.get(job.runtime, ""), ""))


def _onnx(folder: str) -> str:
    """The newest ONNX file of a build, as it was exported."""
    files = sorted(Path(folder).glob("*-base.onnx"), key=lambda path: path.stat().st_mtime) if folder else []
    return str(files[-1]) if files else ""


def _log(record: Record | None) -> list[str]:
    """The last lines of what a failed model printed, unless MLAGILITY_TRACEBACK is False."""
    if record is None or not record.log or os.environ.get("MLAGILITY_TRACEBACK") == "False":
        return []
    return [f"\t{line}" for line in record.log.splitlines()[-12:]]


def of_results(results: Sequence[Result]) -> list[Entry]:
    read: list[Record] = [read_record(result.path) for result in results]
    return [(record.job.workload, record) for record in read]


def documents(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [{**vars(r.row), "file": str(r.path), "from_cache": r.from_cache} for r in results]
