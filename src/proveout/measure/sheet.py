"""A report in the making: flat values by name, the interval of each beside it, and a reason for every gap."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from proveout.clock.statistics import Estimate, Summary

Report = dict[str, Any]

PERCENTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
MS = 1e6
"""ns in a ms."""


@dataclass
class ReportSheet:
    """Values as they come, and why some are None."""

    values: Report = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, value: Any, reason: str = "") -> None:
        if isinstance(value, float) and not math.isfinite(value):
            value, reason = None, f"{value} is no number"
        self.values[name] = value
        if value is None:
            self.reasons[name] = reason or "not measured"

    def estimate(self, name: str, estimate: Estimate, per: float = 1.0) -> None:
        self.put(name, None if estimate.value is None else estimate.value / per, estimate.reason)
        for end in ("low", "high"):
            bound = getattr(estimate, end)
            self.put(f"{name}_{end}", None if bound is None else bound / per, estimate.reason)

    def times(self, name: str, summary: Summary | None, reason: str = "") -> None:
        """Percentiles, their intervals and the spread of one kind of time, in ms."""
        self.put(f"{name}_ms_p0", summary and summary.min_ns / MS, reason)
        for percent in PERCENTS:
            estimate = summary.percentile(percent) if summary else Estimate(None, reason=reason)
            self.estimate(f"{name}_ms_p{percent:g}".replace(".", "_"), estimate, MS)
        self.put(f"{name}_ms_p100", summary and summary.max_ns / MS, reason)
        for spread in ("iqr", "mad", "std"):
            self.put(f"{name}_ms_{spread}", summary and getattr(summary, f"{spread}_ns") / MS, reason)
