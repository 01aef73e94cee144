"""A call as an exporter takes it, and its outputs: tensors in one row, whatever objects the model puts them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from proveout.check.outputs import leaves


def tensor_leaves(value: Any) -> tuple[torch.Tensor, ...]:
    """The tensors of an output in their order, those inside of objects too (the keys and values of a cache)."""
    return tuple(leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor))


class FlatOutputs(torch.nn.Module):
    """A model that gives the tensors of another one's output."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        return tensor_leaves(self.model(*args, **kwargs))


def export_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What `torch.onnx.export` takes: keywords are a last dict, so a last argument that is a dict has an empty one
    behind it."""
    last_is_dict = bool(args) and isinstance(args[-1], dict)
    return (*args, dict(kwargs)) if kwargs or last_is_dict else tuple(args)


def exportable(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.nn.Module:
    """The model itself, or with flat outputs where PyTorch does not know how to open what it gives."""
    with torch.no_grad():
        output = tree_leaves(model(*args, **kwargs))
    plain = (torch.Tensor, bool, int, float, complex, str, type(None))
    return model if all(isinstance(leaf, plain) for leaf in output) else FlatOutputs(model)
