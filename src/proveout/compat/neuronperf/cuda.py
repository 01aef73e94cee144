"""`proveout.cuda.compile`, `.benchmark` and `.evaluate`: as `proveout.torch`'s, on an NVIDIA GPU. `benchmark` runs a
model that was not compiled as it is."""

from __future__ import annotations

from functools import partial

from proveout.compat.neuronperf import compiling, running

benchmark = partial(running.benchmark, device_type="cuda")
compile = partial(compiling.compile_index, device_type="cuda")
evaluate = partial(running.evaluate, device_type="cuda")

__all__ = ["benchmark", "compile", "evaluate"]
