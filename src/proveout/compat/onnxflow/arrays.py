"""The inputs of a build's model as a file of arrays, beside its ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from proveout.compat.onnxflow.build import State


def save_inputs(state: State) -> None:
    """What the model is called with."""
    if state.inputs is not None:
        _save(state, tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu().numpy(), dict(state.inputs)))


def halve_inputs(state: State) -> None:
    """As the float16 file takes them."""
    if Path(state.original_inputs_file).is_file():
        (arrays,) = np.load(state.original_inputs_file, allow_pickle=True)
        _save(state, tree_map_only(np.ndarray, _halved, arrays))


def _halved(array: Any) -> Any:
    return array.astype(np.float16) if array.dtype == np.float32 else array


def _save(state: State, arrays: dict[str, Any]) -> None:
    np.save(state.original_inputs_file, np.array([arrays], dtype=object))


__all__ = ["halve_inputs", "save_inputs"]
