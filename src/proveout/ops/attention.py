"""Scaled dot-product attention, whole where ttnn takes it and in parts where it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from proveout.ops.samples import bools, randn
from proveout.ops.shape import cut
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.program import Name
from proveout.reasons import DROPOUT
from proveout.types import TILE

SDPA = "ttnn.transformer.scaled_dot_product_attention"


def lower_sdpa(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value | None, ...]:
    if dropout_p:
        raise Refused(DROPOUT())
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not b.used(1):
        whole = _whole(b, query, key, value, is_causal, attn_mask, factor)
        if whole is not None:
            return whole, None
    return _in_parts(b, query, key, value, is_causal, attn_mask, factor)


def _whole(
    b: Builder, query: Value, key: Value, value: Value, causal: bool, mask: Value | None, factor: float
) -> Value | None:
    """One kernel. A head size that is no multiple of a tile is padded with zeros, which change no score."""
    depth = query.shape[-1]
    operands: dict[str, Any] = {f"input_tensor_{n}": _padded(b, x) for n, x in zip("qkv", (query, key, value))}
    if mask is not None:
        operands["attn_mask"] = b.expand(mask, grown_mask(mask.shape, query.shape[-2], key.shape[-2]))
    if b.refuses(SDPA, is_causal=causal, scale=factor, **operands) is not None:
        return None
    out = b.call(SDPA, is_causal=causal, scale=factor, **operands)
    return cut(b, out, out.rank - 1, 0, depth)


def grown_mask(shape: tuple[int, ...], queries: int, keys: int) -> tuple[int, ...]:
    """The kernel broadcasts a mask over batch and heads, not over queries or keys."""
    lead = shape[:-2]
    return (*(1,) * (2 - len(lead)), *lead, queries, keys)


def _one_head_each(b: Builder, x: Value, heads: int) -> Value:
    """Grouped queries: each key and value head serves several query heads, next to each other."""
    batch, shared, length, depth = x.shape
    if shared == heads:
        return x
    apart = b.reshape(x, (batch, shared, 1, length, depth))
    return b.reshape(b.expand(apart, (batch, shared, heads // shared, length, depth)), (batch, heads, length, depth))


def _padded(b: Builder, x: Value) -> Value:
    missing = -x.shape[-1] % TILE
    if not missing or b.dtype(x.dtype) != Name("ttnn.bfloat16"):
        return x
    padding = ((0, 0),) * (x.rank - 1) + ((0, missing),)
    return b.call("ttnn.pad", input_tensor=b.layout(x, "tile"), padding=padding, value=0.0)


def _in_parts(
    b: Builder, query: Value, key: Value, value: Value, causal: bool, mask: Value | None, factor: float
) -> tuple[Value | None, ...]:
    """Scores, softmax and weights in float32: eager's kernel has scores so inside, and rounds no weight of 1."""
    key, value = (_one_head_each(b, x, query.shape[1]) for x in (key, value))
    key_t = b.permute(b.cast(key, WIDE), (0, 1, 3, 2))
    scores = b.call("ttnn.matmul", input_tensor_a=b.cast(query, WIDE), input_tensor_b=key_t)
    scores = b.call("ttnn.multiply", input_tensor_a=scores, input_tensor_b=factor)
    if causal:
        shape = query.shape[-2], key.shape[-2]
        upper = torch.full(shape, -math.inf).triu(1)
        scores = b.call("ttnn.add", input_tensor_a=scores, input_tensor_b=b.cast(b.constant(upper), WIDE))
    if mask is not None:
        scores = b.call("ttnn.add", input_tensor_a=scores, input_tensor_b=b.cast(mask, WIDE))
    weights = b.call("ttnn.softmax", input_tensor=scores, dim=3)
    if mask is None and not b.used(1):
        return _times(b, weights, value), None
    peak = b.call("ttnn.max", input_tensor=scores, dim=(3,), keepdim=True)
    weights = _unless_all_masked(b, weights, peak)
    out = _times(b, weights, value)
    if not b.used(1):
        return out, None
    statistics = b.outs[1]
    assert statistics is not None
    spread = b.call("ttnn.exp", input_tensor=b.call("ttnn.subtract", input_tensor_a=scores, input_tensor_b=peak))
    total = b.call("ttnn.log", input_tensor=b.call("ttnn.sum", input_tensor=spread, dim=(3,), keepdim=True))
    lse = _unless_all_masked(b, b.call("ttnn.add", input_tensor_a=total, input_tensor_b=peak), peak)
    return out, b.cast(b.reshape(lse, statistics.shape), statistics.dtype)


def _times(b: Builder, weights: Value, value: Value) -> Value:
    return b.cast(b.call("ttnn.matmul", input_tensor_a=weights, input_tensor_b=b.cast(value, WIDE)), value.dtype)


def _unless_all_masked(b: Builder, x: Value, peak: Value) -> Value:
    """Eager gives a query that may see no key zeros, where a softmax alone would give NaN."""
    blind = b.call("ttnn.eq", input_tensor_a=peak, input_tensor_b=-math.inf, dtype=b.dtype("bool"), gives="bool")
    return b.call("ttnn.where", predicate=blind, true_value=0.0, false_value=x, gives=x.dtype)


def sdpa_samples() -> Iterator[Sample]:
    def qkv(dtype: torch.dtype = torch.float32, depth: int = 32) -> tuple[torch.Tensor, ...]:
        return tuple(randn(2, 4, n, depth, dtype=dtype) + 0.01 * i for i, n in enumerate((9, 12, 12)))

    mask = torch.zeros(2, 1, 9, 12).masked_fill(bools(2, 1, 9, 12), -math.inf)
    mask[..., 0] = 0.0
    square = tuple(randn(2, 4, 9, 32) + 0.01 * i for i in range(3))
    yield Sample(qkv())
    yield Sample(qkv(torch.bfloat16), name="bfloat16")
    yield Sample(square, {"is_causal": True}, "causal")
    yield Sample(tuple(t.bfloat16() for t in square), {"is_causal": True}, "causal bfloat16")
    yield Sample(qkv(), {"attn_mask": mask}, "mask")
    yield Sample(qkv(torch.bfloat16), {"attn_mask": mask.bfloat16()}, "mask bfloat16")
    blind = mask.clone()
    blind[..., 3, :] = -math.inf
    yield Sample(qkv(), {"attn_mask": blind}, "a query that sees nothing")
    grouped = randn(2, 4, 9, 32), randn(2, 2, 9, 32), randn(2, 2, 9, 32) + 0.1
    yield Sample(grouped, name="grouped queries")
    yield Sample(tuple(t.bfloat16() for t in grouped), name="grouped queries bfloat16")
    yield Sample(qkv(torch.bfloat16, 24), {"scale": 0.3}, "head size 24, scale")


OPS = [Op("aten._scaled_dot_product_flash_attention_for_cpu.default", lower_sdpa, samples=sdpa_samples)]
