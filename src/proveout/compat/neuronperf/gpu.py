"""NeuronPerf's word for a CUDA device: the names of `proveout.cuda`."""

from __future__ import annotations

from proveout.compat.neuronperf.cuda import benchmark, compile, evaluate

__all__ = ["benchmark", "compile", "evaluate"]
