"""onnxflow's `build_model`, its stages and its state of a build, over PyTorch's ONNX exporter and ONNX Runtime."""

from __future__ import annotations

from proveout.compat.onnxflow.build import load_state
from proveout.compat.onnxflow.buildit import build_model

__all__ = ["build_model", "load_state"]
