"""Picking elements by index and writing them back: indices are uint32."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from proveout.chip.time import Work
from proveout.kernels.table import FLOAT, INT, Kernel, Specs
from proveout.types import TensorSpec

Tensor = torch.Tensor


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    return torch.gather(input, dim, index.to(torch.int64))


def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return torch.scatter(input, dim, index.to(torch.int64), src)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return torch.scatter_add(input, dim, index.to(torch.int64), src)


def index_refuses(specs: Specs) -> str | None:
    source, index = specs["input"], specs["index"]
    if index.dtype != "uint32":
        return f"an index is uint32, not {index.dtype}"
    if len(index.shape) != len(source.shape):
        return f"an index of rank {len(index.shape)} into a tensor of rank {len(source.shape)}"
    return None


def lookup_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(specs["index"].padded_shape))


KERNELS = [
    Kernel("ttnn.gather", gather, lookup_work, dtypes=FLOAT | INT, refuse=index_refuses),
    Kernel("ttnn.scatter", scatter, lookup_work, dtypes=FLOAT | INT, refuse=index_refuses),
    Kernel("ttnn.scatter_add", scatter_add, lookup_work, dtypes=FLOAT | INT, refuse=index_refuses),
]
