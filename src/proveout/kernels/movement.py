"""Kernels that move or make numbers without computing any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from proveout.kernels.table import Kernel, Specs

Tensor = torch.Tensor
Ints = Sequence[int]


def reshape(input_tensor: Tensor, shape: Ints) -> Tensor:
    return input_tensor.reshape(tuple(shape))


def permute(input_tensor: Tensor, dims: Ints) -> Tensor:
    return input_tensor.permute(tuple(dims))


def transpose(input_tensor: Tensor, dim1: int, dim2: int) -> Tensor:
    return input_tensor.transpose(dim1, dim2)


def expand(input_tensor: Tensor, output_shape: Ints) -> Tensor:
    return input_tensor.expand(tuple(output_shape))


def repeat(input_tensor: Tensor, repeat_dims: Ints) -> Tensor:
    return input_tensor.repeat(tuple(repeat_dims))


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat(tuple(tensors), dim)


def slice_(input_tensor: Tensor, slice_start: Ints, slice_end: Ints, slice_step: Ints | None = None) -> Tensor:
    steps = slice_step or (1,) * len(slice_start)
    return input_tensor[tuple(slice(a, b, s) for a, b, s in zip(slice_start, slice_end, steps))]


def pad(input_tensor: Tensor, padding: Sequence[Ints], value: float) -> Tensor:
    flat = [n for pair in reversed(tuple(padding)) for n in pair]
    return F.pad(input_tensor, flat, value=value)


def pad_refuses(specs: Specs) -> str | None:
    if specs["input_tensor"].layout == "tile" and any(before for before, _ in specs["padding"]):
        return "ttnn.pad in tile layout does not pad at the front"
    return None


def full(shape: Ints, fill_value: Any, dtype: torch.dtype | None = None, layout: str = "row_major") -> Tensor:
    return torch.full(tuple(shape), fill_value, dtype=dtype or torch.bfloat16)


KERNELS = [
    Kernel("ttnn.reshape", reshape, layout=None, view=True),
    Kernel("ttnn.permute", permute, layout=None, view=True),
    Kernel("ttnn.transpose", transpose, layout=None, view=True),
    Kernel("ttnn.expand", expand, layout=None, view=True),
    Kernel("ttnn.repeat", repeat, layout=None),
    Kernel("ttnn.concat", concat),
    Kernel("ttnn.slice", slice_, layout=None, view=True),
    Kernel("ttnn.pad", pad, layout=None, refuse=pad_refuses),
    Kernel("ttnn.full", full, layout=None),
]
