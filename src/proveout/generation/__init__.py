"""Text generation: prefill Programs, run once per prompt, and a decode Program, run once per token, on one cache.

Generator.compile(model, max_length=512)   a decoder ready to generate (`generator`)
Sampling(temperature=0.8, top_p=0.9)       how the next token is chosen (`sampling`)
overview(model, device, settings)          Programs, agreement, times and memory of a decoder (`overviews`)

Names are imported when they are first used: what only plans or prints needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proveout.generation.generator import Generator, Phase
    from proveout.generation.overviews import overview
    from proveout.generation.sampling import GREEDY, Sampling

_HOMES = {
    "GREEDY": "sampling",
    "Generator": "generator",
    "Phase": "generator",
    "Sampling": "sampling",
    "overview": "overviews",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'proveout.generation' has no attribute {name!r}")
    return getattr(importlib.import_module(f"proveout.generation.{_HOMES[name]}"), name)


__all__ = ["GREEDY", "Generator", "Phase", "Sampling", "overview"]
