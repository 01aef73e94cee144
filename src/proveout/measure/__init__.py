"""How fast is it? Warm-up, raw samples in ns, an honest kind, and what the samples can support.

Names are imported when they are first used: a worker starts without torch, and so decides when it is imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proveout.measure.compare import gate
    from proveout.measure.sampling import environment, measured, modelled
    from proveout.measure.statistics import summarise, throughput
    from proveout.measure.steady import judge, steady_state

_HOMES = {
    "environment": "sampling",
    "gate": "compare",
    "judge": "steady",
    "measured": "sampling",
    "modelled": "sampling",
    "steady_state": "steady",
    "summarise": "statistics",
    "throughput": "statistics",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'proveout.measure' has no attribute {name!r}")
    return getattr(importlib.import_module(f"proveout.measure.{_HOMES[name]}"), name)


__all__ = ["environment", "gate", "judge", "measured", "modelled", "steady_state", "summarise", "throughput"]
