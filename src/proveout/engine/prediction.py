"""What the chip's time model says about a compiled model: one Timing with its interval and how far it is calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proveout.clock.timing import modelled
from proveout.types import Timing

if TYPE_CHECKING:
    from proveout.engine.compiled import Compiled


def with_host(device: Timing, host: Timing) -> Timing:
    """The time of a whole call: what the chip is predicted to take, and what its host was measured to take after it.

    Nothing of the two is taken to overlap, and their intervals are added. Of ENOUGH samples the least and the greatest
    hold the median between them in 97 of 100 cases; of fewer there is no interval."""
    total = round(device.median_ns + host.median_ns)
    of_host = host.interval_ns or (min(host.samples_ns), max(host.samples_ns))
    chip_low, chip_high = device.interval_ns or (device.median_ns, device.median_ns)
    known = host.interval_ns is not None or len(host.samples_ns) >= ENOUGH
    interval = (chip_low + of_host[0], chip_high + of_host[1]) if known else None
    conditions = (*device.conditions, ("host threads", dict(host.conditions).get("threads", "")))
    parts = (device.what, host.what)
    return Timing("compiled", "modelled", device.device, (total,), conditions, interval, "predicted", parts=parts)


ENOUGH = 6
"""Samples of the host's part of a call that bound its median by themselves."""


def prediction(what: str, compiled: Compiled, ns: int) -> Timing:
    """So many modelled ns of this model's graphs, which are as uncertain as their Plans."""
    times = [plan.time for plan in compiled.plans]
    planned = sum(t.ns for t in times)
    if not planned:
        return modelled(what, compiled.device, ns)
    low, high = (round(ns * sum(getattr(t, end) for t in times) / planned) for end in ("low_ns", "high_ns"))
    return modelled(what, compiled.device, ns, (low, high), sum(t.calibrated * t.ns for t in times) / planned)
