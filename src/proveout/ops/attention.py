"""Scaled dot-product attention, whole where ttnn takes it and in parts where it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.samples import bools, randn
from proveout.ops.table import Builder, Op, Refused, Sample, Value

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
        raise Refused("attention with dropout draws random numbers")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not b.used(1):
        operands = {"input_tensor_q": query, "input_tensor_k": key, "input_tensor_v": value}
        if attn_mask is not None:
            lead = attn_mask.shape[:-2]
            lead = (1,) * (2 - len(lead)) + lead
            operands["attn_mask"] = b.expand(attn_mask, (*lead, query.shape[-2], key.shape[-2]))
        if b.refuses(SDPA, is_causal=is_causal, scale=factor, **operands) is None:
            return b.call(SDPA, is_causal=is_causal, scale=factor, **operands), None
    return _in_parts(b, query, key, value, is_causal, attn_mask, factor)


def _in_parts(
    b: Builder, query: Value, key: Value, value: Value, causal: bool, mask: Value | None, factor: float
) -> tuple[Value | None, ...]:
    key_t = b.permute(key, (0, 1, 3, 2))
    scores = b.call("ttnn.matmul", input_tensor_a=query, input_tensor_b=key_t)
    scores = b.call("ttnn.multiply", input_tensor_a=scores, input_tensor_b=factor)
    if causal:
        shape = query.shape[-2], key.shape[-2]
        upper = torch.full(shape, -math.inf, dtype=getattr(torch, query.dtype)).triu(1)
        scores = b.call("ttnn.add", input_tensor_a=scores, input_tensor_b=b.constant(upper))
    if mask is not None:
        scores = b.call("ttnn.add", input_tensor_a=scores, input_tensor_b=b.cast(mask, query.dtype))
    weights = b.call("ttnn.softmax", input_tensor=scores, dim=3)
    out = b.call("ttnn.matmul", input_tensor_a=weights, input_tensor_b=value)
    if not b.used(1):
        return out, None
    statistics = b.outs[1]
    assert statistics is not None
    wide = b.cast(scores, statistics.dtype)
    peak = b.call("ttnn.max", input_tensor=wide, dim=(3,), keepdim=True)
    spread = b.call(
        "ttnn.exp", input_tensor=b.call("ttnn.subtract", input_tensor_a=wide, input_tensor_b=peak)
    )
    total = b.call("ttnn.log", input_tensor=b.call("ttnn.sum", input_tensor=spread, dim=(3,), keepdim=True))
    return out, b.reshape(b.call("ttnn.add", input_tensor_a=total, input_tensor_b=peak), statistics.shape)


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
    yield Sample(qkv(torch.bfloat16, 24), {"scale": 0.3}, "head size 24, scale")


OPS = [Op("aten._scaled_dot_product_flash_attention_for_cpu.default", lower_sdpa, samples=sdpa_samples)]
