"""How much load can it take? Goodput, and a search for the highest rate whose latency stays under a bound.

A rate is met when the percentile of response times, counted from the intended starts, is within the bound and the queue
does not grow. The search doubles or halves until one rate is met and one is not, then narrows geometrically. Runs are
noisy, so the answer has two more numbers: the highest rate *shown* to meet the bound, and the lowest shown to miss it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from proveout.clock.blocks import half_width
from proveout.clock.stamps import Stamps
from proveout.clock.statistics import Estimate, summarise
from proveout.clock.steady import MIN_SAMPLES, steady_state
from proveout.errors import UsageError
from proveout.measure.outcome import Outcome
from proveout.measure.series import merged, phase

PRECISION = 0.02
MOST_RUNS = 24
PERCENT = 99.0
GROWTH = 1.5
"""How much longer the last quarter of the calls takes than the first in a queue that grows."""


class RateProbe(Protocol):
    """What a search needs to know of one run: whether its rate was met, or why that could not be said."""

    @property
    def rate(self) -> float: ...
    @property
    def met(self) -> bool | None: ...
    @property
    def reason(self) -> str: ...


T = TypeVar("T", bound=RateProbe)


@dataclass(frozen=True)
class Probe:
    """One run. `latency_ms` is the percentile that the bound is for; `met` is None where it could not be said."""

    rate: float
    met: bool | None
    latency_ms: Estimate
    throughput: float
    goodput: float
    reason: str = ""


@dataclass(frozen=True)
class Rates:
    """`rate` is the highest that met the bound; None where none did, or where the runs could not tell (`reason`)."""

    rate: float | None
    shown_rate: float | None
    """The highest whose interval lies within the bound."""
    missed_rate: float | None
    """The lowest that did not meet it."""
    shown_missed_rate: float | None
    """The lowest whose interval lies beyond the bound, or whose queue grew."""
    reason: str


@dataclass(frozen=True)
class Capacity(Rates):
    bound_ms: float
    percent: float
    probes: tuple[Probe, ...]


def capacity(
    run: Callable[[float], Outcome],
    bound_ms: float,
    *,
    start_rate: float,
    percent: float = PERCENT,
    precision: float = PRECISION,
    most_runs: int = MOST_RUNS,
) -> Capacity:
    """Search with `run(rate)`, an open-loop benchmark at that many calls per second; ends within `precision`."""
    for name, value in (("bound_ms", bound_ms), ("start_rate", start_rate), ("precision", precision)):
        if not 0 < value < math.inf:
            raise UsageError(f"{name} is {value:g}: give a number above 0.")
    probes, rates = search(
        lambda rate: probed(run(rate), rate, bound_ms, percent),
        start_rate,
        precision,
        most_runs,
        within=lambda p: p.latency_ms.high is not None and p.latency_ms.high <= bound_ms,
        beyond=lambda p: p.latency_ms.low is not None and p.latency_ms.low > bound_ms,
        missed_all=f"met {bound_ms:g} ms",
    )
    return Capacity(**vars(rates), bound_ms=bound_ms, percent=percent, probes=tuple(probes))


def search(
    probe: Callable[[float], T],
    start_rate: float,
    precision: float,
    most_runs: int,
    *,
    within: Callable[[T], bool],
    beyond: Callable[[T], bool],
    missed_all: str,
) -> tuple[list[T], Rates]:
    """All runs, and the rates that they show: `within` and `beyond` say whether a run's interval lies on one side."""
    met = missed = None
    rate, reason = float(start_rate), ""
    probes: list[T] = []
    while len(probes) < most_runs:
        tried = probe(rate)
        probes.append(tried)
        if tried.met is None:
            reason = tried.reason
            break
        met, missed = (rate, missed) if tried.met else (met, rate)
        if met is not None and missed is not None and missed / met <= 1 + precision:
            break
        rate = rate * 2 if missed is None else rate / 2 if met is None else math.sqrt(met * missed)
    else:
        reason = f"{most_runs} runs did not narrow it to {precision:.0%}"
    if met is None and not reason:
        reason = f"no rate down to {min(p.rate for p in probes):g} per second {missed_all}"
    shown = [p.rate for p in probes if p.met and within(p)]
    shown_missed = [p.rate for p in probes if p.met is False and (p.reason or beyond(p))]
    return probes, Rates(met, max(shown, default=None), missed, min(shown_missed, default=None), reason)


def probed(outcome: Outcome, rate: float, bound_ms: float, percent: float = PERCENT) -> Probe:
    """What one run says about one rate."""
    calls = merged(outcome)
    started, ended = phase(outcome, calls)
    seconds = max(ended - started, 1) / 1e9
    if not len(calls) or outcome.status in ("failed", "skipped"):
        why = outcome.reason or "no call was completed"
        return Probe(rate, None, Estimate(None, reason=why), 0.0, 0.0, f"at {rate:g} per second: {why}")
    done = len(calls) * outcome.configuration.batch_size / seconds
    latency = _ms(summarise(calls.latency_ns, (percent,)).percentile(percent))
    good = goodput(outcome, bound_ms)
    if growth := grows(calls.latency_ns):
        return Probe(rate, False, latency, done, good, growth)
    late = calls.latency_ns > bound_ms * 1e6
    share = float(late.mean())
    if len(late) >= MIN_SAMPLES and share - half_width(late, share) > 1 - percent / 100:
        return Probe(rate, False, latency, done, good, f"{share:.1%} of the calls took longer than {bound_ms:g} ms")
    if latency.value is None:
        longer = f"at {rate:g} per second, {latency.reason}: run for at least {latency.needs / rate:.0f} s"
        return Probe(rate, None, latency, done, good, longer)
    return Probe(rate, latency.value <= bound_ms, latency, done, good)


def goodput(outcome: Outcome, bound_ms: float) -> float:
    """Items per second whose response came within the bound: what users got in time, out of what was completed."""
    calls = merged(outcome)
    started, ended = phase(outcome, calls)
    in_time = int(np.count_nonzero(calls.latency_ns <= bound_ms * 1e6))
    return in_time * outcome.configuration.batch_size * 1e9 / max(ended - started, 1)


def grows(latency_ns: Stamps) -> str:
    """Why the queue is said to grow: no steady state, and each quarter waits longer than the one before it."""
    state = steady_state(latency_ns)
    quarters = [float(q.mean()) for q in np.array_split(latency_ns, 4)] if len(latency_ns) >= MIN_SAMPLES else []
    if state.steady or quarters != sorted(quarters) or not quarters or quarters[3] < GROWTH * quarters[0]:
        return ""
    times = quarters[3] / quarters[0]
    return f"the queue grows: the last quarter of the calls took {times:.1f} times as long as the first"


def _ms(ns: Estimate) -> Estimate:
    value, low, high = (None if v is None else v / 1e6 for v in (ns.value, ns.low, ns.high))
    return Estimate(value, low, high, ns.reason, ns.needs)
