"""Times in a histogram of constant size, for runs whose stamps would not fit in memory: what it keeps and what it says.

Bins are log-linear: exact below 256 ns, then 128 for each power of two, so a value is known to 0.8 %. Order is not
kept, so there are no intervals, no steady state and no series; count, sum, least, largest and the last end are exact.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from proveout.clock.blocks import CONFIDENCE
from proveout.clock.quantiles import needed
from proveout.clock.stamps import Stamps
from proveout.clock.statistics import CURVE, Estimate, Percentile, Summary
from proveout.coding import check_plain

COLUMNS = ("histogram",)
"""What stands for the columns of a file that holds a histogram."""
BITS = 8
SUM, LEAST, LARGEST, LAST_END, HEAD = 0, 1, 2, 3, 4
LONGEST_BITS = 44
"""Calls of up to 4.8 h."""
NUM_BINS = ((LONGEST_BITS - BITS) << (BITS - 1)) + (1 << BITS)
NO_ORDER = "a histogram keeps no order of calls, which an interval needs: use recording='raw'"


class HistogramWriter:
    """The histogram of one worker in a shared file; to the loops it is a file that never ends."""

    width, rows = 0, 1 << 62

    def __init__(self, path: Path) -> None:
        self.row, self.start = 0, 0
        size = (HEAD + NUM_BINS) * 8
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
            self.view = memoryview(mmap.mmap(file, size)).cast("q")
        finally:
            os.close(file)

    def grow(self) -> None:
        """There is always room."""

    def restart(self, now_ns: int) -> None:
        self.start = now_ns

    def written(self, row: int) -> int:
        return int(np.asarray(self.view[HEAD:]).sum())

    def close(self) -> None:
        """Nothing is open."""


class HistogramProgress:
    """When the last call ended, read from outside."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def latest_ns(self) -> int:
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(LAST_END * 8)
            return int.from_bytes(file.read(8), "little")

    def close(self) -> None:
        """Nothing is open."""


def read_bins(path: Path) -> Stamps:
    return np.fromfile(check_plain(path), dtype=np.int64)


def num_calls(bins: Stamps) -> int:
    return int(bins[HEAD:].sum()) if bins.size else 0


def last_end(bins: Stamps) -> int:
    return int(bins[LAST_END]) if bins.size else 0


def summary(workers: Sequence[Stamps]) -> Summary:
    """All workers' times as one Summary; every number without an interval says why."""
    files = [bins for bins in workers if num_calls(bins)]
    counts = np.sum([bins[HEAD:] for bins in files], axis=0)
    total = int(counts.sum())
    middles = _middles()
    below = np.cumsum(counts)

    def at(share: float) -> float:
        return float(middles[np.searchsorted(below, max(1, math.ceil(share * total)))])

    def percentile(percent: float) -> Estimate:
        needs = needed(percent / 100, 1 - CONFIDENCE)
        if total < needs:
            return Estimate(None, reason=f"p{percent:g} needs {needs} samples; there are {total}", needs=needs)
        return Estimate(at(percent / 100), reason=NO_ORDER)

    mean = sum(int(bins[SUM]) for bins in files) / total
    median = at(0.5)
    deviations = np.abs(middles - median)
    order = np.argsort(deviations)
    mad = float(deviations[order][np.searchsorted(np.cumsum(counts[order]), math.ceil(total / 2))])
    return Summary(
        n=total,
        independent=float(total),
        mean_ns=Estimate(mean, reason=NO_ORDER),
        median_ns=Estimate(median, reason=NO_ORDER),
        std_ns=math.sqrt(float((counts * (middles - mean) ** 2).sum()) / total),
        iqr_ns=at(0.75) - at(0.25),
        mad_ns=mad,
        min_ns=min(int(bins[LEAST]) for bins in files),
        max_ns=max(int(bins[LARGEST]) for bins in files),
        percentiles=tuple(Percentile(p, percentile(p)) for p in (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)),
        curve_ns=tuple(at(share) for share in CURVE),
    )


def _middles() -> np.ndarray:
    """The time in the middle of each bin."""
    half = 1 << (BITS - 1)
    index = np.arange(NUM_BINS, dtype=np.int64)
    shift = np.maximum(index // half - 1, 0)
    low = np.where(index < 2 * half, index, (index - shift * half) << shift)
    return low + ((1 << shift) - 1) / 2
