"""Whose error is it? What PyTorch's own eager mode gives in the precision that a model was compiled for."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from proveout.check.outputs import compare_outputs
from proveout.types import Comparison, Precision


def eager_in(
    precision: Precision,
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    wanted: Any,
    wrong: Comparison,
) -> str:
    """A clause for the reason why an output is wrong; empty where the model keeps its own precision.

    Where eager in that precision is as far off, no kernel of the device is at fault.
    """
    if precision in ("model", "tf32"):
        return ""
    dtype = getattr(torch, precision)

    def lowered(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    try:
        state = {name: lowered(tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
        rounded = tree_map_only(torch.Tensor, lowered, (args, kwargs))
        with torch.no_grad():
            outputs = torch.func.functional_call(model, state, *rounded)
    except Exception as error:  # the model's own code, in a precision that its author may never have tried
        return f"; PyTorch's eager mode cannot run it in {precision} ({type(error).__name__})"
    same = next((c for c in compare_outputs(outputs, wanted, wrong.threshold) if c.name == wrong.name), None)
    if same is None:
        return ""
    if same.pcc is not None:
        return f"; PyTorch's eager mode in {precision} gives PCC {same.pcc:.6f}"
    return f"; PyTorch's eager mode in {precision} is {'close' if same.passed else 'not close either'}"
