"""Gradients of views, attention and lookups. Those of element-wise ops, norms and losses come decomposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from proveout.ops.samples import ODD, bools, ints, randn
from proveout.ops.scatter import lower_index_put
from proveout.ops.shape import lower_pad
from proveout.ops.table import Builder, Op, Refused, Sample, Value, normal_dim
from proveout.reasons import DROPOUT, Kind

SHARED_HEADS = Kind("attention-gradient-heads", "the gradient of attention with shared heads has no lowering")
COUNTED_INDICES = Kind("embedding-frequency", "scale_grad_by_freq counts indices, which has no kernel")

Ints = Sequence[int]


def lower_slice(b: Builder, grad_output: Value, input_sizes: Ints, dim: int, start: int, end: int, step: int) -> Value:
    """Zeros around it, and between its rows where the slice left some out."""
    dim = normal_dim(dim, len(input_sizes))
    size, count = input_sizes[dim], grad_output.shape[dim]
    begin, _, _ = slice(start, end, step).indices(size)
    x = grad_output
    if step != 1 and count > 1:
        lead, rest = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
        spread = lower_pad(b, b.reshape(x, (lead, count, 1, rest)), (0, 0, 0, step - 1))
        x = b.reshape(spread, (*x.shape[:dim], count * step, *x.shape[dim + 1 :]))
    pad = [0, 0] * (x.rank - 1 - dim) + [begin, size - begin - x.shape[dim]]
    return lower_pad(b, x, pad)


def lower_select(b: Builder, grad_output: Value, input_sizes: Ints, dim: int, index: int) -> Value:
    dim = normal_dim(dim, len(input_sizes))
    index %= input_sizes[dim]
    x = b.reshape(grad_output, (*grad_output.shape[:dim], 1, *grad_output.shape[dim:]))
    return lower_pad(b, x, [0, 0] * (x.rank - 1 - dim) + [index, input_sizes[dim] - 1 - index])


def lower_sdpa(
    b: Builder,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value | None, ...]:
    """The attention weights anew from logsumexp, then the chain rule; in float32, as eager has it inside.

    As in eager, weights and the scores' gradients are rounded to the operands' dtype before products take them.
    """
    if dropout_p:
        raise Refused(DROPOUT())
    if not query.shape[1] == key.shape[1] == value.shape[1]:
        raise Refused(SHARED_HEADS())
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    grad, q, k, v, o = (b.cast(x, "float32") for x in (grad_out, query, key, value, out))

    def product(x: Value, y: Value, **transposed: Any) -> Value:
        return b.call("ttnn.matmul", input_tensor_a=x, input_tensor_b=y, **transposed)

    def binary(kernel: str, x: Value, y: Value | float) -> Value:
        return b.call(kernel, input_tensor_a=x, input_tensor_b=y)

    scores = binary("ttnn.multiply", product(q, k, transpose_b=True), factor)
    if is_causal:
        upper = torch.full((query.shape[-2], key.shape[-2]), -math.inf).triu(1)
        scores = binary("ttnn.add", scores, b.constant(upper))
    if attn_mask is not None:
        scores = binary("ttnn.add", scores, b.cast(attn_mask, "float32"))
    total = b.reshape(b.cast(logsumexp, "float32"), (*query.shape[:-1], 1))
    weights = b.call("ttnn.exp", input_tensor=binary("ttnn.subtract", scores, total))
    delta = b.call("ttnn.sum", input_tensor=binary("ttnn.multiply", grad, o), dim=(3,), keepdim=True)
    change = binary("ttnn.subtract", product(grad, v, transpose_b=True), delta)
    grad_scores = binary("ttnn.multiply", weights, change)
    weights, grad_scores = (b.cast(b.cast(x, query.dtype), "float32") for x in (weights, grad_scores))
    results = (
        binary("ttnn.multiply", product(grad_scores, k), factor) if b.used(0) else None,
        binary("ttnn.multiply", product(grad_scores, q, transpose_a=True), factor) if b.used(1) else None,
        product(weights, grad, transpose_a=True) if b.used(2) else None,
    )
    return tuple(b.cast(r, grad_out.dtype) if r is not None else None for r in results)


def lower_embedding(
    b: Builder, grad_output: Value, indices: Value, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """Rows added where they were looked up. The row at padding_idx gets nothing, whatever reached it."""
    if scale_grad_by_freq:
        raise Refused(COUNTED_INDICES())
    blank = b.expand(b.constant(torch.zeros((), dtype=getattr(torch, b.out.dtype))), b.out.shape)
    looked_up = replace(indices, range=(0, num_weights - 1)) if indices.constant is None else indices
    out = lower_index_put(b, blank, [looked_up], grad_output, accumulate=True)
    if not 0 <= padding_idx < num_weights:
        return out
    padding = b.constant(torch.arange(num_weights).reshape(-1, 1) == padding_idx)
    return b.call("ttnn.where", predicate=padding, true_value=blank, false_value=out, gives=out.dtype)


def lower_copy(b: Builder, self: Value, src: Value, non_blocking: bool = False) -> Value:
    """What `x.copy_(src)` leaves in x; in-place ops in a model come to this."""
    return b.expand(b.cast(src, self.dtype), self.shape)


# ---- samples ---------------------------------------------------------------------------------------------------


def slice_samples() -> Iterator[Sample]:
    yield Sample((randn(2, 3, 3, 7), list(ODD), 2, 1, 4, 1))
    yield Sample((randn(2, 3, 5, 3), list(ODD), -1, -6, 2**63 - 1, 2), name="negative, step")
    yield Sample((randn(2, 3, 5, 1), list(ODD), 3, 5, 7, 4), name="step, one element")
    yield Sample((randn(1, 3, 5, 7), list(ODD), 0, 0, 1, 1), name="first")
    yield Sample((randn(*ODD), list(ODD), 1, 0, 3, 1), name="all")
    yield Sample((randn(3, dtype=torch.bfloat16), [9], 0, 2, 9, 3), name="1-d bfloat16")


def select_samples() -> Iterator[Sample]:
    yield Sample((randn(2, 5, 7), list(ODD), 1, -1))
    yield Sample((randn(), [5], 0, 2), name="0-d")
    yield Sample((randn(2, 3, 5, dtype=torch.bfloat16), list(ODD), 3, 0), name="bfloat16")


def sdpa_samples() -> Iterator[Sample]:
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def case(name: str, length: int = 12, dtype: torch.dtype = torch.float32, **options: object) -> Sample:
        q, k, v = (randn(2, 4, n, 32, dtype=dtype) + 0.01 * i for i, n in enumerate((9, length, length)))
        causal = bool(options.pop("is_causal", False))
        out, logsumexp = forward(q, k, v, 0.0, causal, **options)
        grad = randn(*out.shape, dtype=dtype) * 0.5
        return Sample((grad, q, k, v, out, logsumexp, 0.0, causal), dict(options), name)

    mask = torch.zeros(2, 1, 9, 12).masked_fill(bools(2, 1, 9, 12), -math.inf)
    mask[..., 0] = 0.0
    yield case("")
    yield case("causal", 9, is_causal=True)
    yield case("mask", attn_mask=mask)
    yield case("bfloat16, scale", dtype=torch.bfloat16, scale=0.3)


def embedding_samples() -> Iterator[Sample]:
    yield Sample((randn(2, 7, 33), ints(2, 7, low=0, high=20), 20, -1, False))
    yield Sample((randn(40, 8), ints(40, low=0, high=5), 5, 3, False), name="repeated, padding_idx")
    broken = randn(6, 4)
    broken[0], broken[1] = math.nan, math.inf
    yield Sample((broken, torch.tensor([1, 2, 0, 0, 3, 1]), 5, 1, False), name="not finite, padding_idx")
    yield Sample((randn(4), torch.tensor(2), 5, -1, False), name="0-d")
    yield Sample((randn(6, 4), ints(6, low=0, high=5, dtype=torch.int32), 5, 0, False), name="int32")
    yield Sample((randn(6, 4, dtype=torch.bfloat16), ints(6, low=0, high=5), 5, -1, False), name="bfloat16")
    yield Sample((randn(6, 4), ints(6, low=0, high=5), 5, -1, True), name="scaled by frequency")


def copy_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), randn(*ODD) + 1))
    yield Sample((randn(*ODD), randn(5, 1)), name="broadcast")
    yield Sample((randn(4, 6).t(), randn(6, 4, dtype=torch.bfloat16)), name="other dtype, transposed")
    yield Sample((ints(3, 4), bools(3, 4)), name="bool to int64")


OPS = [
    Op("aten.copy.default", lower_copy, samples=copy_samples),
    Op("aten.embedding_dense_backward.default", lower_embedding, samples=embedding_samples),
    Op("aten.slice_backward.default", lower_slice, samples=slice_samples),
    Op("aten.select_backward.default", lower_select, samples=select_samples),
    Op("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", lower_sdpa, samples=sdpa_samples),
]
