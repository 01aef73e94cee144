"""Softmax, norms and attention: the steps of tt-metal's kernels, each result stored where they store it.

Maximum, subtraction, exponential, sum, reciprocal and product follow the published kernels; between them results are
bfloat16 in L1 unless the tensor is float32. What a kernel does for tiles of padding is left out: padding is masked.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from proveout.kernels.arithmetic import products
from proveout.kernels.arithmetic.products import matmul as chain
from proveout.kernels.faithful.functions import apply
from proveout.kernels.faithful.reductions import total
from proveout.kernels.faithful.settings import Compute

Tensor = torch.Tensor
SDPA_CHUNK = 128
"""Keys that ttnn's attention works on at a time where nothing is said."""


def softmax(
    name: str, compute: Compute, input_tensor: Tensor, dim: int = -1, numeric_stable: bool = True, **rest: Any
) -> Tensor:
    """exp(x - max) times the reciprocal of its sum, along the last dimension; others are moved there."""
    x = input_tensor.movedim(dim, -1)
    if rest.get("scale") is not None:
        x = _store(products.multiply(x, torch.tensor(rest["scale"]).to(x.dtype), compute.unit), compute, x.dtype)
    if rest.get("mask") is not None:
        x = _store(products.add(x, rest["mask"], compute.unit), compute, x.dtype)
    powers = _exponentials(x, compute)
    return _normalised(powers, compute).movedim(-1, dim)


def _exponentials(x: Tensor, compute: Compute) -> Tensor:
    top = x.amax(-1, keepdim=True)
    return apply("exp", compute.arch, _store(products.add(x, top, compute.unit, subtract=True), compute, x.dtype))


def _normalised(powers: Tensor, compute: Compute) -> Tensor:
    """Over their sum: a product with a column of ones, its reciprocal, a product element by element."""
    sums = _store(total(powers, -1, 1.0, compute), compute, powers.dtype)
    inverse = apply("reciprocal", compute.arch, sums)
    return _store(products.multiply(powers, inverse, compute.unit), compute, powers.dtype)


def _store(dest: Tensor, compute: Compute, dtype: torch.dtype) -> Tensor:
    """A result between two steps, in L1."""
    return dest if dtype == torch.float32 else Compute(compute.fidelity, compute.fp32_dest).pack(dest, dtype)


def layer_norm(
    name: str,
    compute: Compute,
    input_tensor: Tensor,
    epsilon: float = 1e-12,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Mean, x - mean, mean of its squares, rsqrt(. + epsilon), product, weight, bias. An RMS norm has no mean."""
    dtype, width = input_tensor.dtype, input_tensor.shape[-1]
    scale = float(torch.tensor(1.0 / width).to(dtype))
    x = input_tensor
    if name == "ttnn.layer_norm":
        mean = _store(total(x, -1, scale, compute), compute, dtype)
        x = _store(products.add(x, mean, compute.unit, subtract=True), compute, dtype)
    squares = _store(products.multiply(x, x, compute.unit), compute, dtype)
    variance = _store(total(squares, -1, scale, compute), compute, dtype)
    shifted = _store(products.add(variance, torch.tensor(epsilon).to(dtype), compute.unit), compute, dtype)
    out = _store(products.multiply(x, apply("rsqrt", compute.arch, shifted), compute.unit), compute, dtype)
    if weight is not None:
        out = _store(products.multiply(out, weight.reshape(-1).to(dtype), compute.unit), compute, dtype)
    if bias is not None:
        out = _store(products.add(out, bias.reshape(-1).to(dtype), compute.unit), compute, dtype)
    return out


def batch_norm(
    name: str,
    compute: Compute,
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """x - mean, times rsqrt(variance + eps), weight, bias; each is stored."""
    dtype = input.dtype

    def each(t: Tensor) -> Tensor:
        return t.reshape(1, -1, 1, 1).to(dtype)

    shifted = _plus(each(running_var), torch.tensor(eps).to(dtype), compute)
    less = _store(products.add(input, each(running_mean), compute.unit, subtract=True), compute, dtype)
    out = _times(less, apply("rsqrt", compute.arch, shifted), compute)
    out = out if weight is None else _times(out, each(weight), compute)
    return out if bias is None else _plus(out, each(bias), compute)


def attention(
    name: str,
    compute: Compute,
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
) -> Tensor:
    """Flash attention: blocks of keys with a running maximum and a running sum, both corrected as it grows."""
    q, k, v = input_tensor_q, input_tensor_k, input_tensor_v
    dtype = q.dtype
    repeat = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(repeat, 1) if repeat > 1 else t for t in (k, v))
    batch, heads, length, depth = q.shape
    flat = [t.reshape(batch * heads, -1, depth) for t in (q, k, v)]
    factor = scale if scale is not None else 1.0 / math.sqrt(depth)
    mask = _mask(attn_mask, is_causal, (batch, heads, length, k.shape[-2]), dtype, factor)
    best = sums = out = None
    for first in range(0, k.shape[-2], SDPA_CHUNK):
        keys, values = (t[:, first : first + SDPA_CHUNK] for t in flat[1:])
        scores = _store(chain(flat[0], keys.transpose(-1, -2).contiguous(), compute.unit), compute, dtype)
        if mask is not None:
            piece = mask[..., first : first + SDPA_CHUNK]
            scores = _store(products.add(scores, piece, compute.unit), compute, dtype)
        top = scores.amax(-1, keepdim=True)
        top = top if best is None else torch.maximum(top, best)
        powers = _scaled_exp(scores, top, factor, compute)
        fresh = _store(total(powers, -1, 1.0, compute), compute, dtype)
        product = _store(chain(powers, values, compute.unit), compute, dtype)
        if out is None:
            sums, out = fresh, product
        else:
            assert best is not None
            assert sums is not None
            correction = _scaled_exp(best, top, factor, compute)
            sums = _plus(fresh, _times(sums, correction, compute), compute)
            out = _plus(product, _times(out, correction, compute), compute)
        best = top
    assert out is not None
    assert sums is not None
    return _times(out, apply("reciprocal", compute.arch, sums), compute).reshape(batch, heads, length, depth)


def _scaled_exp(x: Tensor, top: Tensor, factor: float, compute: Compute) -> Tensor:
    """exp((x - top)·factor): the factor goes with the exponential, as 16 bits."""
    less = _store(products.add(x, top, compute.unit, subtract=True), compute, x.dtype)
    scaled = less.float() * float(torch.tensor(factor).to(torch.bfloat16))
    return apply("exp", compute.arch, scaled.to(x.dtype))


def _times(a: Tensor, b: Tensor, compute: Compute) -> Tensor:
    return _store(products.multiply(a, b, compute.unit), compute, a.dtype)


def _plus(a: Tensor, b: Tensor, compute: Compute) -> Tensor:
    return _store(products.add(a, b, compute.unit), compute, a.dtype)


def _mask(
    mask: Tensor | None, causal: bool, shape: tuple[int, int, int, int], dtype: torch.dtype, factor: float
) -> Tensor | None:
    """A mask meets scores that are not scaled yet, so ttnn divides it by the factor first."""
    if causal:
        return torch.full(shape[-2:], -math.inf, dtype=dtype).triu(1)[None]
    if mask is None:
        return None
    return (mask.float() / factor).to(dtype).expand(shape).reshape(-1, *shape[-2:])
