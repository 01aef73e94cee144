"""Picking elements by index and writing them back: indices are uint32."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from proveout.chip.time import Work
from proveout.kernels.table import FLOAT, INT, Kernel, Specs
from proveout.types import Memory, TensorSpec

Tensor = torch.Tensor


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    return torch.gather(input, dim, index.to(torch.int64))


def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str | None = None) -> Tensor:
    where = index.to(torch.int64)
    if reduce is None:
        return torch.scatter(input, dim, where, src)
    return torch.scatter_reduce(input, dim, where, src, {"add": "sum", "multiply": "prod"}[reduce])


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return torch.scatter_add(input, dim, index.to(torch.int64), src)


def index_refuses(specs: Specs) -> str | None:
    source, index = specs["input"], specs["index"]
    if index.dtype != "uint32":
        return f"an index is uint32, not {index.dtype}"
    if len(index.shape) != len(source.shape):
        return f"an index of rank {len(index.shape)} into a tensor of rank {len(source.shape)}"
    return None


def gather_refuses(specs: Specs) -> str | None:
    if len(specs["input"].shape) < 2:
        return "ttnn.gather takes two dimensions or more"
    return index_refuses(specs)


def gather_memory(specs: Specs) -> Memory | None:
    """Along any but the last dimension ttnn turns both operands, and the result lies where the index does."""
    last = specs["dim"] % len(specs["input"].shape) == len(specs["input"].shape) - 1
    return None if last else specs["index"].memory  # type: ignore[no-any-return]


def scatter_refuses(specs: Specs) -> str | None:
    reason = index_refuses(specs)
    if reason:
        return reason
    if specs.get("reduce") not in (None, "add", "multiply"):
        return f"ttnn.scatter combines by add and multiply, not {specs['reduce']}"
    source, index, dim = specs["input"].shape, specs["index"].shape, specs["dim"]
    if any(n > m for d, (n, m) in enumerate(zip(index, source)) if d != dim % len(source)):
        return f"ttnn.scatter takes an index no larger than its input beside dimension {dim}, not {index} for {source}"
    return None


def lookup_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(specs["index"].padded_shape))


KERNELS = [
    Kernel("ttnn.gather", gather, lookup_work, dtypes=FLOAT | INT, refuse=gather_refuses, fixed_memory=gather_memory),
    Kernel("ttnn.scatter", scatter, lookup_work, layout="row_major", dtypes=FLOAT | INT, refuse=scatter_refuses),
    Kernel(
        "ttnn.scatter_add", scatter_add, lookup_work, layout="row_major", dtypes=FLOAT | INT, refuse=scatter_refuses
    ),
]
"""Scatters take row-major: in tiles ttnn refuses float32 altogether, and integers in rows of more than 256."""
