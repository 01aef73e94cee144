"""The tables of what a Record has several of: ops, the ways they are called, timings, comparisons, fallbacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from proveout.coding import hints_of, to_json
from proveout.columns.column import sql_type
from proveout.types import Comparison, Fallback, Judgement, OpState, Origin, Record, Source


@dataclass(frozen=True)
class OpRow:
    """What happened to an ATen op: how many of its nodes ended in this state for this reason."""

    aten: str
    state: OpState
    reason: str
    count: int


def op_rows(record: Record) -> list[OpRow]:
    counts = Counter((op.aten, op.state, op.reason) for op in record.coverage.ops)
    return [OpRow(*op, count) for op, count in sorted(counts.items())]


@dataclass(frozen=True)
class VariationRow:
    """The same for one way it was called, with the lowest PCC of the Steps it became, where they were compared."""

    aten: str
    state: OpState
    reason: str
    inputs: str
    count: int
    pcc: float | None


def variation_rows(record: Record) -> list[VariationRow]:
    pcc: dict[tuple[str, str, str], float] = {}
    for c in record.comparisons:
        if c.scope == "step" and c.pcc is not None:
            step = (c.origin.node, c.origin.aten, c.origin.source)
            pcc[step] = min(c.pcc, pcc.get(step, c.pcc))
    rows: dict[tuple[str, OpState, str, str], list[float | None]] = {}
    for op in record.coverage.ops:
        ops = rows.setdefault((op.aten, op.state, op.reason, op.inputs), [])
        ops.append(pcc.get((op.node, op.aten, op.source)))
    return [VariationRow(*way, len(ops), lowest(ops)) for way, ops in sorted(rows.items())]


def lowest(pccs: Iterable[float | None]) -> float | None:
    return min((pcc for pcc in pccs if pcc is not None), default=None)


@dataclass(frozen=True)
class TimingRow:
    """The statistics of one timing. A modelled time is one value, not a sample: it stands once, as the median."""

    what: str
    kind: Source
    device: str
    median_ns: float | None
    mean_ns: float | None
    p95_ns: float | None
    n: int
    low_ns: float | None
    high_ns: float | None
    verdict: Judgement
    why: str


def timing_rows(record: Record) -> list[TimingRow]:
    return [
        TimingRow(
            t.what, t.source, t.device,
            median_ns=t.median_ns if t.samples_ns else None,
            mean_ns=t.mean_ns if t.samples_ns and t.kind == "measured" else None,
            p95_ns=t.p95_ns if t.samples_ns else None,
            n=len(t.samples_ns),
            low_ns=t.interval_ns[0] if t.interval_ns else None,
            high_ns=t.interval_ns[1] if t.interval_ns else None,
            verdict=t.verdict,
            why=t.why,
        )
        for t in record.timings
    ]  # fmt: skip


COMPARED = ("scope", "name", "pcc", "accumulated_pcc", "rel_l2", "max_abs", "threshold", "passed", "reason")


def comparison_rows(record: Record) -> list[dict[str, Any]]:
    """One row for each tensor that was compared with its reference."""
    return [
        {name: getattr(c, name) for name in COMPARED} | {"module": c.origin.module, "source": c.origin.source}
        for c in record.comparisons
    ]


LEDGER = tuple(name for name in hints_of(Fallback) if name != "cause")  # the reason is its text


def fallback_rows(record: Record) -> list[dict[str, Any]]:
    """The fallback ledger as JSON, one row a line; `rank` 1 is the most worth changing. Times are modelled."""
    return [{"rank": rank, **to_json(line)} for rank, line in enumerate(record.fallbacks, 1)]


@dataclass(frozen=True)
class Table:
    """A table of SQL below a Record: its own columns with their types, and its rows."""

    columns: dict[str, str]
    rows: Callable[[Record], Sequence[object]]


def _columns(cls: type, *names: str) -> dict[str, str]:
    hints = hints_of(cls)
    return {name: sql_type(hints[name]) for name in names or hints}


PARTS = {
    "ops": Table(_columns(OpRow), op_rows),
    "variations": Table(_columns(VariationRow), variation_rows),
    "timings": Table(_columns(TimingRow), timing_rows),
    "comparisons": Table(_columns(Comparison, *COMPARED) | _columns(Origin, "module", "source"), comparison_rows),
    "fallbacks": Table({"rank": "bigint"} | _columns(Fallback, *LEDGER), fallback_rows),
}
