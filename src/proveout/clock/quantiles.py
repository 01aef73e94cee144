"""Exact quantiles of the two distributions that intervals here rest on: Student's t and the binomial."""

from __future__ import annotations

import functools
import math

import numpy as np


@functools.cache
def student_t(probability: float, freedom: int) -> float:
    """The value that a Student variable with `freedom` whole degrees stays below with this probability."""
    if freedom < 1 or not 0 < probability < 1:
        raise ValueError(
            f"Student's t with {freedom} degrees of freedom at {probability}: needs at least 1, and 0 < p < 1"
        )
    if probability < 0.5:
        return -student_t(1 - probability, freedom)
    low, high = 0.0, 1.0
    while _within(high, freedom) < 2 * probability - 1:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 2 * probability - 1 else (low, middle)
    return (low + high) / 2


def order_statistics(n: int, share: float, outside: float) -> tuple[int, int] | None:
    """The 1-based ranks whose values bracket the `share` quantile of n independent samples; None if n is too small.

    Each end misses with at most half of `outside`. How many of n samples lie at or below the quantile is binomial.
    """
    if n < needed(share, outside):
        return None
    spread = math.sqrt(n * share * (1 - share))
    first = max(0, math.floor(n * share - 12 * spread - 60))
    last = min(n, math.ceil(n * share + 12 * spread + 60))
    counts = np.arange(first, last, dtype=np.float64)
    steps = np.log((n - counts) / (counts + 1)) + math.log(share / (1 - share))
    weights = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(weights - weights.max())
    at_most = np.cumsum(weights) / weights.sum()
    low = first + int(np.searchsorted(at_most, outside / 2, side="right"))
    high = first + int(np.searchsorted(at_most, 1 - outside / 2, side="left")) + 1
    return low, high


def needed(share: float, outside: float) -> int:
    """How many independent samples bracket this quantile: fewer may all lie on one side of it too often."""
    return math.ceil(math.log(outside / 2) / math.log(max(share, 1 - share)))


def _within(t: float, freedom: int) -> float:
    """P(|T| < t): the finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    return (angle + sine * total) * 2 / math.pi if odd else sine * total
