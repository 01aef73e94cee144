"""Kernels that move numbers between chips, or that look at one chip's piece of a value."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from proveout.kernels.pieces import Pieces
from proveout.kernels.row import Kernel, one_op
from proveout.types import TensorSpec

Tensor = torch.Tensor


def all_gather(input_tensor: Tensor, dim: int) -> Tensor:
    """On one chip there is nothing to gather."""
    return input_tensor


def all_gather_across(input_tensor: Pieces, dim: int) -> Pieces:
    return Pieces([torch.cat(input_tensor, dim)] * len(input_tensor))


def gathered_bytes(outputs: Sequence[TensorSpec], chips: int) -> float:
    """All but a chip's own piece."""
    return outputs[0].nbytes * (chips - 1) / chips


def get_device_tensors(tensor: Tensor) -> tuple[Tensor, ...]:
    return (tensor,)


def get_device_tensors_across(tensor: Pieces) -> tuple[Tensor, ...]:
    return tuple(tensor)


KERNELS = [
    Kernel(
        "ttnn.all_gather",
        all_gather,
        kind="collective",
        device_ops=one_op("other", "AllGather"),
        across=all_gather_across,
        wire_bytes=gathered_bytes,
    ),
    Kernel(
        "ttnn.get_device_tensors",
        get_device_tensors,
        kind="piece",
        layout=None,
        view=True,
        across=get_device_tensors_across,
    ),
]
