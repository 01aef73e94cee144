"""NeuronPerf's namespace for PyTorch: `proveout.torch.compile`, `.benchmark` and `.evaluate`."""

from __future__ import annotations

from proveout.compat.neuronperf.compiling import compile_index as compile
from proveout.compat.neuronperf.running import benchmark, evaluate

__all__ = ["benchmark", "compile", "evaluate"]
