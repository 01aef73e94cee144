"""Unpacker and packer: from L1 to the source registers, from the destination to L1, and sums made in L1.

Whatever a format keeps of a number, float32 holds it, so values travel as float32 tensors and patterns as int32.
"""

from __future__ import annotations

import torch

from proveout.kernels.arithmetic.bits import (
    INFINITY,
    SIGN,
    Tensor,
    bits,
    exponent,
    floats,
    flush,
    is_nan,
    nan_to_infinity,
)

FACE = 16
MAGNITUDE_BITS = {"bfloat8_b": 7, "bfloat4_b": 3}


# ---- unpacking ------------------------------------------------------------------------------------------------------


def to_source(x: Tensor, fp32_dest: bool) -> Tensor:
    """A float32 operand in a source register: cut to TF32 (10 bits after the point) if the destination is float32, to
    bfloat16 otherwise, denormals then being 0. bfloat16 and block floats fit whole."""
    return floats(bits(x) & -(1 << 13) if fp32_dest else flush(bits(x), signed=True) & -(1 << 16))


def unpack_blocks(sign: Tensor, magnitude: Tensor, shared: Tensor, num_bits: int) -> Tensor:
    """What the source registers hold of block floats: the magnitude normalised, the exponent less its leading zeros,
    modulo 256 (it wraps). A magnitude of 0 with a sign is -infinity."""
    wide = magnitude << 7 - num_bits
    zeros = (wide < 64).int() + (wide < 32) + (wide < 16) + (wide < 8) + (wide < 4) + (wide < 2)
    after_point = (wide << zeros & 63) << 17
    read = sign << 31 | (shared - zeros & 255) << 23 | after_point
    return floats(torch.where(magnitude > 0, read, torch.where(sign > 0, SIGN | INFINITY, 0)))


# ---- packing --------------------------------------------------------------------------------------------------------


def pack_bfloat16(dest: Tensor, fp32_dest: bool) -> Tensor:
    """A destination as bfloat16 in L1, held in float32: a float32 destination to nearest, ties away from zero. NaN
    becomes infinity, denormals +0."""
    pattern = nan_to_infinity(bits(dest))
    if fp32_dest:
        pattern = torch.where(pattern & INFINITY == INFINITY, pattern, pattern + 0x8000)
    return floats(flush(pattern & -0x10000))


def pack_blocks(dest: Tensor, dtype: str, fp32_dest: bool, precise: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Sign and magnitude of each element and the exponent of each group, from a destination [groups, 16].

    The destination is cut to its top 16 bits, then rounded to 7 bits of significand, ties away (the carry may raise
    the exponent), unless `precise`; the magnitude is the significand shifted to the largest exponent, halves up, at
    most 127. `bfloat4_b` keeps the top 3 bits of those 7.
    """
    pattern = bits(dest)
    if not (precise and fp32_dest):
        pattern = nan_to_infinity(pattern)
    if fp32_dest or precise:
        pattern = pattern & -0x10000
    else:
        pattern = flush(pattern & -0x10000)
    if not precise:
        pattern = pattern + 0x10000 & -0x20000
    pattern = flush(pattern)
    own = exponent(pattern)
    shared = own.amax(dim=-1, keepdim=True)
    significand = torch.where(own > 0, pattern >> 16 & 127 | 128, 0)
    shift = (shared - own).clamp_(max=8)
    magnitude = (significand + (1 << shift) >> shift + 1).clamp_(max=127)
    magnitude = torch.where(shift < 8, magnitude, 0) >> 7 - MAGNITUDE_BITS[dtype]
    return (pattern < 0).int() * (magnitude > 0), magnitude, shared


# ---- sums in L1 -----------------------------------------------------------------------------------------------------


def add_in_l1(there: Tensor, packed: Tensor, fp32: bool) -> Tensor:
    """What the packer leaves in L1 when it adds (`packer_l1_acc`): float32 as IEEE adds, denormals as 0 and every NaN
    0x7FC00000; bfloat16 the exact sum to nearest even."""
    old, new = flush(bits(there), signed=True), flush(bits(packed), signed=True)
    if fp32:
        total = bits(floats(old) + floats(new))
        return floats(torch.where(is_nan(total), 0x7FC00000, flush(total, signed=True)))
    clash = (old ^ new == SIGN) & (old & ~SIGN == INFINITY)
    exact = _huge(old, 1e300) + _huge(new, 2.0**128)
    # to 8 bits at once: a sum of two bfloat16 fits in float64 unless the smaller one cannot matter
    pattern = exact.view(torch.int64)
    field = (pattern >> 52 & 0x7FF) - 1023 + 127
    low = pattern & (1 << 52) - 1
    rounded = (field << 7) + (low + (1 << 44) - 1 + (low >> 45 & 1) >> 45)
    sign = pattern >> 63 << 15
    short = torch.where(field <= 0, 0, torch.where(field >= 255, 0x7F80, rounded))
    out = ((sign | short) << 16).to(torch.int32)
    return floats(torch.where(clash, 0x7FC00000, out))


def _huge(pattern: Tensor, magnitude: float) -> Tensor:
    """float64; a NaN counts as a number so large that the sum is infinite."""
    sign = torch.where(pattern < 0, -1.0, 1.0).double()
    return torch.where(is_nan(pattern), sign * magnitude, floats(pattern).double())
