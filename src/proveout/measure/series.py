"""What happened when: all workers' calls as one series by their ends; throughput and latency in equal windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proveout.clock.stamps import NO_STAMPS, Calls, Stamps
from proveout.measure.outcome import Outcome

MOST_WINDOWS = 600
SECOND = 1_000_000_000
STEPS_A_SECOND = 100
"""How finely the busiest second is looked for."""


@dataclass(frozen=True, eq=False)
class CallSeries(Calls):
    """Every completed call of an Outcome in the order of its end. Parts that were not timed are empty."""

    @cached_property
    def service_ns(self) -> Stamps:
        return self.ends_ns - self.starts_ns

    @cached_property
    def latency_ns(self) -> Stamps:
        """What a user felt: from the intended start where there is one, from the actual start otherwise."""
        return self.ends_ns - self.intended_ns if len(self.intended_ns) else self.service_ns

    def ended_within(self, started_ns: int, ended_ns: int) -> slice:
        """The calls that ended in this time, both ends included."""
        first, last = np.searchsorted(self.ends_ns, [started_ns, ended_ns + 1])
        return slice(int(first), int(last))

    def __len__(self) -> int:
        return len(self.ends_ns)


@dataclass(frozen=True)
class TimeWindow:
    """Calls that ended between two times, in seconds after the measured phase began; no latency where none ended."""

    from_s: float
    to_s: float
    throughput: float
    latency_ms_avg: float | None
    latency_ms_max: float | None


def merged(outcome: Outcome) -> CallSeries:
    """All workers' calls as one series."""
    workers = [w for w in outcome.workers if len(w.ends_ns)]
    if not workers:
        return CallSeries(*(NO_STAMPS,) * 7)
    fields = [f.name for f in CallSeries.__dataclass_fields__.values()]
    ends = np.concatenate([w.ends_ns for w in workers])
    # One worker's stamps are in order already, and sorting runs that are is what a stable sort is quick at.
    order = None if len(workers) == 1 and bool((ends[1:] >= ends[:-1]).all()) else np.argsort(ends, kind="stable")

    def column(name: str) -> Stamps:
        parts = [getattr(w, name) for w in workers]
        if sum(map(len, parts)) != len(ends):
            return NO_STAMPS
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return whole if order is None else whole[order]

    return CallSeries(*(column(name) for name in fields))


def phase(outcome: Outcome, calls: CallSeries) -> tuple[int, int]:
    """When measuring began and ended; from the stamps themselves where the harness could not say."""
    if outcome.ended_ns > outcome.started_ns or not len(calls):
        return outcome.started_ns, outcome.ended_ns
    return outcome.started_ns or int(calls.starts_ns.min()), int(calls.ends_ns[-1])


def windows(calls: CallSeries, started_ns: int, ended_ns: int, items: int) -> list[TimeWindow]:
    """One a second, or `MOST_WINDOWS` of equal length for a longer run; a run of few seconds has shorter ones."""
    elapsed = ended_ns - started_ns
    if elapsed <= 0 or not len(calls):
        return []
    count = int(min(MOST_WINDOWS, elapsed, max(elapsed // SECOND, min(20, len(calls)))))
    edges = started_ns + np.arange(count + 1, dtype=np.int64) * elapsed // count
    places = np.searchsorted(calls.ends_ns, edges, side="right")
    places[0] = np.searchsorted(calls.ends_ns, started_ns, side="left")
    latency = calls.latency_ns
    listed = []
    for i in range(count):
        first, last = int(places[i]), int(places[i + 1])
        inside = latency[first:last]
        seconds = float(edges[i + 1] - edges[i]) / 1e9
        listed.append(
            TimeWindow(
                float(edges[i] - started_ns) / 1e9,
                float(edges[i + 1] - started_ns) / 1e9,
                (last - first) * items / seconds,
                float(inside.mean()) / 1e6 if last > first else None,
                float(inside.max()) / 1e6 if last > first else None,
            )
        )
    return listed


def peak(calls: CallSeries, started_ns: int, ended_ns: int, items: int) -> float | None:
    """The most items that were completed in any one second of the measured phase; None if it was shorter."""
    if ended_ns - started_ns < SECOND or not len(calls):
        return None
    steps = (ended_ns - started_ns) * STEPS_A_SECOND // SECOND
    edges = started_ns + np.arange(steps + 1, dtype=np.int64) * (SECOND // STEPS_A_SECOND)
    before = np.searchsorted(calls.ends_ns, edges, side="right")
    before[0] = np.searchsorted(calls.ends_ns, started_ns, side="left")
    return float((before[STEPS_A_SECOND:] - before[:-STEPS_A_SECOND]).max()) * items
