"""Kernels for a few rows at a time, as when a model writes one token after another: what counts is that weights are on
their way before the kernel ahead is done, and that nothing between two products needs a kernel of its own."""

from __future__ import annotations

import triton
import triton.language as tl

from proveout.devices.cuda.triton_shared import activate, wait_for_inputs


@triton.jit
def vector_kernel(
    a, w, y, scale, bias, residual, second, gamma, beta,
    M, N, K, a_row, w_column, y_row, r_row, s_row, eps,
    SCALE: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, SECOND: tl.constexpr,
    NORM: tl.constexpr, POSITIONS: tl.constexpr, PADDED: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """y = residual + second + activation(norm(a) @ w + bias): one block takes one row and BN columns, without the
    matrix units. Weights are read before waiting for a: of w the first BK rows, all of them where that fits."""
    row = tl.program_id(1)
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    in_cols = cols < N
    inner = tl.arange(0, BK)
    w_at = w + cols[:, None].to(tl.int64) * w_column + inner[None, :]
    first = tl.load(w_at, mask=in_cols[:, None] & (inner < K)[None, :], other=0)
    factor, shift = _norm_weights(gamma, beta, inner, K, NORM)
    offset = tl.zeros((BN,), tl.float32)
    if BIAS:
        offset = tl.load(bias + cols, mask=in_cols, other=0.0).to(tl.float32)
    factors = tl.full((BN,), 1.0, tl.float32)
    if SCALE:
        factors = tl.load(scale + cols, mask=in_cols, other=0.0)
    wait_for_inputs(PDL)
    mean = tl.full((), 0.0, tl.float32)
    rate = tl.full((), 1.0, tl.float32)
    if NORM:
        whole = tl.arange(0, PADDED)
        value = tl.load(a + row * a_row + whole, mask=whole < K, other=0.0).to(tl.float32)
        mean = tl.sum(value, 0) / K
        apart = tl.where(whole < K, value - mean, 0.0)
        rate = 1.0 / tl.sqrt(tl.sum(apart * apart, 0) / K + eps)
    x = _part(a + row * a_row, factor, shift, inner, K, mean, rate, NORM, POSITIONS)
    total = x[None, :] * first.to(tl.float32)
    for start in range(BK, K, BK):
        left = start + inner < K
        factor, shift = _norm_weights(gamma, beta, start + inner, K, NORM)
        x = _part(a + row * a_row, factor, shift, start + inner, K, mean, rate, NORM, POSITIONS)
        total += x[None, :] * tl.load(w_at + start, mask=in_cols[:, None] & left[None, :], other=0).to(tl.float32)
    result = activate(tl.sum(total, 1) * factors + offset, ACTIVATION)
    if RESIDUAL:
        result += tl.load(residual + row * r_row + cols, mask=in_cols, other=0.0).to(tl.float32)
    if SECOND:
        result += tl.load(second + row * s_row + cols, mask=in_cols, other=0.0).to(tl.float32)
    tl.store(y + row * y_row + cols, result.to(y.dtype.element_ty), mask=in_cols)


@triton.jit
def _norm_weights(gamma, beta, inner, K, NORM: tl.constexpr):
    """Of some elements of a row."""
    factor = inner.to(tl.float32)
    shift = factor
    if NORM:
        factor = tl.load(gamma + inner, mask=inner < K, other=0.0).to(tl.float32)
        shift = tl.load(beta + inner, mask=inner < K, other=0.0).to(tl.float32)
    return factor, shift


@triton.jit
def _part(a, factor, shift, inner, K, mean, rate, NORM: tl.constexpr, POSITIONS: tl.constexpr):
    """Some elements of a row, normalised and then rounded as a norm of its own would be; or means of some columns."""
    if POSITIONS > 1:
        sums = tl.zeros((16, inner.shape[0]), tl.float32)
        for start in tl.static_range(0, POSITIONS, 16):
            place = start + tl.arange(0, 16)
            mask = (place < POSITIONS)[:, None] & (inner < K)[None, :]
            sums += tl.load(a + place[:, None] * K + inner[None, :], mask=mask, other=0.0).to(tl.float32)
        x = (tl.sum(sums, 0) / POSITIONS).to(a.dtype.element_ty)
    else:
        x = tl.load(a + inner, mask=inner < K, other=0.0)
    if NORM:
        x = ((x.to(tl.float32) - mean) * rate * factor + shift).to(a.dtype.element_ty)
    return x.to(tl.float32)


@triton.jit
def append_kernel(
    q, k, v, keys, values, position, mask, out, scale,
    q_batch, q_head, k_batch, k_head, v_batch, v_head, c_batch, c_head, c_row, d_batch, d_head, d_row,
    m_batch, m_head, m_column, o_batch, o_head,
    KEYS, HEADS, GROUP: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr, MASK: tl.constexpr,
    BN: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One query of one head: its new key and value take their row of the cache, and it attends to all rows. `MASK` as
    in `attention_kernel`; `c` are the strides of the keys, `d` those of the values."""
    wait_for_inputs(PDL)
    batch = tl.program_id(0) // HEADS
    head = tl.program_id(0) % HEADS
    shared = head // GROUP
    depth = tl.arange(0, PADDED)
    in_depth = depth < DEPTH
    at = tl.load(position)
    query = tl.load(q + batch * q_batch + head * q_head + depth, mask=in_depth, other=0.0).to(tl.float32)
    query *= scale * 1.4426950408889634
    new_key = tl.load(k + batch * k_batch + shared * k_head + depth, mask=in_depth, other=0.0)
    new_value = tl.load(v + batch * v_batch + shared * v_head + depth, mask=in_depth, other=0.0)
    cached_keys = keys + batch * c_batch + shared * c_head
    cached_values = values + batch * d_batch + shared * d_head
    if head % GROUP == 0:
        tl.store(cached_keys + at * c_row + depth, new_key, mask=in_depth)
        tl.store(cached_values + at * d_row + depth, new_value, mask=in_depth)
    columns = tl.arange(0, BN)
    peak = tl.full((), float("-inf"), tl.float32)
    norm = tl.full((), 0.0, tl.float32)
    total = tl.zeros((PADDED,), tl.float32)
    for start in range(0, KEYS, BN):
        rows = start + columns
        seen = rows < KEYS
        inside = seen[:, None] & in_depth[None, :]
        fresh = (rows == at)[:, None]  # not yet seen in memory by other blocks
        key = tl.load(cached_keys + rows[:, None].to(tl.int64) * c_row + depth[None, :], mask=inside, other=0.0)
        key = tl.where(fresh, new_key[None, :], key)
        scores = tl.sum(query[None, :] * key.to(tl.float32), 1)
        if MASK == 1:
            added = tl.load(mask + batch * m_batch + head * m_head + rows * m_column, mask=seen, other=0.0)
            scores += added.to(tl.float32) * 1.4426950408889634
        elif MASK == 2:
            look = tl.load(mask + batch * m_batch + head * m_head + rows * m_column, mask=seen, other=0)
            scores = tl.where(look != 0, scores, float("-inf"))
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - shift)
        fade = tl.exp2(peak - shift)
        norm = norm * fade + tl.sum(weights, 0)
        value = tl.load(cached_values + rows[:, None].to(tl.int64) * d_row + depth[None, :], mask=inside, other=0.0)
        value = tl.where(fresh, new_value[None, :], value)
        total = total * fade + tl.sum(weights[:, None] * value.to(tl.float32), 0)
        peak = higher
    total = total / tl.where(norm == 0.0, 1.0, norm)
    tl.store(out + batch * o_batch + head * o_head + depth, total.to(out.dtype.element_ty), mask=in_depth)


@triton.jit
def float8_rows_kernel(a, y, scales, K, a_row, LARGEST: tl.constexpr, PADDED: tl.constexpr, PDL: tl.constexpr):
    """One row in float8 and its factor."""
    wait_for_inputs(PDL)
    row = tl.program_id(0)
    inner = tl.arange(0, PADDED)
    value = tl.load(a + row.to(tl.int64) * a_row + inner, mask=inner < K, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value), 0), 1e-12) / LARGEST
    tl.store(scales + row, scale)
    tl.store(y + row.to(tl.int64) * K + inner, (value / scale).to(y.dtype.element_ty), mask=inner < K)
