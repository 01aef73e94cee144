"""The words for the values of a flat row: numbers, PCC, status, what a model is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from proveout.types import Kind, Record, Source, Status, Timing

if TYPE_CHECKING:
    from proveout.columns.table import Row

NOTHING = "N/A"


@dataclass(frozen=True)
class StatusWords:
    """How a status is shown; never by colour alone."""

    symbol: str
    """In Markdown, where an emoji is a picture."""
    mark: str
    """Elsewhere: one character that every font has."""
    words: str


ShownStatus = Literal[Status, "compiled"]
"""A Record's status in tables and SQL: a dry run that succeeded is `compiled`, for nothing ran."""

STATUS: dict[ShownStatus, StatusWords] = {
    "passed": StatusWords("✅", "✓", "passed"),
    "compiled": StatusWords("— (not run)", "✓", "compiled"),
    "failed": StatusWords("✘", "✘", "failed"),
    "expected_failure": StatusWords("✘ (expected)", "✘", "expected failure"),
    "partial": StatusWords("◐ (partial)", "◐", "partial"),
}

WEAK: dict[str, str] = {
    "unsteady": "is unsteady: stop other programs and run again",
    "too few": "has too few samples: ask for more iterations",
    "not judged": "was not judged",
}


OWN = "the device's time"


def weakness(record: Record, timing: Timing) -> str:
    """Why no ratio with this time is told, since it or a part of it does not stand; empty where it stands."""
    for used in (timing, *record.parts(timing)):
        if used.verdict not in ("steady", "predicted") or used.interval_ns is None:
            whose = {"eager": "the CPU's time", "host": "the host's part of the time"}.get(
                used.what, "the device's time"
            )
            return f"{whose} {WEAK.get(used.verdict, 'has no interval')}"
    return ""


def measured_ratio(records: Sequence[Record], timings: Sequence[Timing]) -> tuple[float, float, float]:
    """The second time ÷ the first, and between what it lies as far as clocks say: predictions, whose errors both have,
    are taken as they are."""
    (a_low, a, a_high), (b_low, b, b_high) = (_measured_bounds(r, t) for r, t in zip(records, timings, strict=True))
    return b / a, b_low / a_high, b_high / a_low


def _measured_bounds(record: Record, timing: Timing) -> tuple[float, float, float]:
    clocked = [t for t in (record.parts(timing) or (timing,)) if t.kind == "measured" and t.interval_ns]
    low, high = (sum((t.interval_ns or ())[end] - t.median_ns for t in clocked) for end in (0, 1))
    return timing.median_ns + low, timing.median_ns, timing.median_ns + high


def status_words(flat: Row) -> StatusWords:
    """How a Record's status is shown."""
    return STATUS[flat.status]


def number(value: float | None, digits: int = 3) -> str | None:
    """A figure as people read it: two decimals from one on, significant digits below."""
    if value is None:
        return None
    if value == 0:
        return "0"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.{digits}g}"


def count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def plain(value: object) -> str | None:
    """A value of any kind, as a column shows it that says nothing else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return count(value) if isinstance(value, int) else None if value is None else str(value)


def pcc_text(value: float | None) -> str | None:
    """A PCC to six places, where a seventh says nothing in bfloat16; never rounded up to a perfect 1."""
    if value is None:
        return None
    return f"{min(value, 0.999999):.6f}" if value < 1 else "1"


def called(flat: Row) -> str:
    """A model's name, what its script was given, which may be another size, and how it was served: `bert --small`,
    `Net b8 n1 w2`."""
    return " ".join(filter(None, (flat.model, flat.script_args, flat.load)))


def corpus(flat: Row) -> str:
    """The folder that a model's script lies in."""
    return PurePath(flat.script).parent.name


def numbers(flat: Row) -> str:
    """What was chosen about numbers, as `bfloat16 bfloat8_b weights faithful`, the format of a decoder's cache, whether
    calls train, and how the device is driven: times with and without a trace are not alike."""
    weights = f"{flat.weights} weights" if flat.weights != "same" else None
    runtime = flat.runtime if flat.runtime != "proveout" else None
    mode = "training" if flat.mode == "training" else None
    settings = json.loads(flat.settings)
    cache, queues = settings.get("cache", "same"), settings.get("queues", 1)
    kept = f"{cache} cache" if cache != "same" else None
    driven = "trace" if settings.get("trace") else None, f"{queues} queues" if queues > 1 else None
    return " ".join(filter(None, (flat.precision, weights, kept, flat.numerics, runtime, mode, *driven)))


def off_host(flat: Row) -> float | None:
    """Share of ATen ops that are off the host."""
    return (flat.ops_before - (flat.ops_remain or 0)) / flat.ops_before if flat.ops_before else None


def latency_ms(flat: Row, kind: str) -> float | None:
    """Median time of a call of the compiled model, where it is of this kind; with its host's it is modelled."""
    return flat.compiled_ms if kind_of(flat.compiled_kind) == kind else None


def kind_of(source: Source | None) -> Kind | None:
    """What a colour or a group goes by: a time with a modelled part is a prediction."""
    return source if source is None or source == "measured" else "modelled"
