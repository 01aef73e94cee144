"""Finds the parameters of one form from measured rows: robust, logarithmic, held to what is physical.

The loss is of the logarithm of predicted over measured (a factor of two too long is as bad as two too short), and
grows linearly beyond `ROBUST`. Sources count more alike than their rows do. A parameter is held weakly to its guess,
and those of the two architectures to each other: what one chip's rows cannot tell follows the other's, in cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proveout.chip.costs import COSTS, GROUPS, NORM
from proveout.errors import EnvironmentFault

Array = np.ndarray[Any, Any]
ARCHES = ("wormhole_b0", "blackhole")
ROBUST = 0.12
"""Log errors beyond this count linearly."""
HELD = 0.04
"""Weight of a parameter's distance (in log) from its guess, against one row's log error."""
APART = 0.4
"""Weight of the distance between the architectures' parameters."""
SPAN = 4.0
"""A parameter stays within e to this power of its guess."""
SOURCES = 0.5
"""Each row weighs as its source's number of rows to minus this power: 0 is rows alike, 1 sources alike."""
GROUP_NAMES = ("memory", "core", "math")


@dataclass(frozen=True)
class Rows:
    """The rows of one form, as arrays."""

    names: tuple[str, ...]
    features: Array
    """A line for each row, in ns, a column for each name."""
    measured: Array
    arch: Array
    """0 or 1: the place in ARCHES."""
    source: Array
    shape: Array

    def take(self, at: Array) -> Rows:
        return Rows(self.names, self.features[at], self.measured[at], self.arch[at], self.source[at], self.shape[at])

    def __len__(self) -> int:
        return len(self.measured)


@dataclass(frozen=True)
class Parameters:
    """Costs of a form's features on each architecture, and the spread of their logarithms."""

    names: tuple[str, ...]
    values: Array
    """A line for each of ARCHES."""
    spread: Array

    def predict(self, rows: Rows) -> Array:
        return _predict(rows, self.values[rows.arch])[0]

    def told(self, arch: int) -> dict[str, tuple[float, float]]:
        return {
            n: (float(v), float(s)) for n, v, s in zip(self.names, self.values[arch], self.spread[arch], strict=True)
        }


def stacked(
    features: Sequence[Mapping[str, float]],
    measured: Sequence[float],
    arch: Sequence[str],
    sources: Sequence[str],
    shapes: Sequence[object],
) -> Rows:
    names = tuple(name for name in COSTS if any(name in f for f in features))
    table = np.array([[f.get(name, 0.0) for name in names] for f in features], dtype=float)
    keys = {shape: i for i, shape in enumerate(dict.fromkeys(shapes))}
    places = {source: i for i, source in enumerate(dict.fromkeys(sources))}
    return Rows(
        names,
        table,
        np.array(measured, dtype=float),
        np.array([ARCHES.index(a) if a in ARCHES else 0 for a in arch]),
        np.array([places[s] for s in sources]),
        np.array([keys[s] for s in shapes]),
    )


def _predict(rows: Rows, costs: Array) -> tuple[Array, Array]:
    """ns of each row, and its derivative by the logarithm of each cost."""
    spent = rows.features * costs
    group = np.array([GROUPS[n] for n in rows.names])
    launch = spent[:, group == "launch"].sum(axis=1)
    sums = {g: spent[:, group == g].sum(axis=1) for g in GROUP_NAMES}
    total = sum(s**NORM for s in sums.values())
    body = np.maximum(total, 1e-12) ** (1 / NORM)
    slope = np.ones_like(spent)
    for g in GROUP_NAMES:
        slope[:, group == g] = ((sums[g] / body) ** (NORM - 1))[:, None]
    return launch + body, spent * slope


def solve(rows: Rows) -> Parameters:
    """The parameters of a form."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise EnvironmentFault("fitting the time model needs scipy. Run: pip install scipy") from None

    count = len(rows.names)
    guess = np.log([COSTS[n].guess for n in rows.names])
    weight = _weights(rows)
    both = np.concatenate([np.eye(count)] * 2, axis=0)  # shared part of each architecture's logarithms

    low = np.array([_bound(n, 0) for n in rows.names])
    high = np.array([_bound(n, 1) for n in rows.names])

    def logs(x: Array) -> Array:
        fitted: Array = guess + np.clip(x[:count] + x[count:].reshape(2, count), low, high)
        return fitted

    def free(x: Array) -> Array:
        """Where a parameter is not at what cannot be exceeded."""
        moved = x[:count] + x[count:].reshape(2, count)
        return ((moved > low) & (moved < high)).astype(float)

    def residual(x: Array) -> Array:
        ns, _ = _predict(rows, np.exp(logs(x))[rows.arch])
        error = np.log(ns / rows.measured)
        return np.concatenate([_soft(error) * weight, HELD * x[:count], APART * x[count:]])

    def jacobian(x: Array) -> Array:
        ns, slope = _predict(rows, np.exp(logs(x))[rows.arch])
        error = np.log(ns / rows.measured)
        by_log = slope / ns[:, None] * (_soft_slope(error) * weight)[:, None] * free(x)[rows.arch]
        part = np.zeros((len(rows), 3 * count))
        part[:, :count] = by_log
        for arch in (0, 1):
            here = rows.arch == arch
            part[here, count * (1 + arch) : count * (2 + arch)] = by_log[here]
        held = np.diag([HELD] * count + [APART] * (2 * count))
        return np.concatenate([part, held])

    bounds = (np.concatenate([low, np.full(2 * count, -2.0)]), np.concatenate([high, np.full(2 * count, 2.0)]))
    solution = least_squares(residual, np.zeros(3 * count), jac=jacobian, bounds=bounds, max_nfev=200)
    values = np.exp(logs(solution.x))
    return Parameters(rows.names, values, _spread(solution, rows, both, count))


def _spread(solution: Any, rows: Rows, both: Array, count: int) -> Array:
    """Standard deviation of each architecture's logarithm, from the curvature of the loss at its minimum."""
    jac = solution.jac
    freedom = max(1, len(rows) - count)
    noise = max(float((solution.fun[: len(rows)] ** 2).sum()) / freedom, 1e-6)
    data = jac[: len(rows)]
    held = jac[len(rows) :]
    # a held parameter is known as well as its guess: to a factor of e
    curvature = data.T @ data / noise + np.diag((np.diag(held) != 0) * 1.0)
    covariance = np.linalg.pinv(curvature)
    spread = np.zeros((2, count))
    for arch in (0, 1):
        for i in range(count):
            pick = np.zeros(len(covariance))
            pick[i] = pick[count * (1 + arch) + i] = 1.0
            spread[arch, i] = max(0.0, float(pick @ covariance @ pick)) ** 0.5
    return np.minimum(spread, 1.0)


def _bound(name: str, side: int) -> float:
    known, guess = COSTS[name].bounds, COSTS[name].guess
    if known is None:
        return (-SPAN, SPAN)[side]
    return float(np.log(known[side] / guess)) + (1e-9 if side else -1e-9)


def _weights(rows: Rows) -> Array:
    """Of each row, from how many rows its source has on its architecture; their mean square is 1."""
    key = rows.source * 2 + rows.arch
    counts = np.bincount(key)[key]
    weight = counts.astype(float) ** (-SOURCES / 2)
    scaled: Array = weight / np.sqrt((weight**2).mean())
    return scaled


def _soft(error: Array) -> Array:
    residual: Array = np.sign(error) * ROBUST * np.sqrt(2 * (np.sqrt(1 + (error / ROBUST) ** 2) - 1))
    return residual


def _soft_slope(error: Array) -> Array:
    root = np.sqrt(1 + (error / ROBUST) ** 2)
    soft = ROBUST * np.sqrt(2 * (root - 1))
    slope = np.where(np.abs(error) < 1e-6, 1.0, np.abs(error) / (root * np.maximum(soft, 1e-12)))
    gradient: Array = slope
    return gradient
