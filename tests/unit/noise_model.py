"""The noise that the statistics are proved on: AR(1) neighbours, lognormal calls, luck of runs, rare stalls."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

MEDIAN_NS = 1_000_000


def ar1(rng: np.random.Generator, shape: tuple[int, ...], coefficient: float) -> np.ndarray:
    """Stationary from the first value on, standard normal each, along the last axis."""
    shocks = rng.standard_normal(shape) * np.sqrt(1 - coefficient**2)
    shocks[..., 0] /= np.sqrt(1 - coefficient**2)
    return lfilter([1.0], [1.0, -coefficient], shocks, axis=-1)


def calls(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    *,
    coefficient: float = 0.5,
    sigma: float = 0.1,
    stalls: float = 0.001,
) -> np.ndarray:
    """Times in ns around a median of 1 ms; one call in 1000 stalls for 10 to 100 medians more."""
    times = MEDIAN_NS * np.exp(sigma * ar1(rng, shape, coefficient))
    stalled = rng.random(shape) < stalls
    times[stalled] += MEDIAN_NS * rng.uniform(10, 100, int(stalled.sum()))
    return times.astype(np.int64)


def pairs(
    rng: np.random.Generator,
    num_pairs: int,
    samples: int,
    *,
    slowdown: float = 0.0,
    between_runs: float = 0.01,
    sigma: float = 0.1,
    drift: float = 0.02,
) -> tuple[np.ndarray, np.ndarray]:
    """Runs of A and of B in the order A B, B A, …, on a machine that slows down by `drift` over all of them."""
    luck = np.exp(between_runs * rng.standard_normal((num_pairs, 2)))
    order = np.arange(2 * num_pairs).reshape(num_pairs, 2)
    order[1::2] = order[1::2, ::-1]
    speed = luck * (1 + drift * order / (2 * num_pairs)) * np.array([1.0, 1.0 + slowdown])
    runs = calls(rng, (num_pairs, 2, samples), sigma=sigma) * speed[:, :, None]
    return runs[:, 0].astype(np.int64), runs[:, 1].astype(np.int64)
