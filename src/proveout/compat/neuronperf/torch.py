"""NeuronPerf's namespace for PyTorch: `proveout.torch.compile`, `.benchmark` and `.evaluate`."""

from __future__ import annotations

from proveout.measure.benchmarking import benchmark
from proveout.measure.compiling import compile_index as compile
from proveout.measure.evaluation import evaluate

__all__ = ["benchmark", "compile", "evaluate"]
