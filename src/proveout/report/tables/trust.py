"""The words for whether `fast` numerics can be trusted with a model."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.types import Record, StepGap, Trust


def of_record(record: Record) -> list[str]:
    """Below a table of Records: whose verdict it is, and what else there is to say."""
    said = sentences(record.trust)
    return [f"{record.job.workload.name}: {said[0]}.", *(f"  {more}." for more in said[1:])] if said else []


def sentences(trust: Trust | None) -> list[str]:
    """What there is to say of it, a sentence each."""
    if trust is None:
        return []
    said = [trust.verdict]
    differing = [g for g in trust.steps if g.rel_l2 != 0.0]
    if differing:
        names = ", ".join(f"{g.place} ({g.kernel}, {_apart(g)})" for g in differing[:3])
        said.append(f"on the same operands the modes differ most in {names}")
    if trust.errata:
        total = sum(g.errata for g in trust.errata)
        said.append(f"{_sums(total)} hit tt-metal#38306: {', '.join(_places(trust.errata))}")
    return said


def _apart(gap: StepGap) -> str:
    return "not finite in the same places" if gap.rel_l2 is None else f"relative L2 {gap.rel_l2:.2g}"


def _places(hit: Sequence[StepGap], most: int = 5) -> list[str]:
    by_place: dict[str, int] = {}
    for gap in hit:
        where = f"{gap.place} ({gap.kernel})"
        by_place[where] = by_place.get(where, 0) + gap.errata
    places = [f"{count} in {where}" for where, count in by_place.items()]
    return places if len(places) <= most else [*places[:most], f"and in {len(places) - most} more places"]


def _sums(count: int) -> str:
    return "1 sum" if count == 1 else f"{count:,} sums"
