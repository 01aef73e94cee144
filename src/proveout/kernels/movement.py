"""Kernels that move or make numbers without computing any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from proveout.kernels.table import FLOAT, Kernel, Specs
from proveout.types import TILE, TensorSpec

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


def split_heads(
    input_tensor: Tensor, num_heads: int, num_kv_heads: int | None = None, transpose_key: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values side by side in each row, each as heads side by side."""
    shared = num_heads if num_kv_heads is None else num_kv_heads
    batch, length, width = input_tensor.shape
    heads = input_tensor.reshape(batch, length, -1, width // (num_heads + 2 * shared)).transpose(1, 2)
    query, key, value = heads.split((num_heads, shared, shared), 1)
    return query, key.transpose(-1, -2) if transpose_key else key, value


def split_heads_refuses(specs: Specs) -> str | None:
    x = specs["input_tensor"]
    if len(x.shape) != 3:
        return f"ttnn splits heads of 3 dimensions, not {len(x.shape)}"
    queries = specs["num_heads"]
    shared = specs.get("num_kv_heads") or queries
    size, rest = divmod(x.shape[-1], queries + 2 * shared)
    return f"ttnn splits heads of whole tiles, not of {size}" if rest or size % TILE else None


def concatenate_heads(input_tensor: Tensor) -> Tensor:
    """[batch, heads, length, head size] -> [batch, length, heads x head size]."""
    return input_tensor.transpose(1, 2).flatten(2)


def concatenate_heads_refuses(specs: Specs) -> str | None:
    x = specs["input_tensor"]
    if len(x.shape) != 4:
        return f"ttnn concatenates heads of 4 dimensions, not {len(x.shape)}"
    size = x.shape[-1]
    return f"Head size must be a multiple of {TILE} but was found to be {size}" if size % TILE else None


def nlp_concat_heads(input_tensor: Tensor) -> Tensor:
    """As `concatenate_heads`, of 4 dimensions: [batch, 1, length, heads x head size]."""
    return concatenate_heads(input_tensor).unsqueeze(1)


def nlp_create_qkv_heads(
    input: Tensor, num_heads: int, num_kv_heads: int | None = None, transpose_k_heads: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """As `split_heads`, of 4 dimensions: [batch, 1, length, (queries, keys, values)]."""
    return split_heads(input.squeeze(1), num_heads, num_kv_heads, transpose_k_heads)


def nlp_create_qkv_heads_refuses(specs: Specs) -> str | None:
    x = specs["input"]
    if len(x.shape) != 4 or x.shape[1] != 1:
        return f"ttnn.experimental.nlp_create_qkv_heads takes [batch, 1, length, width], not {x.shape}"
    flat = TensorSpec((x.shape[0], *x.shape[2:]), x.dtype, x.layout, x.memory)
    return split_heads_refuses({**specs, "input_tensor": flat})


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
    Kernel(
        "ttnn.transformer.split_query_key_value_and_split_heads",
        split_heads,
        dtypes=FLOAT,
        refuse=split_heads_refuses,
        view=True,
    ),
    Kernel(
        "ttnn.transformer.concatenate_heads",
        concatenate_heads,
        dtypes=FLOAT,
        refuse=concatenate_heads_refuses,
        view=True,
    ),
    Kernel(
        "ttnn.experimental.nlp_concat_heads",
        nlp_concat_heads,
        dtypes=FLOAT,
        refuse=concatenate_heads_refuses,
        view=True,
    ),
    Kernel(
        "ttnn.experimental.nlp_create_qkv_heads",
        nlp_create_qkv_heads,
        dtypes=FLOAT,
        refuse=nlp_create_qkv_heads_refuses,
        view=True,
    ),
]
