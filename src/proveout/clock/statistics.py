"""What a sample of times says: centre, spread and percentiles, each with its 95 % interval or the reason for none.

Samples stand in the order in which they ended, since neighbours are alike and an interval must know that; those of
several workers are merged so first. Every sample counts: nothing is trimmed, and a long sample is summed in batches,
never thinned. Intervals cover the truth in 93–97 % of simulated runs, autocorrelated ones too, where a sample is
worth at least 100 independent ones (`Summary.independent`); tail bounds err to the wide side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from proveout.clock.blocks import CONFIDENCE, clustering, half_width
from proveout.clock.quantiles import needed, order_statistics
from proveout.errors import UsageError

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
CURVE = tuple(
    float(share) for share in np.concatenate([np.linspace(0, 0.95, 96), 1 - np.geomspace(0.04, 1e-6, 47), [1]])
)
"""Shares at which the distribution is kept for drawing: one a percent, and finer towards the slowest calls."""
MIN_FOR_INTERVAL = 10
"""Fewer samples cannot show how alike neighbours are."""
COUNTED_FROM, COUNTED_NS = 1 << 20, 1 << 24
ENOUGH_BEYOND = 100
"""So many samples beyond a level show whether they come in bursts."""


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that holds the truth; what is None has its `reason` and the `needs` in samples."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    needs: int = 0

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return f"{self.value:.6g} ({self.reason})" if self.value is not None else self.reason
        return f"{self.value:.6g} [{self.low:.6g}, {self.high:.6g}]"


@dataclass(frozen=True)
class Percentile:
    percent: float
    ns: Estimate


@dataclass(frozen=True)
class Summary:
    """One sample of times in ns. `independent` is how many independent samples it is worth when a mean is taken."""

    n: int
    independent: float
    mean_ns: Estimate
    median_ns: Estimate
    std_ns: float
    iqr_ns: float
    mad_ns: float
    min_ns: int
    max_ns: int
    percentiles: tuple[Percentile, ...]
    curve_ns: tuple[float, ...] = ()
    """The sample's own quantiles at the shares of `CURVE`: for drawing, without a claim about the truth."""

    def percentile(self, percent: float) -> Estimate:
        estimate = next((p.ns for p in self.percentiles if p.percent == percent), None)
        if estimate is None:
            known = ", ".join(f"{p.percent:g}" for p in self.percentiles)
            raise UsageError(f"percentile {percent:g} was not summarised; there are {known}. Ask summarise for it.")
        return estimate


def summarise(samples_ns: npt.ArrayLike, percents: Sequence[float] = PERCENTILES) -> Summary:
    """All that is said about one sample of times, in the order in which they ended."""
    samples = checked(samples_ns)
    ordered = _sorted(samples)
    centre = float(samples.mean())
    variance = float(samples.var())
    quartiles = [_interpolated(ordered, share) for share in (0.25, 0.75)]
    median = _median(samples, ordered)
    return Summary(
        n=len(samples),
        independent=len(samples) / clustering(samples, centre, variance),
        mean_ns=_mean(samples, centre),
        median_ns=median,
        std_ns=math.sqrt(variance),
        iqr_ns=quartiles[1] - quartiles[0],
        mad_ns=_median_absolute_deviation(ordered),
        min_ns=int(ordered[0]),
        max_ns=int(ordered[-1]),
        percentiles=tuple(
            Percentile(float(p), median if p == 50 else _percentile(samples, ordered, float(p))) for p in percents
        ),
        curve_ns=tuple(_interpolated(ordered, share) for share in CURVE),
    )


def mean(samples_ns: npt.ArrayLike) -> Estimate:
    """Only the mean, for times that need no more: a fraction of the cost of `summarise`."""
    samples = checked(samples_ns)
    return _mean(samples, float(samples.mean()))


def throughput(ends_ns: npt.ArrayLike, started_ns: int, ended_ns: int, items: int = 1) -> Estimate:
    """Completed ÷ elapsed, in items per second, from when each call of any worker ended; `items` is the batch size.

    The interval is that of the mean gap between ends, so stalls and the workers' dependence on each other are in it.
    """
    ends = checked(ends_ns)
    if not (ends[1:] >= ends[:-1]).all():
        ends = np.sort(ends)
    elapsed = ended_ns - started_ns
    if elapsed <= 0 or ends[0] < started_ns or ends[-1] > ended_ns:
        raise UsageError(
            f"calls ended between {ends[0]} and {ends[-1]} ns, outside the measured {started_ns} to {ended_ns} ns. "
            "Give the stamps of one clock, and only calls that ended while it was measured."
        )
    rate = len(ends) * items * 1e9 / elapsed
    if len(ends) < MIN_FOR_INTERVAL:
        return _too_few(rate, len(ends))
    gaps = np.diff(ends, prepend=started_ns)
    gap = float(gaps.mean())
    share = half_width(gaps, gap) / gap if gap > 0 else 0.0
    if share >= 1:
        return Estimate(rate, reason="the gaps between ends vary more than their mean. Measure for longer")
    return Estimate(rate, rate / (1 + share), rate / (1 - share))


def checked(samples_ns: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The samples as int64, or why they are none."""
    samples = np.asarray(samples_ns)
    if samples.ndim != 1 or samples.size == 0:
        raise UsageError(f"samples of shape {samples.shape}: at least one time in ns is needed, in one dimension.")
    if samples.dtype.kind not in "iu":
        raise UsageError(f"samples are {samples.dtype}: times are whole ns (int64). Convert where they are read.")
    if int(samples.min()) < 0:
        raise UsageError(f"a time of {samples.min()} ns: the clock went backwards. Use time.perf_counter_ns.")
    return samples.astype(np.int64, copy=False)


def _mean(samples: npt.NDArray[np.int64], centre: float) -> Estimate:
    if len(samples) < MIN_FOR_INTERVAL:
        return _too_few(centre, len(samples))
    half = half_width(samples, centre)
    return Estimate(centre, centre - half, centre + half)


def _median(samples: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64]) -> Estimate:
    """Ranks around the middle, as far as the share of samples below it may be off; ties count by half."""
    n = len(ordered)
    median = _interpolated(ordered, 0.5)
    if n < MIN_FOR_INTERVAL:
        return _too_few(median, n)
    below = (samples < median).astype(np.int8) + (samples <= median)
    half = half_width(below, float(below.mean())) / 2
    low = max(math.ceil(n * (0.5 - half)), 1)
    high = min(math.floor(n * (0.5 + half)) + 1, n)
    return Estimate(median, float(ordered[low - 1]), float(ordered[high - 1]))


def _percentile(samples: npt.NDArray[np.int64], ordered: npt.NDArray[np.int64], percent: float) -> Estimate:
    """Binomial bounds for as many independent samples as those beyond the percentile are worth: stalls come in bursts.

    Whether the sample supports the percentile at all is asked of a level with enough samples beyond it too: among few,
    bursts are found by chance only, and a sample that shows none would be believed.
    """
    if not 0 < percent < 100:
        raise UsageError(f"percentile {percent:g}: give one between 0 and 100; the ends are min_ns and max_ns.")
    n, share = len(ordered), percent / 100
    value = _interpolated(ordered, share)
    bursts = _bursts(samples, value)
    common = _interpolated(ordered, min(share, max(0.5, 1 - ENOUGH_BEYOND / n)))
    worst = max(bursts, _bursts(samples, common)) if common < value else bursts
    outside = 1 - CONFIDENCE
    needs = math.ceil(needed(share, outside) * worst)
    if n < needs:
        worth = f", worth {math.floor(n / worst)} independent ones" if worst > 1 else ""
        return Estimate(None, reason=f"p{percent:g} needs {needs} samples; there are {n}{worth}", needs=needs)
    independent = math.floor(n / bursts)
    ranks = order_statistics(independent, share, outside)
    assert ranks is not None, "needs is at least what the ranks need"
    low = max(math.floor(ranks[0] * n / independent), 1)
    high = min(math.ceil(ranks[1] * n / independent), n)
    return Estimate(value, float(ordered[low - 1]), float(ordered[high - 1]))


def _bursts(samples: npt.NDArray[np.int64], level: float) -> float:
    beyond = samples > level
    share = float(beyond.mean())
    return clustering(beyond, share, share * (1 - share))


def _too_few(value: float, n: int) -> Estimate:
    return Estimate(
        value, reason=f"an interval needs {MIN_FOR_INTERVAL} samples; there are {n}", needs=MIN_FOR_INTERVAL
    )


def _sorted(samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sorted. A large sample whose times mostly lie within `COUNTED_NS` of the fastest is counted: half of the cost."""
    if len(samples) < COUNTED_FROM:
        return np.sort(samples)
    first = samples.min()
    offsets = samples - first
    near = offsets < COUNTED_NS
    num_far = len(samples) - int(np.count_nonzero(near))
    if num_far > len(samples) // 8:
        return np.sort(samples)
    counts = np.bincount(offsets[near] if num_far else offsets)
    far = np.sort(offsets[~near]) if num_far else offsets[:0]
    return np.concatenate([np.repeat(np.arange(len(counts)), counts), far]) + first


def _interpolated(ordered: npt.NDArray[Any], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below]) + float(ordered[above] - ordered[below]) * (position - below)


def _median_absolute_deviation(ordered: npt.NDArray[np.int64]) -> float:
    """By bisection over the sorted samples, in half ns, where a median of whole ns is whole too: no second sort."""
    n = len(ordered)
    twice_median = int(ordered[(n - 1) // 2]) + int(ordered[n // 2])

    def deviation(rank: int) -> int:
        low, high = -1, 2 * max(int(ordered[-1]), 1) + 2
        while high - low > 1:
            middle = (low + high) // 2
            first = np.searchsorted(ordered, -((middle - twice_median) // 2), side="left")
            last = np.searchsorted(ordered, (twice_median + middle) // 2, side="right")
            low, high = (middle, high) if last - first < rank else (low, middle)
        return high

    return (deviation((n + 1) // 2) + deviation(n // 2 + 1)) / 4
