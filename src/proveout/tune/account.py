"""What a search tells of its decisions: what each value costs, what was changed in which order, what was not, why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from proveout.tune import greedy
from proveout.tune.certificate import Rejected, Taken, Weighed
from proveout.tune.errors import Errors
from proveout.tune.model import Close
from proveout.tune.solve import Problem
from proveout.tune.space import Assignment, Decision, Times
from proveout.tune.structures import LEAST_GAIN, Structure
from proveout.types import Settings

NOT_MEASURED = "not measured: out of time"
SEEN = 1e-4
"""A difference of PCCs that is told."""


@dataclass
class Verified:
    settings: Settings
    ns: int
    calls: tuple[Close, ...]
    """The model's own, then those held out, up to the first that fails."""
    by: Literal["solver", "greedy", "start"]
    assignment: Mapping[int, int] = field(default_factory=dict)
    predicted_ns: int = 0
    predicted: Errors = ()

    @property
    def pcc(self) -> float:
        """The lowest."""
        return min(call.pcc for call in self.calls)

    @property
    def error(self) -> float:
        return max(call.error for call in self.calls)


def weighed(
    decisions: Sequence[Decision],
    times: Times,
    problem: Problem,
    assignment: Assignment,
) -> Iterator[Weighed]:
    now = times.ns({}) or 0
    for d, one in enumerate(decisions):
        after = [times.ns({d: v}) for v in range(len(one.values))]
        saves = tuple(None if ns is None else now - ns for ns in after)
        noises, drifts = (
            tuple(() if v == 0 else known.get((d, v)) for v in range(len(one.values)))
            for known in (problem.errors, problem.drifts)
        )
        yield Weighed(one.op, one.about, one.ops, one.values, noises, drifts, saves, assignment.get(d, 0))


def path(
    structures: Sequence[Structure],
    problem: Problem,
    best: Verified,
    start: Verified,
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
        yield Taken(f"for all ops: {said}", ns, start.ns - ns, _pcc(problem.error({})))
    left, done = dict(best.assignment), dict[int, int]()
    while left:
        after = {d: times.ns({**done, d: v}) for d, v in left.items()}
        d = min(left, key=lambda d: after[d] or math.inf)
        done[d] = left.pop(d)
        then = after[d] or ns
        yield Taken(times.decisions[d].said(done[d]), then, ns - then, _pcc(problem.error(done)))
        ns = then


def rejected(
    decisions: Sequence[Decision],
    times: Times,
    problem: Problem,
    best: Verified,
) -> Iterator[Rejected]:
    """Values that are quicker and were not chosen, the most tempting first."""
    now = times.ns(best.assignment) if best.by == "solver" else times.ns({})
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
        if saves < LEAST_GAIN * (now or 1):
            yield Rejected(change, saves, None, "gain too small")
        elif (d, v) not in problem.errors:
            yield Rejected(change, saves, None, NOT_MEASURED)
        else:
            then = {**best.assignment, d: v}
            pcc = _pcc(problem.error(then))
            noise_alone = _pcc(replace(problem, start_drift=()).error(then))
            scale = f", {noise_alone:.5f} but for its scale" if noise_alone - pcc > SEEN else ""
            yield Rejected(change, saves, pcc, f"PCC {pcc:.5f} by the sum of errors{scale}")


def _pcc(errors: Errors) -> float:
    """As if all of the error were noise."""
    return math.sqrt(max(0.0, 1 - max((0.0, *errors))))
