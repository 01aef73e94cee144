"""Sums and means over dimensions, by the LLK's own instructions."""

from __future__ import annotations

from typing import Any

import torch

from proveout.kernels.arithmetic import matrix
from proveout.kernels.arithmetic.products import matmul as chain
from proveout.kernels.faithful.settings import Compute

Tensor = torch.Tensor


def summing(name: str, compute: Compute, input_tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """One dimension after another, the last first, each result stored; a mean's scale goes with the first."""
    rank = input_tensor.dim()
    dims = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    order = sorted({d % max(rank, 1) for d in dims}, reverse=True)
    out = input_tensor
    if not rank:
        return out
    scale = 1.0
    if name == "ttnn.mean":
        count = torch.tensor([input_tensor.shape[d] for d in order]).prod()
        scale = float((1.0 / count).to(input_tensor.dtype))
    for d in order:
        out = compute.pack(total(out, d, scale, compute), input_tensor.dtype)
        scale = 1.0
    return out if keepdim else out.squeeze(order)


def extreme(name: str, compute: Compute, input_tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """GMPOOL: the largest by sign and magnitude, so that NaN is above infinity and -0 below +0; denormals are +0. The
    smallest is minus the largest of what has the other sign."""
    rank = input_tensor.dim()
    dims = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    order = sorted({d % max(rank, 1) for d in dims}, reverse=True)
    if not rank or not input_tensor.numel():
        return input_tensor
    least = name == "ttnn.min"
    x = -input_tensor if least else input_tensor
    for d in order:
        moved = x.movedim(d, -1)
        rows = moved.reshape(1, -1, moved.shape[-1]).transpose(-1, -2)
        start = torch.full((1, 1, rows.shape[-1]), -torch.inf)
        top = matrix.max_rows(rows, compute.unit, start).reshape(moved.shape[:-1]).unsqueeze(d)
        x = compute.pack(top, input_tensor.dtype)
    out = -x if least else x
    return out if keepdim else out.squeeze(order)


def total(x: Tensor, dim: int, scale: float, compute: Compute) -> Tensor:
    """Sum over one dimension times `scale`, which is kept as one element of size 1. Along a row it is a product: data
    through SrcB, scales through SrcA. Down the rows it is GAPOOL."""
    data = x.movedim(dim, -1)
    if dim % x.dim() == x.dim() - 1:
        column = torch.full((1, data.shape[-1], 1), scale).to(x.dtype)
        dest = chain(data.reshape(1, -1, data.shape[-1]), column, compute.unit)
    else:
        rows = data.reshape(1, -1, data.shape[-1]).transpose(-1, -2).contiguous()
        dest = matrix.sum_rows(rows, scale, compute.unit)
    return dest.reshape(data.shape[:-1]).unsqueeze(dim % x.dim())
