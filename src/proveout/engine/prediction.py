"""What the chip's time model says about a compiled model: one Timing with its interval and how far it is calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proveout.clock.timing import modelled
from proveout.types import Timing

if TYPE_CHECKING:
    from proveout.engine.compiled import Compiled


def with_host(device: Timing, host: Timing) -> Timing:
    """The time of a whole call: what the chip is predicted to take, and what its host was measured to take after it.

    Nothing of the two is taken to overlap, and their intervals are added."""
    total = round(device.median_ns + host.median_ns)
    intervals = [t.interval_ns or (min(t.samples_ns), max(t.samples_ns)) for t in (device, host)]
    low, high = (sum(ends) for ends in zip(*intervals))
    conditions = (*device.conditions, ("host threads", dict(host.conditions).get("threads", "")))
    parts = (device.what, host.what)
    return Timing("compiled", "modelled", device.device, (total,), conditions, (low, high), "predicted", parts=parts)


def prediction(what: str, compiled: Compiled, ns: int) -> Timing:
    """So many modelled ns of this model's graphs, which are as uncertain as their Plans."""
    times = [plan.time for plan in compiled.plans]
    planned = sum(t.ns for t in times)
    if not planned:
        return modelled(what, compiled.device, ns)
    low, high = (round(ns * sum(getattr(t, end) for t in times) / planned) for end in ("low_ns", "high_ns"))
    return modelled(what, compiled.device, ns, (low, high), sum(t.calibrated * t.ns for t in times) / planned)
