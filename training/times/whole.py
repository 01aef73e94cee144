"""How far errors of a model's kernels go one way: found on whole profiles of models, each left out of every fit.

A profile's kernels are added up as often as they were called, measured and predicted. The interval of the sum takes the
errors of one form as one and those of different forms as independent, but for a share that they have in common. The
share is the smallest at which the promise is kept.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from proveout.chip.time import summed

if TYPE_CHECKING:
    from times.fit import Judged, Measured

TABLES = ("op_profiles", "op_times")
LEAST_ROWS = 8
"""A source with fewer rows is no profile of a model."""
SHARES = (0.0, 0.2, 0.5, 1.0)
"""In steps this wide: so few profiles tell no more."""
HELD = 0.75
SEVERAL, ENOUGH = 3, 12
"""Sources and rows from which a form tells both errors well."""


@dataclass(frozen=True)
class Profile:
    """All kernels of one source on one chip, added up: ns."""

    source: str
    arch: str
    rows: int
    measured: float
    predicted: float
    below: tuple[float, ...]
    above: tuple[float, ...]
    """How far the errors of each form may reach on either side."""
    low: float = 0.0
    high: float = 0.0

    @property
    def inside(self) -> bool:
        return self.low <= self.measured <= self.high

    def sharing(self, share: float) -> Profile:
        low, high = (summed(widths, share) for widths in (self.below, self.above))
        return replace(self, low=max(0.0, self.predicted - low), high=self.predicted + high)


def new_source(summaries: Sequence[Mapping[str, Any]]) -> float:
    """By what factor errors on new sources are larger than on new shapes, for three quarters of the forms that have
    several: what an interval from a single source is widened by where another source is predicted."""
    several = [s for s in summaries if s["sources"] >= SEVERAL and s["rows"] >= ENOUGH]
    return float(np.quantile([s["source_median_error"] / s["median_error"] for s in several], 0.75))


def whole_profiles(
    judged: Iterable[Judged], without: Mapping[tuple[str, int], tuple[float, float]]
) -> tuple[Profile, ...]:
    """Every source with enough rows, predicted and given intervals without any of its own."""
    parts: dict[tuple[str, str], list[tuple[str, float, float, tuple[float, float]]]] = defaultdict(list)
    for j in judged:
        for i, m in enumerate(j.measured):
            if m.table in TABLES:
                calls, ends = _calls(m), without[m.table, m.line]
                predicted = calls * float(j.by_source[i])
                widths = (predicted * (1 - math.exp(ends[0])), predicted * (math.exp(ends[1]) - 1))
                part = (j.form, calls * float(j.rows.measured[i]), predicted, widths)
                parts[m.row.source, m.row.chip.arch].append(part)
    return tuple(_profile(*key, rows) for key, rows in sorted(parts.items()) if len(rows) >= LEAST_ROWS)


def _calls(row: Measured) -> float:
    """How often one run of the model made this call, where a profile says."""
    samples, files = (float(row.text.get(name) or 1) for name in ("n_samples", "n_files"))
    return samples / max(1.0, files)


def _profile(source: str, arch: str, rows: Sequence[tuple[str, float, float, tuple[float, float]]]) -> Profile:
    below: dict[str, float] = defaultdict(float)
    above: dict[str, float] = defaultdict(float)
    for form, _, _, (low, high) in rows:
        below[form] += low
        above[form] += high
    measured, predicted = sum(row[1] for row in rows), sum(row[2] for row in rows)
    return Profile(source, arch, len(rows), measured, predicted, tuple(below.values()), tuple(above.values()))


def fit_shared(profiles: Sequence[Profile]) -> tuple[float, tuple[Profile, ...]]:
    """The smallest share at which enough profiles are inside their interval, and the profiles with it."""
    for share in SHARES:
        shared = tuple(profile.sharing(share) for profile in profiles)
        if sum(p.inside for p in shared) >= HELD * len(shared):
            break
    return share, shared
