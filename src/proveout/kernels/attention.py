"""Attention kept whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from proveout.chip.device_op import MATRIX, DeviceOp, Work
from proveout.kernels import cuts, decode_buffers
from proveout.kernels.faithful import norms
from proveout.kernels.faithful.settings import plain
from proveout.kernels.row import FLOAT, Call, Faithful, Kernel, Specs, one_op
from proveout.reasons import HEAD_SIZE, RANK, Kind, Reason, pad_head
from proveout.types import DRAM, TILE, TensorSpec

SDPA = "ttnn SDPA"
SDPA_HEADS = Kind(
    "sdpa-heads", "ttnn SDPA takes as many values as keys, one batch size, and whole groups of query heads"
)
SDPA_ONE_SIZE = Kind("sdpa-one-size", "ttnn SDPA takes one head size for queries and values")
SDPA_CAUSAL_SQUARE = Kind(
    "sdpa-causal-square",
    "ttnn SDPA that is causal takes as many queries as keys",
    "pass an explicit mask instead of is_causal=True",
)
SDPA_CAUSAL_OR_MASK = Kind(
    "sdpa-causal-or-mask",
    "ttnn SDPA is causal or takes a mask, not both",
    "put the causal part into the mask, and pass is_causal=False",
)
SDPA_MASK_SHAPE = Kind("sdpa-mask-shape", "ttnn SDPA takes a mask of the full (queries, keys) shape")
SDPA_MASK_HEADS = Kind("sdpa-mask-heads", "ttnn SDPA takes a mask for one or every batch and for one or every head")
ROTARY_SHAPE = Kind("rotary-shape", "ttnn rotary embedding takes [1, heads, length, head size], not {shape}")
ROTARY_SIZE = Kind(
    "rotary-size",
    "ttnn rotary embedding takes a head size of {tile} or a multiple of {multiple}, not {size}",
    pad_head,
)
ROTARY_TABLES = Kind("rotary-tables", "ttnn rotary embedding takes one table for all heads, not {cos} and {sin}")
ROTARY_SHARDS = Kind("rotary-shards", "ttnn rotary embedding of one token takes a user's heads and tables on one core")
ROTARY_DTYPE = Kind("rotary-dtype", "ttnn rotary embedding takes tables of the operand's dtype")

Tensor = torch.Tensor


def sdpa(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
) -> Tensor:
    """ttnn's default is causal."""
    return F.scaled_dot_product_attention(
        input_tensor_q,
        input_tensor_k,
        input_tensor_v,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=input_tensor_q.shape[1] != input_tensor_k.shape[1],
    )


def sdpa_refuses(specs: Specs) -> Reason | None:
    q, k, v = (specs[f"input_tensor_{x}"] for x in "qkv")
    if any(len(x.shape) != 4 for x in (q, k, v)):
        return RANK(kernel=SDPA, rank=4, found=min(len(x.shape) for x in (q, k, v)))
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[1] % k.shape[1]:
        return SDPA_HEADS()
    if q.shape[-1] % TILE or v.shape[-1] % TILE:
        return HEAD_SIZE(kernel=SDPA, multiple=TILE, size=q.shape[-1])
    if q.shape[-1] != v.shape[-1]:
        return SDPA_ONE_SIZE()
    causal, mask = specs.get("is_causal", True), specs.get("attn_mask")
    if causal and q.shape[-2] != k.shape[-2]:
        return SDPA_CAUSAL_SQUARE()
    if causal and mask is not None:
        return SDPA_CAUSAL_OR_MASK()
    if mask is not None and mask.shape[-2:] != (q.shape[-2], k.shape[-2]):
        return SDPA_MASK_SHAPE()
    if mask is not None and not (mask.shape[0] in (1, q.shape[0]) and mask.shape[1] in (1, q.shape[1])):
        return SDPA_MASK_HEADS()
    return None


def sdpa_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    q: TensorSpec = specs["input_tensor_q"]
    k: TensorSpec = specs["input_tensor_k"]
    batch, heads, queries, depth = q.padded_shape
    pairs = queries * k.padded_shape[-2] * (0.5 if specs.get("is_causal", True) else 1.0)
    return Work(2.0 * pairs * 2 * depth * heads * batch, MATRIX, phased=True)


def rotary(input_tensor: Tensor, cos_cache: Tensor, sin_cache: Tensor, is_decode_mode: bool = False) -> Tensor:
    """Hugging Face's form: the halves of each head are rotated against each other. Of one token, [1, users, heads,
    size] by a row of each user's own."""
    length = input_tensor.shape[-2]
    low, high = input_tensor.chunk(2, -1)
    turned = torch.cat((-high, low), -1)
    return (input_tensor * cos_cache[..., :length, :]) + (turned * sin_cache[..., :length, :])


def rotates(size: int) -> bool:
    """Whether ttnn's kernel takes heads of this size: each half is of whole tiles, or both are one tile."""
    return size == TILE or size % (2 * TILE) == 0


def rotary_refuses(specs: Specs) -> Reason | None:
    """ttnn accepts more than one batch; that its kernel then means the same is not documented, so we do not ask it."""
    x, cos, sin = (specs[n] for n in ("input_tensor", "cos_cache", "sin_cache"))
    if len(x.shape) != 4 or x.shape[0] != 1:
        return ROTARY_SHAPE(shape=x.shape)
    if not rotates(x.shape[-1]):
        return ROTARY_SIZE(tile=TILE, multiple=2 * TILE, size=x.shape[-1])
    decode = specs.get("is_decode_mode", False)
    if decode and any(s.memory.sharding != "height" for s in (x, cos, sin)):
        return ROTARY_SHARDS()
    if cos.shape != sin.shape or cos.shape != ((1, x.shape[1], 1, x.shape[3]) if decode else (1, 1, *x.shape[-2:])):
        return ROTARY_TABLES(cos=cos.shape, sin=sin.shape)
    if not x.dtype == cos.dtype == sin.dtype:
        return ROTARY_DTYPE()
    return None


def rotary_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(4.0 * math.prod(outputs[0].padded_shape), phased=True)


def sdpa_ops(call: Call) -> list[DeviceOp]:
    """A mask is scaled by an operation of its own first."""
    q, k, v = (call.specs[f"input_tensor_{x}"] for x in "qkv")
    mask = call.specs.get("attn_mask")
    params = (("causal", call.specs.get("is_causal", True)),)
    scaled = [DeviceOp("binary", (mask,), (mask,))] if mask is not None else []
    operands = (q, k, v, *([mask] if mask is not None else []))
    return [*scaled, DeviceOp("attention", operands, call.outputs, call.work, call.fidelity, params=params)]


KERNELS = [
    Kernel(
        "ttnn.transformer.scaled_dot_product_attention",
        sdpa,
        sdpa_work,
        "attention",
        sdpa_ops,
        frozenset({"bfloat16", "bfloat8_b", "bfloat4_b"}),
        out_memory=DRAM,
        faithful=Faithful(norms.attention, plain()),
        refuse=sdpa_refuses,
        dram_operands=frozenset({"attn_mask"}),
        cut=cuts.attention,
    ),
    Kernel(
        "ttnn.experimental.rotary_embedding_hf",
        rotary,
        rotary_work,
        "other",
        one_op("other", "RotaryEmbeddingHf", buffers=decode_buffers.rotary),
        FLOAT,
        refuse=rotary_refuses,
    ),
]
