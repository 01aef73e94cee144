"""When requests should start: open-loop schedules.

In an open loop, requests come whether or not the last one is done. Response time counts from the *intended* start, so a
stall is charged to every request that had to wait behind it; service time counts from the actual start.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from proveout.errors import UsageError

Times = npt.NDArray[np.int64]


def constant_rate(per_second: float, duration_s: float) -> Times:
    """Intended starts from 0 at equal distances; each is rounded alone, so the rate does not drift."""
    _check_rate(per_second, duration_s)
    num_requests = int(np.ceil(per_second * duration_s - 1e-9))
    return np.rint(np.arange(num_requests) * (1e9 / per_second)).astype(np.int64)


def poisson(per_second: float, duration_s: float, seed: int) -> Times:
    """Intended starts at random: as many as a Poisson count says, each anywhere in the duration, in order."""
    _check_rate(per_second, duration_s)
    rng = np.random.default_rng(seed)
    num_requests = rng.poisson(per_second * duration_s)
    return np.sort(rng.integers(0, int(duration_s * 1e9), num_requests))


def replay(trace_ns: npt.ArrayLike, speed: float = 1.0) -> Times:
    """A recorded trace's starts, counted from its first request; `speed` 2 plays it twice as fast."""
    trace = np.asarray(trace_ns)
    if trace.ndim != 1 or trace.size == 0 or trace.dtype.kind not in "iu":
        raise UsageError(
            f"a trace of shape {trace.shape} and {trace.dtype}: give the starts of at least one request in ns."
        )
    if not 0 < speed < np.inf:
        raise UsageError(f"speed {speed:g}: give a factor above 0.")
    backwards = np.flatnonzero(np.diff(trace) < 0)
    if backwards.size:
        raise UsageError(
            f"request {backwards[0] + 1} of the trace starts before the one ahead of it. Sort it by start."
        )
    return np.rint((trace - trace[0]) / speed).astype(np.int64)


def _check_rate(per_second: float, duration_s: float) -> None:
    if not (0 < per_second < np.inf and 0 < duration_s < np.inf):
        raise UsageError(f"{per_second:g} requests per second for {duration_s:g} s: both must be above 0.")
