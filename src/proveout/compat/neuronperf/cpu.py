"""`proveout.cpu.compile`, `.benchmark` and `.evaluate`: as `proveout.torch`'s, on this machine's CPU."""

from __future__ import annotations

from functools import partial

from proveout.compat.neuronperf import compiling, running
from proveout.compat.neuronperf.dummy import DummyModel

benchmark = partial(running.benchmark, device_type="cpu")
compile = partial(compiling.compile_index, device_type="cpu")
evaluate = partial(running.evaluate, device_type="cpu")

__all__ = ["DummyModel", "benchmark", "compile", "evaluate"]
