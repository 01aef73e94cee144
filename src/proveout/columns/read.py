"""How a Record gives its flat columns: coverage, memory, served figures, and a time with what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proveout.columns.column import Column, OnBoard, Shown
from proveout.devices.registry import describe
from proveout.types import Coverage, Job, MemoryUse, Record, Timing

Read = Callable[[Record], Any]


def coverage(name: str) -> Read:
    return lambda record: getattr(record.coverage, name) if record.coverage != Coverage() else None


def memory(name: str) -> Read:
    return lambda record: getattr(record.memory, name) if record.memory != MemoryUse() else None


def served(name: str) -> Read:
    return lambda record: (record.report or {}).get(name)


def median_ms(what: str) -> Read:
    def read(record: Record) -> float | None:
        timing = record.timing(what)
        return timing.median_ns / 1e6 if timing and timing.samples_ns else None

    return read


def parameters(job: Job) -> int | None:
    """None where nobody counted: no model was found, it is an ONNX file, or only the workers made it."""
    counted = job.workload.selector and not job.workload.is_onnx and (job.serve is None or job.workload.parameters)
    return job.workload.parameters if counted else None


def numerics(job: Job) -> str | None:
    return job.settings.numerics if (info := describe(job.device)) and info.numerics else None


def time(name: str, what: str, shown: tuple[Shown, ...], board: tuple[OnBoard, ...]) -> tuple[Column, ...]:
    """The median of a timing and what it is worth: its kind, its interval (PROMISED) and the verdict on it."""

    def of(read: Callable[[Timing], Any]) -> Read:
        return lambda record: read(timing) if (timing := record.timing(what)) else None

    def bound(end: int) -> Read:
        return of(lambda timing: timing.interval_ns[end] / 1e6 if timing.interval_ns else None)

    return (
        Column(f"{name}_ms", "double", median_ms(what), shown, board),
        Column(f"{name}_kind", "varchar", of(lambda timing: timing.kind)),
        Column(f"{name}_low_ms", "double", bound(0)),
        Column(f"{name}_high_ms", "double", bound(1)),
        Column(f"{name}_verdict", "varchar", of(lambda timing: timing.verdict)),
    )
