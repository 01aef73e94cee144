"""Reductions, argmax and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from proveout.chip.device_op import REDUCE, DeviceOp, Work
from proveout.kernels import circular, cuts, decode_buffers
from proveout.kernels.device_ops import typecast_op
from proveout.kernels.faithful.reductions import extreme, summing
from proveout.kernels.faithful.settings import plain
from proveout.kernels.row import FLOAT, INT, Call, DeviceOps, Faithful, Kernel, Params, Specs, one_op
from proveout.types import TensorSpec

Tensor = torch.Tensor


def reduce_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(specs["input_tensor"].padded_shape), REDUCE)


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


def reduce_ops(call: Call) -> list[DeviceOp]:
    return _reduced(call, fast=False)


def sum_ops(call: Call) -> list[DeviceOp]:
    return _reduced(call, fast=call.source.dtype != "float32")


def _reduced(call: Call, fast: bool) -> list[DeviceOp]:
    """Padding is filled first; of block floats by way of two casts."""
    source = call.source
    dim, rank = call.specs.get("dim"), len(source.shape)
    params = (("over", _over(source, dim)),)
    ops = [DeviceOp("reduce", (source,), call.outputs[:1], call.work, call.fidelity, params=params)]
    if isinstance(dim, int) and dim % rank < rank - 2:
        ops = _over_leading(call, dim % rank, fast)
    if source.layout != "tile" or source.padded_shape[-2:] == source.shape[-2:]:
        return ops
    plain = replace(source, dtype="bfloat16") if source.dtype.endswith("_b") else source
    fill = DeviceOp("reduce", (plain,), (plain,), code="FillPad", buffers=circular.fill_pad)
    if plain == source:
        return [fill, *ops]
    return [typecast_op(source, plain), fill, typecast_op(plain, source), *ops]


def _over(source: TensorSpec, dim: Any) -> str:
    """Which way a reduction goes: along rows, columns, or over leading dimensions."""
    rank = len(source.shape)
    dims = {d % rank for d in (range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim)}
    return "w" if rank - 1 in dims else "h" if rank - 2 in dims else "n"


def _over_leading(call: Call, dim: int, fast: bool) -> list[DeviceOp]:
    """Over a leading dimension ttnn has a sum of its own; all else is moved to where rows are, reduced, moved back."""
    source, out, rank = call.source, call.out, len(call.source.shape)
    if fast:
        params: Params = (("over", "n"), ("size", source.shape[dim]))
        ops = [DeviceOp("reduce", (source,), (out,), call.work, call.fidelity, code="FastReduceNC", params=params)]
        return [*ops, DeviceOp("slice", (out,), (out,))] if source.padded_shape != source.shape else ops
    there = [d for d in range(rank) if d != dim]
    there.insert(rank - 2, dim)
    shape = tuple(source.shape[d] for d in there)
    moved, reduced = (replace(source, shape=s) for s in (shape, (*shape[:-2], 1, shape[-1])))
    family = "transpose" if dim == rank - 3 else "permute"
    how: Params = (("swaps", "ch"),) if dim == rank - 3 else (("last", rank - 1),)
    sums = DeviceOp("reduce", (moved,), (reduced,), call.work, call.fidelity, params=(("over", "h"),))
    return [*_moved(source, moved, family, how), sums, *_moved(reduced, out, family, how)]


def _moved(source: TensorSpec, out: TensorSpec, family: str, params: Params) -> list[DeviceOp]:
    """Block floats go by way of bfloat16."""
    if not source.dtype.endswith("_b"):
        return [DeviceOp(family, (source,), (out,), params=params)]
    plain, rounded = (replace(t, dtype="bfloat16") for t in (source, out))
    return [
        typecast_op(source, plain),
        DeviceOp(family, (plain,), (rounded,), params=params),
        typecast_op(rounded, out),
    ]


def prod_ops(call: Call) -> list[DeviceOp]:
    """All elements at once, or along one dimension."""
    return one_op("reduce", "ProdAll" if call.specs.get("dim") is None else "ProdNc")(call)


def _reduction(
    name: str,
    function: Callable[..., Tensor],
    dtypes: frozenset[str],
    device_ops: DeviceOps = reduce_ops,
    faithful: Faithful | None = None,
) -> Kernel:
    def meaning(input_tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        dims = tuple(range(input_tensor.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        return function(input_tensor, dims, keepdim).to(input_tensor.dtype)

    taken = dtypes - {"bfloat4_b"}
    return Kernel(f"ttnn.{name}", meaning, reduce_work, "reduction", device_ops, taken, faithful, cut=cuts.reduction)


chips_own = Faithful(summing, plain(wide=True))
along_dim = cuts.rows_of("input_tensor", "dim")
BFLOAT16 = frozenset({"bfloat16"})

KERNELS = [
    _reduction("sum", lambda x, d, k: torch.sum(x, d, k), FLOAT | INT, sum_ops, chips_own),
    _reduction("mean", lambda x, d, k: torch.mean(x, d, k), FLOAT, faithful=chips_own),
    _reduction("max", torch.amax, FLOAT | INT, faithful=Faithful(extreme, plain(wide=True))),
    _reduction("min", torch.amin, FLOAT | INT, faithful=Faithful(extreme, plain(wide=True))),
    Kernel(
        "ttnn.argmax",
        argmax,
        reduce_work,
        "reduction",
        one_op("reduce", "ArgMax", buffers=circular.argmax),
        FLOAT | INT,
        layout="row_major",
        out_layout="row_major",
        cut=cuts.reduction,
    ),
    Kernel(
        "ttnn.topk",
        topk,
        scan_work,
        "sort",
        one_op("reduce", "TopK", buffers=decode_buffers.top_k),
        BFLOAT16,
        cut=along_dim,
    ),
    Kernel("ttnn.sort", sort, scan_work, "sort", one_op("reduce", "Sort"), BFLOAT16, cut=along_dim),
    Kernel("ttnn.prod", prod, reduce_work, "reduction", prod_ops, FLOAT, cut=cuts.reduction),
    Kernel("ttnn.cumprod", cumprod, scan_work, "scan", one_op("scan"), FLOAT, cut=along_dim),
    Kernel("ttnn.cumsum", cumsum, scan_work, "scan", one_op("scan"), FLOAT | INT, cut=cuts.rows_of("input", "dim")),
]
