"""The block bootstrap of a mean in closed form: how far a mean of autocorrelated samples may be from the truth.

A block bootstrap draws blocks of consecutive samples again and again to see how much their mean varies. For a mean,
that variance is known without drawing (Künsch 1989): it is the long-run variance with Bartlett weights. So there is no
seed and no noise of its own here, and the cost is one pass. Medians and percentiles use it through the series
"at or below the value".

The block length follows Politis and White (2004, corrected 2009), made longer by `LONGER`, since an interval is hurt
more by a variance that is too small than by one that is uncertain. The critical value is the fixed-b one (Kiefer and
Vogelsang 2005), which pays for that uncertainty.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
LONGER = 2.0
"""Chosen by simulation: AR(1) with coefficients up to 0.9 are covered as declared (tests/unit/test_statistics.py)."""
MAX_BATCHES = 8192
"""Longer samples are first summed in this many batches, so cost is bounded and no sample is left out."""
_FIXED_B_97_5 = (1.9600, 2.9694, 0.4160, -0.5324)
"""Polynomial in block length ÷ length: the 97.5 % point for Bartlett weights, Kiefer and Vogelsang's table 1."""


def half_width(values: npt.NDArray[Any], centre: float) -> float:
    """Half of the 95 % interval of the mean of `values`, which lie in time order around `centre`, their mean."""
    spread, reach = _spread(values, centre)
    return reach * math.sqrt(spread / len(values))


def clustering(values: npt.NDArray[Any], centre: float, variance: float) -> float:
    """How many times fewer independent samples `values` are worth when a mean is taken (never less than 1).

    The critical value's excess over the normal one is in it, so that it can stand in for an interval's width.
    """
    if variance <= 0:
        return 1.0
    spread, reach = _spread(values, centre)
    return max(1.0, spread / variance * (reach / critical(0)) ** 2)


def block_length(deviations: Floats) -> int:
    """Long enough to hold the dependence between neighbours; at most a fifth of the series.

    At least its cube root: a short series cannot show that it is independent, and the critical value pays for that.
    """
    n = len(deviations)
    shortest = min(math.ceil(n ** (1 / 3)), max(1, n // 5))
    covariances = autocovariances(deviations)
    if n < 10 or covariances[0] <= 0:
        return shortest
    window = max(5, math.ceil(math.sqrt(math.log10(n))))
    max_lag = min(math.ceil(math.sqrt(n)) + window, n - 1)
    quiet = np.abs(covariances[1 : max_lag + 1] / covariances[0]) < 2 * math.sqrt(math.log10(n) / n)
    all_quiet = np.lib.stride_tricks.sliding_window_view(quiet, min(window, len(quiet))).all(axis=1)
    last_loud = int(all_quiet.argmax()) if all_quiet.any() else max_lag
    bandwidth = min(2 * max(last_loud, 1), max_lag)
    lags = np.arange(1, bandwidth + 1)
    flat_top = np.clip(2 * (1 - lags / bandwidth), 0, 1)
    weighted = flat_top * covariances[1 : bandwidth + 1]
    spectrum = covariances[0] + 2 * float(weighted.sum())
    if last_loud == 0 or spectrum <= 0:
        return shortest
    slope = 2 * float((lags * weighted).sum())
    best = (1.5 * slope**2 / spectrum**2 * n) ** (1 / 3)
    return max(shortest, min(math.ceil(LONGER * best), n // 5))


def long_run_variance(deviations: Floats, block: int) -> float:
    """The variance that blocks of this length see, per value; windows that reach over an end count what they hold."""
    total = np.concatenate([np.zeros(block), np.cumsum(deviations), np.full(block - 1, deviations.sum())])
    sums = total[block:] - total[:-block]
    return float(np.dot(sums, sums)) / (len(deviations) * block)


def critical(share: float) -> float:
    """Standard errors that a 95 % interval reaches, where blocks are this share of the series: 1.96 for short ones."""
    return float(np.polynomial.polynomial.polyval(share, _FIXED_B_97_5))


def autocovariances(deviations: Floats) -> Floats:
    """At lags 0, 1, … of a series whose mean is zero."""
    n = len(deviations)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(deviations, size)
    return np.fft.irfft(spectrum * spectrum.conj(), size)[:n] / n


def _batches(values: npt.NDArray[Any], centre: float) -> Floats:
    n = len(values)
    if n <= 4 * MAX_BATCHES:
        return values.astype(np.float64) - centre
    edges = np.arange(MAX_BATCHES + 1, dtype=np.int64) * n // MAX_BATCHES
    # whole numbers add up exactly and without a copy as floats; a batch of times is far from 2⁶³ ns
    whole = np.int64 if values.dtype.kind in "iub" else np.float64
    return np.add.reduceat(values, edges[:-1], dtype=whole) - centre * np.diff(edges)


def _spread(values: npt.NDArray[Any], centre: float) -> tuple[float, float]:
    """The long-run variance of one value, and the critical value for the blocks that gave it."""
    deviations = _batches(values, centre)
    block = block_length(deviations)
    spread = long_run_variance(deviations, block) * len(deviations) / len(values)
    return spread, critical(block / len(deviations))
