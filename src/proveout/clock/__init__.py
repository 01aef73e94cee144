"""How long did it take? One loop that times calls, and what its samples can support: interval, verdict, reasons.

Every time that this product measures comes from here; a model's predictions get their interval here too, and keep a
kind of their own. Names are imported when they are first used: a worker starts without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proveout.lazy import lazy

if TYPE_CHECKING:
    from proveout.clock.conditions import environment
    from proveout.clock.statistics import summarise, throughput
    from proveout.clock.steady import judge, steady_state
    from proveout.clock.timing import judged, measured, modelled


__getattr__ = lazy(
    __name__,
    {
        "proveout.clock.conditions": "environment",
        "proveout.clock.steady": "judge steady_state",
        "proveout.clock.timing": "judged measured modelled",
        "proveout.clock.statistics": "summarise throughput",
    },
)

__all__ = ["environment", "judge", "judged", "measured", "modelled", "steady_state", "summarise", "throughput"]
