"""`proveout.cpu.compile`, `.benchmark` and `.evaluate`: as `proveout.torch`'s, on this machine's CPU."""

from __future__ import annotations

from functools import partial

from proveout.measure import benchmarking, compiling, evaluation

benchmark = partial(benchmarking.benchmark, device_type="cpu")
compile = partial(compiling.compile_index, device_type="cpu")
evaluate = partial(evaluation.evaluate, device_type="cpu")

__all__ = ["benchmark", "compile", "evaluate"]
