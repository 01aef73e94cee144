"""Kernels that move numbers between chips, or that look at one chip's piece of a value."""

from __future__ import annotations

import torch

from proveout.kernels.pieces import Pieces
from proveout.kernels.table import Kernel

Tensor = torch.Tensor


def all_gather(input_tensor: Tensor, dim: int) -> Tensor:
    """On one chip there is nothing to gather."""
    return input_tensor


def all_gather_across(input_tensor: Pieces, dim: int) -> Pieces:
    return Pieces([torch.cat(input_tensor, dim)] * len(input_tensor))


def get_device_tensors(tensor: Tensor) -> tuple[Tensor, ...]:
    return (tensor,)


def get_device_tensors_across(tensor: Pieces) -> tuple[Tensor, ...]:
    return tuple(tensor)


KERNELS = [
    Kernel("ttnn.all_gather", all_gather, across=all_gather_across),
    Kernel("ttnn.get_device_tensors", get_device_tensors, layout=None, view=True, across=get_device_tensors_across),
]
