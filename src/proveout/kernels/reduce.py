"""Reductions, argmax and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from proveout.chip.time import REDUCE, Work
from proveout.kernels.table import FLOAT, INT, Kernel, Specs
from proveout.types import TensorSpec

Tensor = torch.Tensor


def reduce_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(specs["input_tensor"].padded_shape), REDUCE)


def _reduction(name: str, function: Callable[..., Tensor], dtypes: frozenset[str]) -> Kernel:
    def meaning(input_tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        dims = tuple(range(input_tensor.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        return function(input_tensor, dims, keepdim).to(input_tensor.dtype)

    return Kernel(f"ttnn.{name}", meaning, reduce_work, dtypes=dtypes - {"bfloat4_b"})


def argmax(input_tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return torch.argmax(input_tensor, dim, keepdim).to(torch.uint32)


def prod(input_tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return torch.prod(input_tensor) if dim is None else torch.prod(input_tensor, dim, keepdim)


def cumsum(input: Tensor, dim: int) -> Tensor:
    return torch.cumsum(input, dim, dtype=input.dtype)


def cumprod(input_tensor: Tensor, dim: int) -> Tensor:
    return torch.cumprod(input_tensor, dim, dtype=input_tensor.dtype)


def topk(
    input_tensor: Tensor, k: int = 32, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(input_tensor, k, dim, largest, sorted)
    return values, _narrow(indices, input_tensor.shape[dim])


def sort(input_tensor: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(input_tensor, stable=stable, dim=dim, descending=descending)
    return values, _narrow(indices, input_tensor.shape[dim])


def _narrow(indices: Tensor, size: int) -> Tensor:
    """ttnn's positions are uint16 wherever that is enough."""
    return indices.to(torch.uint16 if size < 2**16 else torch.uint32)


def scan_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(outputs[0].padded_shape), REDUCE)


KERNELS = [
    _reduction("sum", lambda x, d, k: torch.sum(x, d, k), FLOAT | INT),
    _reduction("mean", lambda x, d, k: torch.mean(x, d, k), FLOAT),
    _reduction("max", torch.amax, FLOAT | INT),
    _reduction("min", torch.amin, FLOAT | INT),
    Kernel("ttnn.argmax", argmax, reduce_work, layout="row_major", out_layout="row_major", dtypes=FLOAT | INT),
    Kernel("ttnn.topk", topk, scan_work, dtypes=frozenset({"bfloat16"})),
    Kernel("ttnn.sort", sort, scan_work, dtypes=frozenset({"bfloat16"})),
    Kernel("ttnn.prod", prod, reduce_work, dtypes=FLOAT),
    Kernel("ttnn.cumprod", cumprod, scan_work, dtypes=FLOAT),
    Kernel("ttnn.cumsum", cumsum, scan_work, dtypes=FLOAT | INT),
]
