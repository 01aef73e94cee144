"""How does it hold up under load? Grids of models and workers in processes of their own, arrivals, and their reports.

The clock that times each call is `proveout.clock`; its names are offered here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proveout.lazy import lazy

if TYPE_CHECKING:
    from proveout.clock import environment, judge, measured, modelled, steady_state, summarise, throughput
    from proveout.measure.compare import gate


__getattr__ = lazy(
    __name__,
    {
        "proveout.clock": "environment judge measured modelled steady_state summarise throughput",
        "proveout.measure.compare": "gate",
    },
)

__all__ = ["environment", "gate", "judge", "measured", "modelled", "steady_state", "summarise", "throughput"]
