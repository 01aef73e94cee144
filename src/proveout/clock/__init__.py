"""How long did it take? One loop that times calls, and what its samples can support: interval, verdict, reasons.

Every time that this product measures comes from here; a model's predictions get their interval here too, and keep a
kind of their own. Names are imported when they are first used: a worker starts without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proveout.clock.conditions import environment
    from proveout.clock.statistics import summarise, throughput
    from proveout.clock.steady import judge, steady_state
    from proveout.clock.timing import judged, measured, modelled

_HOMES = {
    "environment": "conditions",
    "judge": "steady",
    "judged": "timing",
    "measured": "timing",
    "modelled": "timing",
    "steady_state": "steady",
    "summarise": "statistics",
    "throughput": "statistics",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'proveout.clock' has no attribute {name!r}")
    return getattr(importlib.import_module(f"proveout.clock.{_HOMES[name]}"), name)


__all__ = ["environment", "judge", "judged", "measured", "modelled", "steady_state", "summarise", "throughput"]
