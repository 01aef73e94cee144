"""`proveout.sim.compile`, `.benchmark` and `.evaluate`: as `proveout.torch`'s, on a modelled Tenstorrent chip."""

from __future__ import annotations

from functools import partial

from proveout.compat.neuronperf import compiling, running

benchmark = partial(running.benchmark, device_type="sim")
compile = partial(compiling.compile_index, device_type="sim")
evaluate = partial(running.evaluate, device_type="sim")

__all__ = ["benchmark", "compile", "evaluate"]
