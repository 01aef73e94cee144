"""How does it hold up under load? Grids of models and workers in processes of their own, arrivals, and their reports.

The clock that times each call is `proveout.clock`; its names are offered here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proveout.clock import environment, judge, measured, modelled, steady_state, summarise, throughput
    from proveout.measure.compare import gate


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'proveout.measure' has no attribute {name!r}")
    if name == "gate":
        from proveout.measure.compare import gate

        return gate
    from proveout import clock

    return getattr(clock, name)


__all__ = ["environment", "gate", "judge", "measured", "modelled", "steady_state", "summarise", "throughput"]
