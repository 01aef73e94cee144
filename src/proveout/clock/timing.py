"""Timings: taken with the engine's loop and judged, or a model's prediction with its interval; the two never mix."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from proveout.clock import loops
from proveout.clock.loops import Caller
from proveout.clock.pacing import clock
from proveout.clock.stamps import MemoryWriter, Stamps
from proveout.clock.statistics import Estimate, summarise
from proveout.clock.steady import MIN_SAMPLES, Problem, judge
from proveout.types import Judgement, Timing

MOST_SAMPLES = 10_000
"""Of calls that are timed for a duration: what a Record can hold."""
MOST_KEPT = 20_000
"""Of one timing of a run under load; of more, evenly spaced ones are kept."""
ENOUGH = 3 * MIN_SAMPLES
"""Calls that a verdict can be given on, also where the first of them are left out and neighbours are alike."""
WARMUP_SHARE = 0.25
NEVER = 1 << 62
MORE_WOULD_HELP = {"too few samples", "high variance"}
"""Problems of samples that are level as far as they go."""

FIRST_TOKEN = "first token"
"""What the Timing is of: from the start of a generation to its first token."""
TOKEN_GAP = "token gap"
"""Between two tokens of a generation, each gap."""
PER_TOKEN = "time per token"
"""Of each generation: the time after its first token ÷ the tokens after the first."""

Note = Callable[[int, bool], None]


def measured(
    what: str,
    device: str,
    function: Callable[[], Any],
    *,
    iterations: int,
    warmup: int,
    duration_s: float = 0.0,
    enough_s: float = 0.0,
    note: Note = lambda ns, warm: None,
) -> Timing:
    """Wall time of each call, after `warmup` calls that are not counted; garbage is collected before, not during.

    With a duration, calls are timed until it is over instead of `iterations` times; warming up then ends after a
    quarter of it. `enough_s` may be added to `iterations`, until there are ENOUGH calls to judge. `note` is told each
    call's time, outside of it, and whether it was one to warm up.
    """
    caller = Caller(lambda _: function(), ((None,), {}))  # of one argument: the quickest loop
    warm_by = clock() + round(WARMUP_SHARE * duration_s * 1e9) if duration_s else NEVER
    warmed = _calls(caller, warmup, warm_by, lambda ns: note(ns, True))
    with without_garbage():
        over = clock() + round(duration_s * 1e9) if duration_s else NEVER
        limit = MOST_SAMPLES if duration_s else iterations
        samples = _calls(caller, limit, over, lambda ns: note(ns, False))
        if enough_s and len(samples) < ENOUGH:
            over = clock() + round(enough_s * 1e9)
            more = _calls(caller, ENOUGH - len(samples), over, lambda ns: note(ns, False))
            samples = np.concatenate([samples, more])
    conditions = (("warmup", str(len(warmed))), ("threads", str(_threads())))
    return judged(Timing(what, "measured", device, tuple(samples.tolist()), conditions))


def modelled(
    what: str, device: str, nanoseconds: int, interval: tuple[int, int] | None = None, calibrated: float = 0.0
) -> Timing:
    """One prediction; it does not vary, so there is one sample. `calibrated` is the share that measurements back."""
    share = "no" if calibrated == 0 else "yes" if calibrated == 1 else f"{calibrated:.0%} of the time"
    bounds = None if interval is None else (float(interval[0]), float(interval[1]))
    conditions = (("calibrated", share),)
    return Timing(what, "modelled", device, (nanoseconds,), conditions, bounds, "predicted")


def kept(samples_ns: Stamps) -> tuple[tuple[int, ...], tuple[tuple[str, str], ...]]:
    """The samples that a Record can hold, and the condition that says how many there were where there were more."""
    step = -(-len(samples_ns) // MOST_KEPT)
    conditions = (("kept", f"one in {step} of {len(samples_ns)} samples"),) if step > 1 else ()
    return tuple(np.maximum(samples_ns[::step], 0).tolist()) if step else (), conditions


def judged(timing: Timing, samples_ns: Stamps | None = None) -> Timing:
    """A measured Timing with the interval of its median and the verdict on its samples, in the order they ended;
    `samples_ns` are all of them where the Timing keeps fewer."""
    if timing.kind == "modelled" or not timing.samples_ns:
        return timing
    samples = np.array(timing.samples_ns, dtype=np.int64) if samples_ns is None else np.maximum(samples_ns, 0)
    verdict = judge(samples)
    whole = verdict.summary if verdict.summary.n == len(samples) else summarise(samples, ())
    interval = bounds(whole.median_ns)
    why = ". ".join(filter(None, ["; ".join(p.found for p in verdict.problems), *(p.advice for p in verdict.problems)]))
    return dataclasses.replace(timing, interval_ns=interval, verdict=word(verdict.problems), why=why)


def word(problems: tuple[Problem, ...]) -> Judgement:
    """The verdict in a word; its problems say why."""
    kinds = {problem.kind for problem in problems}
    if not kinds:
        return "steady"
    return "too few" if "too few samples" in kinds and kinds <= MORE_WOULD_HELP else "unsteady"


def bounds(estimate: Estimate) -> tuple[float, float] | None:
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


def _calls(caller: Caller, limit: int, deadline_ns: int, tell: Callable[[int], None]) -> npt.NDArray[np.int64]:
    """The times of so many calls, or of those until the deadline; what the model raises is raised."""
    writer, reported = MemoryWriter(caller.columns), 0

    def between() -> bool:
        """Between two pieces of the loop, outside of any call's time."""
        nonlocal reported
        times = _times(writer)
        for ns in times[reported:].tolist():
            tell(ns)
        reported = len(times)
        return False

    ran = loops.measure(caller, writer, start_ns=0, deadline_ns=deadline_ns, limit=limit, stopped=between)
    between()
    if ran.error is not None:
        raise ran.error
    return _times(writer)


def _times(writer: MemoryWriter) -> npt.NDArray[np.int64]:
    calls = writer.calls()
    return calls.ends_ns - calls.starts_ns


@contextmanager
def without_garbage() -> Iterator[None]:
    """Garbage is collected before, and not during."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _threads() -> int:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else 1
