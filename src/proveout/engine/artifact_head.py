"""`compiled.json` of a saved model: where each of a call's arguments and outputs lies in its Program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from proveout.engine.views import TensorView, view_of
from proveout.errors import UsageError
from proveout.types import Settings


@dataclass(frozen=True)
class OutputSource:
    """Where an output comes from: a result of the Program, an argument or a weight handed back, or a plain value."""

    kind: Literal["program", "argument", "weight", "value"]
    index: int = 0
    name: str = ""
    value: object = None
    view: TensorView | None = None


@dataclass(frozen=True)
class Head:
    schema: int
    program: str
    """The fingerprint of the Program that these places belong to."""
    device: str
    settings: Settings
    arguments: object
    """How the arguments are nested, as `structure` writes it."""
    results: object
    inputs: tuple[int, ...]
    """For each input of the Program, which leaf of the arguments it is."""
    constants: tuple[tuple[int, object], ...]
    """Leaves that are no tensors, and the values that the model was compiled for."""
    outputs: tuple[OutputSource, ...]
    strides: tuple[tuple[int, ...] | None, ...]
    """How each result of the Program lies in memory."""


def source_of(result: Any, holders: Mapping[str, Mapping[Any, Any]]) -> OutputSource:
    """Which tensor's memory an output is: looked up by place, so equal numbers mean nothing."""
    if result is None or type(result) in (bool, int, float, str):
        return OutputSource("value", value=result)
    if isinstance(result, torch.Tensor) and result.layout == torch.strided and not result.is_conj():
        for kind, tensors in holders.items():
            for key, base in tensors.items():
                if isinstance(base, torch.Tensor) and _shares(result, base):
                    index, name = (0, key) if kind == "weight" else (key, "")
                    same = result is base or _geometry(result) == _geometry(base)
                    view = None if same else view_of(result, base)
                    if same or view is not None:
                        return OutputSource(kind, index, name, view=view)  # type: ignore[arg-type]
    raise UsageError("an output of the model is made outside its Program: the model cannot be saved.")


def _shares(result: torch.Tensor, base: torch.Tensor) -> bool:
    if result is base:
        return True
    if base.numel() == 0 or result.numel() == 0:
        return _geometry(result)[:2] == _geometry(base)[:2]
    return result.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


def _geometry(value: torch.Tensor) -> tuple[Any, ...]:
    return value.dtype, value.shape, value.stride(), value.data_ptr()
