"""Intervals that hold for rows nobody fitted: quantiles of the errors on shapes and sources that were left out.

Distribution-free: an interval of a form on a chip spans the middle of the ratios measured / predicted of its own rows,
each predicted without its source or without its shape. Sources weigh more alike than their rows do. Where a form has
few rows it borrows the spread of the same form on the other chip, then of all forms on this one. How far out the
quantiles lie is one number a chip, found so that four fifths of the rows of sources that had no say at all are inside.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ENOUGH = 24.0
"""Rows' weight from which a form borrows nothing."""
WIDEST = 0.01
PROMISED = 0.8
SHAPES, SOURCES = (0.75, 0.88), 0.70
"""What must be covered of left-out shapes and of left-out sources."""


@dataclass(frozen=True)
class Residuals:
    """Rows of every form with their left-out errors: logarithms of measured over predicted."""

    form: Array
    arch: Array
    source: Array
    shape: Array
    by_shape: Array
    by_source: Array
    """Where a form has one source: the same as by shape."""

    def rows(self, form: int, arch: int) -> Array:
        return self._places.get((form, arch), np.zeros(0, dtype=int))

    def others(self, form: int, arch: int) -> tuple[Array, Array]:
        """Errors and weights of all other forms on an architecture."""
        error, weight, kind = self._all[arch]
        return error[kind != form], weight[kind != form]

    @functools.cached_property
    def _places(self) -> dict[tuple[int, int], Array]:
        pairs = {(int(f), int(a)) for f, a in zip(self.form, self.arch, strict=True)}
        return {(f, a): np.flatnonzero((self.form == f) & (self.arch == a)) for f, a in pairs}

    @functools.cached_property
    def _all(self) -> dict[int, tuple[Array, Array, Array]]:
        residuals = {}
        for arch in np.unique(self.arch):
            at = np.flatnonzero(self.arch == arch)
            residuals[int(arch)] = (*_both(self, at), np.tile(self.form[at], 2))
        return residuals


@dataclass(frozen=True)
class Widths:
    """How wide the intervals of one architecture are: the quantile on either side, and forms that need more."""

    level: float
    wider: dict[int, float]
    """Forms to the factor by which the logarithms of their ends grow."""


def widths_of(r: Residuals, arch: int) -> Widths:
    """The quantile at which left-out shapes and left-out sources together are covered as promised, then for each form
    whose interval did not hold for sources the smallest factor with which it does."""
    best, least = Widths(0.1, {}), np.inf
    for level in np.arange(0.13, WIDEST, -0.015):
        widths = _widened(r, arch, float(level))
        covered = coverage(r, arch, widths)
        shapes, sources = covered.shapes.mean(), covered.sources.mean()
        aim = abs((shapes + sources) / 2 - PROMISED) + 4 * max(0.0, shapes - SHAPES[1] + 0.02)
        if aim < least - 1e-9:
            best, least = widths, float(aim)
    return best


def _widened(r: Residuals, arch: int, level: float) -> Widths:
    wider: dict[int, float] = {}
    for factor in FACTORS:
        inside = coverage(r, arch, Widths(level, wider)).sources
        forms = r.form[r.arch == arch]
        short = [int(f) for f in np.unique(forms) if inside[forms == f].mean() < SOURCES]
        if not short:
            break
        wider = wider | dict.fromkeys(short, factor)
    return Widths(level, wider)


@dataclass(frozen=True)
class Covered:
    """Whether each row is inside the interval found without its shape, without its source; and that last interval, or
    where a form has one source the one without its shape."""

    shapes: Array
    sources: Array
    low: Array
    high: Array


def coverage(r: Residuals, arch: int, widths: Widths) -> Covered:
    """Of all rows of an architecture."""
    here = np.flatnonzero(r.arch == arch)
    inside = np.zeros((2, len(here)), dtype=bool)
    ends = np.zeros((2, len(here)))
    for form in np.unique(r.form[here]):
        rows = r.rows(int(form), arch)
        places = np.searchsorted(here, rows)
        for side, (key, error) in enumerate(((r.shape, r.by_shape), (r.source, r.by_source))):
            names = np.unique(key[rows])
            if side and len(names) == 1:  # one source: what holds is told by its shapes
                inside[1, places] = inside[0, places]
                continue
            folds = min(len(names), FOLDS) if side == 0 else len(names)
            for fold in range(folds):
                hidden = names[fold::folds]
                held = np.isin(key[rows], hidden)
                low, high = interval(r, int(form), arch, widths, key, hidden)
                inside[side, places[held]] = (error[rows[held]] >= low) & (error[rows[held]] <= high)
                ends[:, places[held]] = np.array([[low], [high]])
    return Covered(inside[0], inside[1], ends[0], ends[1])


FACTORS = (1.3, 1.7, 2.2)
FOLDS = 12


def interval(
    r: Residuals, form: int, arch: int, widths: Widths, key: Array | None = None, hidden: Array | None = None
) -> tuple[float, float]:
    """Logarithms of the low and the high end for one form on one architecture, without rows whose key is hidden."""
    own, relatives = (r.rows(form, a) for a in (arch, 1 - arch))
    if key is not None and hidden is not None:
        own, relatives = (at[~np.isin(key[at], hidden)] for at in (own, relatives))
    values: list[Array] = []
    weights: list[Array] = []
    missing = ENOUGH
    for rank, most in enumerate((np.inf, 0.5 * ENOUGH, ENOUGH)):
        if missing <= 0:
            break
        error, weight = _both(r, (own, relatives)[rank]) if rank < 2 else r.others(form, arch)
        if not len(error):
            continue
        total = float(weight.sum()) if most == np.inf else min(float(weight.sum()), most, missing)
        values.append(error)
        weights.append(weight * (total / weight.sum()))
        missing -= total
    error, weight = np.concatenate(values), np.concatenate(weights)
    factor = widths.wider.get(form, 1.0)
    return factor * _quantile(error, weight, widths.level), factor * _quantile(error, weight, 1 - widths.level)


def _both(r: Residuals, at: Array) -> tuple[Array, Array]:
    """Errors on left-out shapes and sources together; a source's rows weigh as the square root of their number."""
    if not len(at):
        return at.astype(float), at.astype(float)
    counts = np.bincount(r.source[at])[r.source[at]]
    weight = counts.astype(float) ** -0.5
    weight *= (counts.size**0.5 * len(np.unique(r.source[at])) ** 0.5) / weight.sum()
    return np.concatenate([r.by_shape[at], r.by_source[at]]), np.concatenate([weight, weight]) / 2


def _quantile(values: Array, weights: Array, level: float) -> float:
    order = np.argsort(values)
    ranked = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(level * weights.sum(), ranked, values[order]))
