"""Kernels that move or make numbers without computing any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from proveout.chip.device_op import DeviceOp
from proveout.kernels import circular, cuts, decode_buffers
from proveout.kernels.device_ops import tilize_ops
from proveout.kernels.row import FLOAT, Call, DeviceOps, Kernel, Specs, on_host, one_op
from proveout.reasons import Kind, Reason, pad_head
from proveout.types import DRAM, TILE, TensorSpec

PAD_FRONT = Kind("pad-front", "ttnn.pad in tile layout does not pad at the front")
SPLIT_RANK = Kind("split-heads-rank", "ttnn splits heads of 3 dimensions, not {rank}")
SPLIT_SIZE = Kind("split-heads-size", "ttnn splits heads of whole tiles, not of {size}")
JOIN_RANK = Kind("join-heads-rank", "ttnn concatenates heads of 4 dimensions, not {rank}")
JOIN_SIZE = Kind("join-heads-size", "Head size must be a multiple of {multiple} but was found to be {size}", pad_head)
CREATE_SHAPE = Kind(
    "create-heads-shape", "ttnn.experimental.nlp_create_qkv_heads takes [batch, 1, length, width], not {shape}"
)

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


def pad_refuses(specs: Specs) -> Reason | None:
    if specs["input_tensor"].layout == "tile" and any(before for before, _ in specs["padding"]):
        return PAD_FRONT()
    return None


def full(shape: Ints, fill_value: Any, dtype: torch.dtype | None = None, layout: str = "row_major") -> Tensor:
    return torch.full(tuple(shape), fill_value, dtype=dtype or torch.bfloat16)


def split_heads(
    input_tensor: Tensor, num_heads: int, num_kv_heads: int | None = None, transpose_key: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values side by side in each row, each as heads side by side."""
    shared = num_heads if num_kv_heads is None else num_kv_heads
    batch, length, width = input_tensor.shape
    heads = input_tensor.reshape(batch, length, -1, width // (num_heads + 2 * shared)).transpose(1, 2)
    query, key, value = heads.split((num_heads, shared, shared), 1)
    return query, key.transpose(-1, -2) if transpose_key else key, value


def split_heads_refuses(specs: Specs) -> Reason | None:
    x = specs["input_tensor"]
    if len(x.shape) != 3:
        return SPLIT_RANK(rank=len(x.shape))
    queries = specs["num_heads"]
    shared = specs.get("num_kv_heads") or queries
    size, rest = divmod(x.shape[-1], queries + 2 * shared)
    return SPLIT_SIZE(size=size) if rest or size % TILE else None


def concatenate_heads(input_tensor: Tensor) -> Tensor:
    """[batch, heads, length, head size] -> [batch, length, heads x head size]."""
    return input_tensor.transpose(1, 2).flatten(2)


def concatenate_heads_refuses(specs: Specs) -> Reason | None:
    x = specs["input_tensor"]
    if len(x.shape) != 4:
        return JOIN_RANK(rank=len(x.shape))
    size = x.shape[-1]
    return JOIN_SIZE(multiple=TILE, size=size) if size % TILE else None


def nlp_concat_heads(input_tensor: Tensor) -> Tensor:
    """As `concatenate_heads`, of 4 dimensions: [batch, 1, length, heads x head size]."""
    return concatenate_heads(input_tensor).unsqueeze(1)


def nlp_create_qkv_heads(
    input: Tensor, num_heads: int, num_kv_heads: int | None = None, transpose_k_heads: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """As `split_heads`, of 4 dimensions: [batch, 1, length, (queries, keys, values)]."""
    return split_heads(input.squeeze(1), num_heads, num_kv_heads, transpose_k_heads)


def nlp_create_qkv_heads_refuses(specs: Specs) -> Reason | None:
    x = specs["input"]
    if len(x.shape) != 4 or x.shape[1] != 1:
        return CREATE_SHAPE(shape=x.shape)
    flat = TensorSpec((x.shape[0], *x.shape[2:]), x.dtype, x.layout, x.memory)
    return split_heads_refuses({**specs, "input_tensor": flat})


def reshape_ops(call: Call) -> list[DeviceOp]:
    """A reshape that keeps rows whole, and in tile layout tiles too, only renames."""
    source, out = call.source, call.out
    whole = out.layout == "row_major" or all(t.padded_shape[-2:] == t.shape[-2:] for t in (source, out))
    if source.shape[-2:] == out.shape[-2:] or (whole and source.shape[-1:] == out.shape[-1:]):
        return []
    return [DeviceOp("reshape", (source,), (out,))]


def permute_ops(call: Call) -> list[DeviceOp]:
    """In tiles, a swap of two dimensions is a transpose."""
    rank = len(call.source.shape)
    dims = tuple(d % rank for d in call.specs["dims"])
    moved = [i for i, d in enumerate(dims) if d != i]
    if not moved:
        return []
    if call.source.layout == "tile" and _swaps(moved, rank) in TRANSPOSES:
        return [DeviceOp("transpose", (call.source,), call.outputs, params=(("swaps", _swaps(moved, rank)),))]
    return [DeviceOp("permute", (call.source,), call.outputs, params=(("last", dims[-1]),))]


def transpose_ops(call: Call) -> list[DeviceOp]:
    """Rows are moved by a permutation; in tiles there is an operation for it."""
    rank = len(call.source.shape)
    moved = sorted({call.specs["dim1"] % rank, call.specs["dim2"] % rank})
    if len(moved) < 2:
        return []
    if call.source.layout == "tile" and _swaps(moved, rank) in TRANSPOSES:
        return [DeviceOp("transpose", (call.source,), call.outputs, params=(("swaps", _swaps(moved, rank)),))]
    last = moved[0] if moved[1] == rank - 1 else rank - 1
    return [DeviceOp("permute", (call.source,), call.outputs, params=(("last", last),))]


TRANSPOSES = ("hw", "ch", "nc")
"""Pairs of dimensions that tiles are transposed along; others are permuted."""


def _swaps(moved: Sequence[int], rank: int) -> str:
    names = {rank - 1: "w", rank - 2: "h", rank - 3: "c"}
    return "".join(names.get(d, "n") for d in moved)


def concat_ops(call: Call) -> list[DeviceOp]:
    """Ragged rows are put below each other outside their tiles."""
    out, rank = call.out, len(call.out.shape)
    dim = call.specs.get("dim", 0) % rank
    params = (("dim", dim),)
    ragged = any(t.shape[-2] % TILE for t in call.operands) if rank > 1 else False
    if out.layout == "row_major" or dim != rank - 2 or not ragged:
        return [DeviceOp("concat", call.operands, call.outputs, call.work, call.fidelity, params=params)]
    plain = [replace(t, layout="row_major") for t in (*call.operands, out)]
    taken = [op for t, p in zip(call.operands, plain) for op in tilize_ops(t, p)]
    return [*taken, DeviceOp("concat", tuple(plain[:-1]), (plain[-1],), params=params), *tilize_ops(plain[-1], out)]


def _heads(
    name: str, meaning: Callable[..., Any], refuse: Callable[[Specs], Reason | None], device_ops: DeviceOps
) -> Kernel:
    return Kernel(name, meaning, kind="move", device_ops=device_ops, dtypes=FLOAT, refuse=refuse, view=True)


def _create_heads(transposes: str) -> DeviceOps:
    """`transposes` is the argument that says whether keys come transposed, as they do where nothing is said."""
    return one_op(
        "other",
        "NlpCreateHeads",
        lambda call: (("transposed", bool(call.specs.get(transposes, True))),),
        circular.heads,
    )


split, join = _create_heads("transpose_key"), one_op("other", "NLPConcatHeads", buffers=decode_buffers.join_heads)
repeated = one_op("copy", "Repeat", buffers=circular.repeat)

KERNELS = [
    Kernel(
        "ttnn.reshape",
        reshape,
        kind="view",
        device_ops=reshape_ops,
        layout=None,
        takes_host=True,
        view=True,
        shares_buffer=True,
        cut=cuts.same_first,
        host=on_host("aten.reshape.default", input_tensor="self", shape="shape"),
    ),
    Kernel(
        "ttnn.permute",
        permute,
        kind="order",
        device_ops=permute_ops,
        layout=None,
        view=True,
        cut=cuts.permutation,
        host=on_host("aten.permute.default", input_tensor="self", dims="dims"),
    ),
    Kernel(
        "ttnn.transpose",
        transpose,
        kind="order",
        device_ops=transpose_ops,
        layout=None,
        view=True,
        cut=cuts.transposition,
        host=on_host("aten.transpose.int", input_tensor="self", dim1="dim0", dim2="dim1"),
    ),
    Kernel("ttnn.expand", expand, kind="broadcast", device_ops=repeated, layout=None, view=True),
    Kernel("ttnn.repeat", repeat, kind="broadcast", device_ops=repeated, layout=None),
    Kernel(
        "ttnn.concat",
        concat,
        kind="join",
        device_ops=concat_ops,
        out_memory=DRAM,
        cut=cuts.concatenation,
        host=on_host("aten.cat.default", tensors="tensors", dim="dim"),
    ),
    Kernel("ttnn.slice", slice_, kind="move", device_ops=one_op("slice"), layout=None, view=True),
    Kernel(
        "ttnn.pad",
        pad,
        kind="move",
        device_ops=one_op("copy", "Pad", buffers=circular.pad),
        layout=None,
        refuse=pad_refuses,
    ),
    Kernel("ttnn.full", full, kind="creation", device_ops=one_op("copy", "Full"), layout=None),
    _heads("ttnn.transformer.split_query_key_value_and_split_heads", split_heads, split_heads_refuses, split),
    _heads("ttnn.transformer.concatenate_heads", concatenate_heads, concatenate_heads_refuses, join),
    _heads("ttnn.experimental.nlp_concat_heads", nlp_concat_heads, concatenate_heads_refuses, join),
    _heads(
        "ttnn.experimental.nlp_create_qkv_heads",
        nlp_create_qkv_heads,
        nlp_create_qkv_heads_refuses,
        _create_heads("transpose_k_heads"),
    ),
]
