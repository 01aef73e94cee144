"""Before measuring: warm-up until times are steady, and what the loop itself takes around a model that does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from proveout.clock.loops import Arguments, Caller, loop_of
from proveout.clock.pacing import clock
from proveout.clock.stamps import WORD
from proveout.clock.steady import MIN_SAMPLES, steady_state


def warm_up(caller: Caller, arguments: Arguments, count: int | None, budget_s: float) -> int:
    """Call before measuring: `count` times, or until times are steady or the budget is spent. Gives the calls made."""
    if count is not None:
        for _ in range(count):
            caller.once(arguments)
        return count
    took: list[int] = []
    until, look_at = clock() + int(budget_s * 1e9), MIN_SAMPLES
    while True:
        before = clock()
        caller.once(arguments)
        now = clock()
        took.append(now - before)
        if len(took) == look_at:
            state = steady_state(np.array(took))
            if state.steady and state.warmup < len(took) // 2:
                return len(took)
            look_at *= 2
        if now >= until and len(took) > 1:
            return len(took)


def overhead_ns(caller: Caller, calls: int = 2000, repeats: int = 5) -> float:
    """What the loop itself takes for a call: the same loop around a model that does nothing."""

    class Scratch:
        view = memoryview(bytearray(calls * len(caller.columns) * WORD)).cast("q")
        width, rows = len(caller.columns), calls

    def nothing(*_: Any, **__: Any) -> None:
        return None

    arguments = caller.arguments or ((None,), {})
    idle = Caller(nothing, arguments, device_ns=(lambda: 0) if caller.device_ns else None)
    idle.preprocess = (lambda *a, **k: a) if caller.preprocess else None
    idle.postprocess = nothing if caller.postprocess else None
    idle.next_start = (lambda: 1) if caller.next_start else None
    idle.source = iter(lambda: arguments, None) if caller.source else None
    loop = loop_of(idle)
    took = []
    for _ in range(repeats):
        before = clock()
        loop(idle, Scratch, 0, calls, 1 << 62, False)
        took.append((clock() - before) / calls)
    return sorted(took)[repeats // 2]
