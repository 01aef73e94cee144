"""How a Record gives its flat columns: coverage, memory, served figures, and a time with what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from proveout.devices.registry import describe
from proveout.types import Coverage, Job, Judgement, MemoryUse, Record, Source, Timing

T = TypeVar("T")
Read = Callable[[Record], Any]


def coverage(name: str) -> Read:
    return lambda record: getattr(record.coverage, name) if record.coverage != Coverage() else None


GENERATION = ("generate",)
"""What a Record of a generation did."""


def memory(name: str) -> Read:
    return lambda record: getattr(record.memory, name) if record.memory != MemoryUse() else None


def served(name: str) -> Read:
    return lambda record: (record.report or {}).get(name)


def l1_peak(record: Record) -> int | None:
    """None where none is kept, as of a generation, whose Programs are two."""
    return None if record.job.do == GENERATION else memory("l1_peak_bytes")(record)


def load_words(record: Record) -> str | None:
    """How it was served: `b8 n1 w2`; of a generation users and tokens, `b4 64+32 tokens`."""
    told, serve = record.report or {}, record.job.serve
    if serve and record.job.do == GENERATION and {"prompt_length", "new_tokens"} <= told.keys():
        return f"b{serve.batch_size} {told['prompt_length']}+{told['new_tokens']} tokens"
    return serve.words if serve else None


def parameters(job: Job) -> int | None:
    """None where nobody counted: no model was found, it is an ONNX file, or only the workers made it."""
    counted = job.workload.selector and not job.workload.is_onnx and (job.serve is None or job.workload.parameters)
    return job.workload.parameters if counted else None


def numerics(job: Job) -> str | None:
    return job.settings.numerics if (info := describe(job.device)) and info.numerics else None


def _of(what: str, read: Callable[[Timing], T | None]) -> Callable[[Record], T | None]:
    return lambda record: read(timing) if (timing := record.timing(what)) else None


def median_ms(what: str) -> Callable[[Record], float | None]:
    return _of(what, lambda timing: timing.median_ns / 1e6 if timing.samples_ns else None)


def bound_ms(what: str, end: Literal[0, 1]) -> Callable[[Record], float | None]:
    """One end of its interval (PROMISED)."""
    return _of(what, lambda timing: timing.interval_ns[end] / 1e6 if timing.interval_ns else None)


def source(what: str) -> Callable[[Record], Source | None]:
    return _of(what, lambda timing: timing.source)


def verdict(what: str) -> Callable[[Record], Judgement | None]:
    return _of(what, lambda timing: timing.verdict)
