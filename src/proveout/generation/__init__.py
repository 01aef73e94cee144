"""Text generation: prefill Programs, run once per prompt, and a decode Program, run once per token, on one cache.

Generator.compile(model, max_length=512)   a decoder ready to generate (`generator`)
Sampling(temperature=0.8, top_p=0.9)       how the next token is chosen (`sampling`)
overview(model, device, settings)          Programs, agreement, times and memory of a decoder (`overviews`)

Names are imported when they are first used: what only plans or prints needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proveout.lazy import lazy

if TYPE_CHECKING:
    from proveout.generation.generator import Generator
    from proveout.generation.overviews import overview
    from proveout.generation.phase import Phase
    from proveout.generation.sampling import GREEDY, Sampling


__getattr__ = lazy(
    __name__,
    {
        "proveout.generation.sampling": "GREEDY Sampling",
        "proveout.generation.generator": "Generator",
        "proveout.generation.overviews": "overview",
        "proveout.generation.phase": "Phase",
    },
)

__all__ = ["GREEDY", "Generator", "Phase", "Sampling", "overview"]
