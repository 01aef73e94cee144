"""What our Triton kernels share: waiting for the kernel before, activations, and the moments of rows for norms."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

STATS_WIDTH = tl.constexpr(64)
"""Columns that one pair of moments stands for: a row's mean and variance are put together from these."""


@triton.jit
def prefetch(pointers):
    """Bring lines into the L2 cache; nothing waits for them."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;",
        "=r,l",
        [pointers.to(tl.int64, bitcast=True)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def wait_for_inputs(PDL: tl.constexpr):
    """Before the first read of what an earlier kernel wrote. The next kernel may then start, up to this same point."""
    if PDL:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def erf_gelu(x):
    """x (1 + erf(x / sqrt 2)) / 2, with erfc(z) = 2 ** -p(z) for z >= 0: the largest error of erf is 6e-7."""
    z = tl.minimum(tl.abs(x) * 0.70710678118654752, 4.2)
    p = 0.0029442268301921597 * z - 0.029590280657487155
    p = p * z + 0.14866588579615833
    p = p * z + 0.9185092723240245
    p = p * z + 1.6278890126633605
    tail = tl.exp2(-p * z)  # erfc(|x| / sqrt 2)
    return x * tl.where(x >= 0, 1.0 - 0.5 * tail, 0.5 * tail)


@triton.jit
def tanh_gelu(x):
    """x (1 + tanh u) / 2 = x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    u = x * (1.0 + 0.044715 * x * x)
    return x / (1.0 + tl.exp2(-2.302208198144325 * u))  # 2 sqrt(2 / pi) / ln 2


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "gelu":
        x = erf_gelu(x)
    elif ACTIVATION == "gelu_tanh":
        x = tanh_gelu(x)
    elif ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    return x


@triton.jit
def row_stats(stats, rows, valid, BLOCKS: tl.constexpr, PADDED: tl.constexpr):
    """What [row, block, (mean of the block, sum of squares about it)] has for some rows, in one piece, or zeros."""
    pairs = tl.zeros((rows.shape[0], 1), tl.float32)
    if BLOCKS > 0:
        at = tl.arange(0, 2 * PADDED)
        mask = valid[:, None] & (at[None, :] < 2 * BLOCKS)
        pairs = tl.load(stats + rows[:, None] * (2 * BLOCKS) + at[None, :], mask=mask, other=0.0)
    return pairs


@triton.jit
def moments_of(pairs, eps, BLOCKS: tl.constexpr):
    """Mean and 1 / standard deviation of whole rows, from `row_stats`."""
    at = tl.arange(0, pairs.shape[1])[None, :]
    is_mean = (at % 2 == 0) & (at < 2 * BLOCKS)
    mean = tl.sum(tl.where(is_mean, pairs, 0.0), 1) / BLOCKS
    apart = pairs - mean[:, None]
    spread = tl.where(is_mean, STATS_WIDTH * apart * apart, tl.where(at % 2 == 1, pairs, 0.0))
    return mean, 1.0 / tl.sqrt(tl.sum(spread, 1) / (BLOCKS * STATS_WIDTH) + eps)
