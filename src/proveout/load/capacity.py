"""How many requests per second can it take? The highest rate at which so large a share keeps every limit.

Runs are noisy, so a rate is met when the share is reached, *shown* when its interval lies above it, and missed for sure
when it lies below, or when the queue grows: each quarter waits longer than the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proveout.clock.quantiles import needed
from proveout.clock.statistics import Estimate
from proveout.errors import UsageError
from proveout.load.exchange import Run
from proveout.load.figures import share, times
from proveout.load.slo import Slo
from proveout.measure.capacity import MOST_RUNS, Rates, grows, search

ATTAIN = 0.99
PRECISION = 0.05
FEWEST = 10
"""Requests of a run: a search that has come down to fewer ends."""


@dataclass(frozen=True)
class RateTried:
    """One run. `met` is None where it could not be said."""

    rate: float
    met: bool | None
    good_share: Estimate
    goodput: float
    reason: str = ""


@dataclass(frozen=True)
class GoodputCapacity(Rates):
    slo: str
    attain: float
    runs: tuple[RateTried, ...]


def capacity(
    run: Callable[[float], Run],
    slo: Slo,
    *,
    start_rate: float,
    attain: float = ATTAIN,
    precision: float = PRECISION,
    most_runs: int = MOST_RUNS,
) -> GoodputCapacity:
    """Search with `run(rate)`; ends within `precision`."""
    check(slo, attain)
    if not 0 < start_rate < math.inf:
        raise UsageError(f"a rate of {start_rate:g}: give a number above 0.")
    tries, rates = search(
        lambda rate: tried(run(rate), rate, slo, attain),
        start_rate,
        precision,
        most_runs,
        within=lambda t: t.good_share.low is not None and t.good_share.low >= attain,
        beyond=lambda t: (t.good_share.high or 0.0) < attain,
        missed_all=f"kept {slo} for {attain:.4g} of the requests",
    )
    return GoodputCapacity(**vars(rates), slo=str(slo), attain=attain, runs=tuple(tries))


def check(slo: Slo, attain: float) -> None:
    if not slo.longest_ns:
        raise UsageError(
            "a capacity is the highest rate that keeps limits: give them, such as --slo ttft=200ms,tpot=50ms."
        )
    if not 0 < attain < 1:
        raise UsageError(f"a share of {attain:g}: give one between 0 and 1, such as 0.99.")


def tried(run: Run, rate: float, slo: Slo, attain: float) -> RateTried:
    """What one run says about one rate."""
    if not run.answered or (run.status == "partial" and run.reason == "interrupted"):
        why = run.reason or "no request was answered"
        return RateTried(rate, None, Estimate(None, reason=why), 0.0, f"at {rate:g} per second: {why}")
    kept = np.array([slo.kept(e) for e in run.exchanges])
    good = share(kept)
    goodput = int(kept.sum()) * 1e9 / max(run.ended_ns - run.started_ns, 1)
    if growth := grows(times(run, "ttft")):
        return RateTried(rate, False, good, goodput, growth)
    reached = (good.value or 0.0) >= attain
    if not reached and len(kept) < FEWEST:
        few = f"even at {rate:.3g} per second, {attain:.4g} of the requests do not keep {slo}"
        return RateTried(rate, None, good, goodput, few)
    needs = needed(attain, 0.05)
    if reached and len(kept) < needs:
        longer = f"at {rate:g} per second, {attain:.4g} of the requests needs {needs} of them; there were {len(kept)}: "
        return RateTried(rate, None, good, goodput, longer + f"run for at least {needs / rate:.0f} s")
    return RateTried(rate, reached, good, goodput)
