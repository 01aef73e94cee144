"""The matrix unit's product as a Triton kernel: the rules of `matrix` for every operand, destination, special value.

Nothing here depends on where exponents lie. A group's products are aligned relative to its own largest exponent: each
is the two small whole parts times 2^-shift, and added to 1.5·2^23 it is rounded by itself to a whole number; the factor
1 + 2^-13 breaks its ties away from zero and changes nothing else. All else is integers. `matrix.c` is the same in C.
"""

from __future__ import annotations

import triton
import triton.language as tl

NUMBERS = (
    "rows", "columns", "tiles", "a_batch", "b_batch",
    "bias", "each_half", "each_keep", "last_half", "last_keep", "too_large", "largest", "spoilt",
)  # fmt: skip
"""Arguments whose values must not make Triton compile the kernel anew."""
GROUP = tl.constexpr(8)
ORIGIN = tl.constexpr(0x4B400000)
"""1.5·2^23 as a pattern: next to it, float32 counts by ones."""
NEAR_ONE = tl.constexpr(0x3F800400)
"""1 + 2^-13 as a pattern."""
FARTHEST = tl.constexpr(-14)
"""A product of 12 bits that is shifted so far is 0."""


@triton.jit(do_not_specialize=[*NUMBERS])
def matrix_kernel(
    a_exponents, a_parts, b_exponents, b_parts, dest, hits,
    rows, columns, tiles, a_batch, b_batch,
    bias, each_half, each_keep, last_half, last_keep, too_large, largest, spoilt,
    PHASES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One block of the destination. SrcA [batch, tiles·32, columns] and SrcB [batch, rows, tiles·32] are `Operand`s;
    the numbers from `bias` on are `Rules`; `dest` holds what the destination held before."""
    batch = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    place = dest + (batch * rows + row[:, None]) * columns + column[None, :]
    held = tl.load(place, mask=inside, other=0)
    count = tl.zeros((BM, BN), dtype=tl.int32)
    a_at = batch * a_batch + tl.minimum(column, columns - 1)[None, :]
    b_at = batch * b_batch + tl.minimum(row, rows - 1)[:, None].to(tl.int64) * tiles * 32
    rules = (bias, each_half, each_keep, last_half, last_keep, too_large, largest, spoilt)
    for _ in range(tiles):
        t0, p0, q0, r0, s0 = _group(a_exponents, a_parts, b_exponents, b_parts, a_at, b_at, columns, 0, PHASES, BM, BN)
        t1, p1, q1, r1, s1 = _group(a_exponents, a_parts, b_exponents, b_parts, a_at, b_at, columns, 8, PHASES, BM, BN)
        t2, p2, q2, r2, s2 = _group(a_exponents, a_parts, b_exponents, b_parts, a_at, b_at, columns, 16, PHASES, BM, BN)
        t3, p3, q3, r3, s3 = _group(a_exponents, a_parts, b_exponents, b_parts, a_at, b_at, columns, 24, PHASES, BM, BN)
        held, count = _step(held, count, t0, p0, t1, p1, 0, rules)
        held, count = _step(held, count, t2, p2, t3, p3, 0, rules)
        if PHASES > 1:
            held, count = _step(held, count, t0, q0, t1, q1, 5, rules)
            held, count = _step(held, count, t2, q2, t3, q3, 5, rules)
        if PHASES > 2:
            held, count = _step(held, count, t0, r0, t1, r1, 7, rules)
            held, count = _step(held, count, t2, r2, t3, r3, 7, rules)
        if PHASES > 3:
            held, count = _step(held, count, t0, s0, t1, s1, 12, rules)
            held, count = _step(held, count, t2, s2, t3, s3, 12, rules)
        a_at += columns.to(tl.int64) * 32
        b_at += 32
    tl.store(place, held, mask=inside)
    found = tl.sum(tl.where(inside, count, 0))
    if found > 0:
        tl.atomic_add(hits, found.to(tl.int64))


@triton.jit
def _group(
    a_exponents, a_parts, b_exponents, b_parts, a_at, b_at, columns,
    FIRST: tl.constexpr, PHASES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Eight products: their largest sum of exponent fields, at least 0, and the sum of each phase, as a float32 above
    1.5·2^23."""
    top = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(FIRST, FIRST + GROUP):
        top = tl.maximum(top, tl.load(a_exponents + a_at + k * columns) + tl.load(b_exponents + b_at + k))
    p = tl.full((BM, BN), 12582912.0, dtype=tl.float32)
    q, r, s = p, p, p
    for k in range(FIRST, FIRST + GROUP):
        own = tl.load(a_exponents + a_at + k * columns) + tl.load(b_exponents + b_at + k)
        scale = ((tl.maximum(own - top, FARTHEST) << 23) + NEAR_ONE).to(tl.float32, bitcast=True)
        a, b = tl.load(a_parts + a_at + k * columns), tl.load(b_parts + b_at + k)
        b_high = (b & -0x10000).to(tl.float32, bitcast=True)
        a_high = (a & -0x10000).to(tl.float32, bitcast=True) * scale
        p = tl.fma(a_high, b_high, p)
        if PHASES > 1:
            a_low = (a << 16).to(tl.float32, bitcast=True) * scale
            q = tl.fma(a_low, b_high, q)
        if PHASES > 2:
            b_low = (b << 16).to(tl.float32, bitcast=True)
            r = tl.fma(a_high, b_low, r)
        if PHASES > 3:
            s = tl.fma(a_low, b_low, s)
    return top, p, q, r, s


@triton.jit
def _step(held, count, top0, sum0, top1, sum1, OFFSET: tl.constexpr, rules):
    """The destination's pattern after two groups are added to it, and how often that met tt-metal#38306."""
    bias, each_half, each_keep, last_half, last_keep, too_large, largest, spoilt = rules
    own0, own1 = tl.maximum(top0 + (bias - OFFSET), 0), tl.maximum(top1 + (bias - OFFSET), 0)
    field = held >> 23 & 255
    top = tl.maximum(tl.maximum(own0, own1), field)
    total = _near(tl.where(field > 0, held & 0x7FFFFF | 0x800000, 0), top - field) + each_half & each_keep
    total = tl.where(held < 0, -total, total)
    total += _near(_whole(sum0, own0), top - own0) + each_half & each_keep
    total += _near(_whole(sum1, own1), top - own1) + each_half & each_keep
    magnitude = tl.abs(total)
    # rounding up to a power of 2 on the way to float32 does no harm: to 24 bits the number is that power
    right = tl.maximum((magnitude.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - (127 + 23), 0)
    kept = ((magnitude << 1 >> right) + 1 >> 1).to(tl.float32).to(tl.int32, bitcast=True) + last_half & last_keep
    hit = total == spoilt
    own = tl.where(hit, top + 4, (kept >> 23) + right + top - 150)
    after_point = tl.where(hit, 0, kept & 0x7FFFFF)
    result = tl.where(own >= too_large, largest, own << 23 | after_point)
    return tl.where((total == 0) | (own <= 0), 0, total & -0x80000000 | result), count + hit.to(tl.int32)


@triton.jit
def _whole(total, own):
    """A group's sum in units of 2^-23; 0 where its exponent is."""
    return tl.where(own > 0, total.to(tl.int32, bitcast=True) - ORIGIN << 13, 0)


@triton.jit
def _near(value, by):
    """Shifted right to nearest, halves up, which leaves 0 of any after 31."""
    return (value << 1 >> tl.minimum(by, 31)) + 1 >> 1
