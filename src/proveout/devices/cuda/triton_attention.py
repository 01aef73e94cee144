"""Attention kept whole: queries in tiles, keys and values streamed past them, one softmax kept up to date."""

from __future__ import annotations

import triton
import triton.language as tl

from proveout.devices.cuda.triton_shared import wait_for_inputs


@triton.jit
def attention_kernel(
    q, k, v, mask, cos, sin, out, scale,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    m_batch, m_head, m_row, m_column, o_batch, o_head, o_row,
    QUERIES, KEYS, HEADS, GROUP: tl.constexpr,
    DEPTH: tl.constexpr, PADDED: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr,
    WHOLE: tl.constexpr, ANGLES: tl.constexpr, PAIRS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """`MASK`: 0 none, 1 numbers to add, 2 booleans (true: look). `GROUP` query heads share a key head. `WHOLE`: the
    tiles divide queries and keys, and the head size is a power of 2. The first `ANGLES` elements of queries and keys
    are turned by the tables as `ops.turned` says."""
    wait_for_inputs(PDL)
    tile = tl.program_id(0)
    batch = tl.program_id(1) // HEADS
    head = tl.program_id(1) % HEADS
    rows = tile * BM + tl.arange(0, BM)
    depth = tl.arange(0, PADDED)
    columns = tl.arange(0, BN)
    in_rows, in_depth = rows < QUERIES, depth < DEPTH
    q_at = q + batch * q_batch + head * q_head + rows[:, None] * q_row + depth[None, :]
    k_at = k + batch * k_batch + (head // GROUP) * k_head + depth[:, None] + columns[None, :] * k_row
    v_at = v + batch * v_batch + (head // GROUP) * v_head + columns[:, None] * v_row + depth[None, :]
    m_at = mask + batch * m_batch + head * m_head + rows[:, None] * m_row + columns[None, :] * m_column
    if WHOLE:
        queries = tl.load(q_at)
    else:
        queries = tl.load(q_at, mask=in_rows[:, None] & in_depth[None, :], other=0.0)
    if ANGLES > 0:
        queries = _turned(queries, cos, sin, rows, in_rows, depth, ANGLES, PAIRS)
    peak = tl.full((BM,), float("-inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, PADDED), tl.float32)
    factor = scale * 1.4426950408889634
    end = KEYS
    if CAUSAL:
        end = tl.minimum(KEYS, (tile + 1) * BM)
    for start in range(0, end, BN):
        seen = start + columns < KEYS
        if ANGLES > 0:
            keys = tl.load(tl.trans(k_at + start * k_row), mask=seen[:, None] & in_depth[None, :], other=0.0)
            keys = tl.trans(_turned(keys, cos, sin, start + columns, seen, depth, ANGLES, PAIRS))
        elif WHOLE:
            keys = tl.load(k_at + start * k_row)
        else:
            keys = tl.load(k_at + start * k_row, mask=in_depth[:, None] & seen[None, :], other=0.0)
        scores = tl.dot(queries, keys) * factor
        if MASK == 1:
            added = tl.load(m_at + start * m_column, mask=in_rows[:, None] & seen[None, :], other=0.0)
            scores += added.to(tl.float32) * 1.4426950408889634
        elif MASK == 2:
            look = tl.load(m_at + start * m_column, mask=in_rows[:, None] & seen[None, :], other=0)
            scores = tl.where(look != 0, scores, float("-inf"))
        if CAUSAL:
            scores = tl.where(rows[:, None] >= (start + columns)[None, :], scores, float("-inf"))
        if not WHOLE:
            scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # a row that sees nothing yet
        weights = tl.exp2(scores - shift[:, None])
        fade = tl.exp2(peak - shift)
        norm = norm * fade + tl.sum(weights, 1)
        if WHOLE:
            values = tl.load(v_at + start * v_row)
        else:
            values = tl.load(v_at + start * v_row, mask=seen[:, None] & in_depth[None, :], other=0.0)
        total = tl.dot(weights.to(values.dtype), values, total * fade[:, None])
        peak = higher
    total = total / tl.where(norm == 0.0, 1.0, norm)[:, None]
    o_at = out + batch * o_batch + head * o_head + rows[:, None] * o_row + depth[None, :]
    tl.store(o_at, total.to(out.dtype.element_ty), mask=in_rows[:, None] & in_depth[None, :])


@triton.jit
def _turned(x, cos, sin, rows, in_rows, depth, ANGLES: tl.constexpr, PAIRS: tl.constexpr):
    """Rows turned by their tables; partners are found in registers. Halves are those of the whole head."""
    ROWS: tl.constexpr = x.shape[0]
    PADDED: tl.constexpr = x.shape[1]
    wide = x.to(tl.float32)
    if PAIRS:
        first, second = tl.split(tl.reshape(wide, (ROWS, PADDED // 2, 2)))
        partner = tl.reshape(tl.join(-second, first), (ROWS, PADDED))
    else:
        first, second = tl.split(tl.permute(tl.reshape(wide, (ROWS, 2, PADDED // 2)), (0, 2, 1)))
        partner = tl.reshape(tl.permute(tl.join(-second, first), (0, 2, 1)), (ROWS, PADDED))
    at = rows[:, None] * ANGLES + depth[None, :]
    known = in_rows[:, None] & (depth < ANGLES)[None, :]
    straight = tl.load(cos + at, mask=known, other=1.0).to(tl.float32)
    crossed = tl.load(sin + at, mask=known, other=0.0).to(tl.float32)
    return (wide * straight + partner * crossed).to(x.dtype)
