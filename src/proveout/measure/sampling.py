"""Takes samples with a clock, or wraps a model's prediction, and never mixes the two."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import torch

from proveout.measure.conditions import cpu_name, versions
from proveout.types import Timing

MOST_SAMPLES = 10_000


def measured(
    what: str,
    device: str,
    function: Callable[[], Any],
    *,
    iterations: int,
    warmup: int,
    duration_s: float = 0.0,
    note: Callable[[int, bool], None] = lambda ns, warm: None,
) -> Timing:
    """Wall time of each call, after `warmup` calls that are not counted; garbage is collected before, not during.

    With a duration, calls are timed until it is over instead of `iterations` times; warming up then ends after a
    quarter of it. `note` is told each call's time, outside of it, and whether it was one to warm up.
    """
    clock = time.perf_counter_ns
    warm_by = clock() + round(duration_s / 4 * 1e9)
    warmed = 0
    while warmed < warmup and (not duration_s or not warmed or clock() < warm_by):
        started = clock()
        function()
        note(clock() - started, True)
        warmed += 1
    samples = [0] * iterations
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        over = clock() + round(duration_s * 1e9)
        for index in range(iterations):
            started = clock()
            function()
            samples[index] = clock() - started
            note(samples[index], False)
        while duration_s and len(samples) < MOST_SAMPLES and (not samples or clock() < over):
            started = clock()
            function()
            samples.append(clock() - started)
            note(samples[-1], False)
    finally:
        if collecting:
            gc.enable()
    conditions = (("warmup", str(warmed)), ("threads", str(torch.get_num_threads())))
    return Timing(what, "measured", device, tuple(samples), conditions)


def modelled(
    what: str, device: str, nanoseconds: int, interval: tuple[int, int] | None = None, calibrated: float = 0.0
) -> Timing:
    """One prediction; it does not vary, so there is one sample. `calibrated` is the share that measurements back."""
    share = "no" if calibrated == 0 else "yes" if calibrated == 1 else f"{calibrated:.0%} of the time"
    conditions = [("calibrated", share)]
    if interval is not None:
        conditions += [("low_ns", str(interval[0])), ("high_ns", str(interval[1]))]
    return Timing(what, "modelled", device, (nanoseconds,), tuple(conditions))


def environment() -> tuple[tuple[str, str], ...]:
    """The conditions that a result was made under."""
    return (
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}"),
        ("cpu", cpu_name()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("threads", str(torch.get_num_threads())),
        *versions(),
    )
