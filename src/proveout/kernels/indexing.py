"""Picking elements by index and writing them back: indices are uint32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from proveout.chip.device_op import DeviceOp, L1Use, Work
from proveout.chip.memory import bytes_per_bank
from proveout.kernels.circular import held_pages
from proveout.kernels.row import FLOAT, INT, Kernel, Specs, one_op
from proveout.reasons import SCATTER, Kind, Reason
from proveout.types import DeviceSpec, Memory, TensorSpec

INDEX_DTYPE = Kind("index-dtype", "an index is uint32, not {dtype}")
INDEX_RANK = Kind("index-rank", "an index of rank {rank} into a tensor of rank {source}")
GATHER_RANK = Kind("gather-rank", "ttnn.gather takes two dimensions or more")
SCATTER_INDEX = Kind(
    "scatter-index",
    "ttnn.scatter takes an index no larger than its input beside dimension {dim}, not {index} for {source}",
)

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


def index_refuses(specs: Specs) -> Reason | None:
    source, index = specs["input"], specs["index"]
    if index.dtype != "uint32":
        return INDEX_DTYPE(dtype=index.dtype)
    if len(index.shape) != len(source.shape):
        return INDEX_RANK(rank=len(index.shape), source=len(source.shape))
    return None


def gather_refuses(specs: Specs) -> Reason | None:
    if len(specs["input"].shape) < 2:
        return GATHER_RANK()
    return index_refuses(specs)


def gather_memory(specs: Specs) -> Memory | None:
    """Along any but the last dimension ttnn turns both operands, and the result lies where the index does."""
    return None if _along_last(specs) else specs["index"].memory  # type: ignore[no-any-return]


def _along_last(specs: Specs) -> bool:
    return bool(specs["dim"] % len(specs["input"].shape) == len(specs["input"].shape) - 1)


def gather_buffers(op: DeviceOp, chip: DeviceSpec) -> L1Use:
    """Where it turns, both operands and the result before it is turned back lie in L1 if the operands do."""
    turned = (*op.inputs, *op.outputs) if dict(op.params).get("turned") else ()
    each = tuple(bytes_per_bank(t, chip) for t in turned if t.memory.buffer == "l1")
    return L1Use(held_pages(op, chip), sum(each), each)


def scatter_refuses(specs: Specs) -> Reason | None:
    reason = index_refuses(specs)
    if reason:
        return reason
    if specs.get("reduce") not in (None, "add", "multiply"):
        return SCATTER(reduce=specs["reduce"])
    source, index, dim = specs["input"].shape, specs["index"].shape, specs["dim"]
    if any(n > m for d, (n, m) in enumerate(zip(index, source)) if d != dim % len(source)):
        return SCATTER_INDEX(dim=dim, index=index, source=source)
    return None


def lookup_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(specs["index"].padded_shape))


def _scatter(name: str, meaning: Callable[..., Tensor]) -> Kernel:
    """Scatters take row-major: in tiles ttnn refuses float32 altogether, and integers in rows of more than 256."""
    ops = one_op("other", "Scatter")
    return Kernel(name, meaning, lookup_work, "index", ops, FLOAT | INT, layout="row_major", refuse=scatter_refuses)


KERNELS = [
    Kernel(
        "ttnn.gather",
        gather,
        lookup_work,
        "index",
        one_op("other", "Gather", lambda call: (("turned", not _along_last(call.specs)),), gather_buffers),
        FLOAT | INT,
        refuse=gather_refuses,
        fixed_memory=gather_memory,
    ),
    _scatter("ttnn.scatter", scatter),
    _scatter("ttnn.scatter_add", scatter_add),
]
