"""What a search tells of its decisions: what each value costs, what was changed in which order, what was not, why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from proveout.tune import greedy
from proveout.tune.certificate import Rejected, Taken, Weighed
from proveout.tune.errors import Errors
from proveout.tune.space import Assignment, Decision, Times
from proveout.tune.structures import LEAST_GAIN, Structure
from proveout.types import Settings

NOT_MEASURED = "not measured: out of time"


@dataclass
class Found:
    settings: Settings
    ns: int
    pccs: tuple[float, ...]
    top1: tuple[float, ...]
    by: Literal["solver", "greedy", "start"]
    assignment: Mapping[int, int] = field(default_factory=dict)
    predicted_ns: int = 0
    predicted: Errors = ()

    def keeps(self, pcc: float, top1: float) -> bool:
        """Whether it is within a budget on every call that it was run on."""
        return min(self.pccs) >= pcc and min(self.top1) >= top1

    @property
    def error(self) -> float:
        return max(0.0, 1 - min(self.pccs) ** 2) if min(self.pccs) > 0 else 1.0


def weighed(
    decisions: Sequence[Decision],
    times: Times,
    errors: Mapping[tuple[int, int], Errors],
    assignment: Assignment,
) -> Iterator[Weighed]:
    now = times.ns({}) or 0
    for d, one in enumerate(decisions):
        after = [times.ns({d: v}) for v in range(len(one.values))]
        saves = tuple(None if ns is None else now - ns for ns in after)
        by_value = tuple(() if v == 0 else errors.get((d, v)) for v in range(len(one.values)))
        yield Weighed(one.op, one.about, one.ops, one.values, by_value, saves, assignment.get(d, 0))


def path(
    structures: Sequence[Structure],
    errors: Mapping[tuple[int, int], Errors],
    best: Found,
    base: Errors,
    start: Found,
    steps: Sequence[greedy.Trial],
) -> Iterator[Taken]:
    """What was changed, one after another, those that save the most first."""
    if best.by == "greedy":
        yield from (Taken(t.change, t.ns or 0, t.saves_ns, t.pcc) for t in steps)
    if best.by != "solver":
        return
    times = next(s.times for s in structures if s.settings == replace(best.settings, per_op=s.settings.per_op))
    ns = times.ns({}) or 0
    names = [n for n in ("memory", "sharding", "products") if getattr(best.settings, n) != getattr(start.settings, n)]
    if names:
        said = ", ".join(f"{n}={getattr(best.settings, n)}" for n in names)
        yield Taken(f"for all ops: {said}", ns, start.ns - ns, _pcc(base))
    left, done = dict(best.assignment), dict[int, int]()
    while left:
        after = {d: times.ns({**done, d: v}) for d, v in left.items()}
        d = min(left, key=lambda d: after[d] or math.inf)
        done[d] = left.pop(d)
        then = after[d] or ns
        known = [errors[i, v] for i, v in done.items()]
        total = tuple(b + sum(e[k] for e in known) for k, b in enumerate(base))
        yield Taken(times.decisions[d].said(done[d]), then, ns - then, _pcc(total))
        ns = then


def rejected(
    decisions: Sequence[Decision],
    times: Times,
    errors: Mapping[tuple[int, int], Errors],
    best: Found,
    base: Errors,
) -> Iterator[Rejected]:
    """Values that are quicker and were not chosen, the most tempting first."""
    now = times.ns(best.assignment) if best.by == "solver" else times.ns({})
    total = best.predicted or base
    rows = []
    for d, one in enumerate(decisions):
        for v in range(1, len(one.values)):
            if v == best.assignment.get(d, 0):
                continue
            after = times.ns({**best.assignment, d: v}) if best.by == "solver" else times.ns({d: v})
            if after is None or now is None or after >= now:
                continue
            rows.append((now - after, d, v))
    for saves, d, v in sorted(rows, reverse=True):
        change = decisions[d].said(v)
        known = errors.get((d, v))
        if saves < LEAST_GAIN * (now or 1):
            yield Rejected(change, saves, None, "gain too small")
        elif known is None:
            yield Rejected(change, saves, None, NOT_MEASURED)
        else:
            held = errors.get((d, best.assignment.get(d, 0)), (0.0,) * len(base))
            worst = max((t - h + k for t, h, k in zip(total, held, known)), default=0.0)
            pcc = math.sqrt(max(0.0, 1 - max(worst, 0.0)))
            yield Rejected(change, saves, pcc, f"PCC {pcc:.5f} by the sum of errors")


def _pcc(errors: Errors) -> float:
    return math.sqrt(max(0.0, 1 - max((0.0, *errors))))
