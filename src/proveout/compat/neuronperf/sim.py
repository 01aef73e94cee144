"""`proveout.sim.compile`, `.benchmark` and `.evaluate`: as `proveout.torch`'s, on a modelled Tenstorrent chip."""

from __future__ import annotations

from functools import partial

from proveout.measure import benchmarking, compiling, evaluation

benchmark = partial(benchmarking.benchmark, device_type="sim")
compile = partial(compiling.compile_index, device_type="sim")
evaluate = partial(evaluation.evaluate, device_type="sim")

__all__ = ["benchmark", "compile", "evaluate"]
