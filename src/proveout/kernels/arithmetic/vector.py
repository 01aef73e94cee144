"""The vector unit (SFPU), bit by bit: multiply-add, stores, rounding, tables. Values are float32.

`mad` is x·y + z with one rounding, but not IEEE's: denormals are 0; the product keeps 24 bits with guard, round and
sticky bit; it counts as 0 where its exponent would be negative before it is normalised, and as infinity from 255 on.
What is shifted out entirely leaves no sticky bit. Results below the smallest normal become 0: +0 on Wormhole, with
their sign on Blackhole. NaN is 0x7FC00000 on Blackhole; on Wormhole its low bits come from the sum.
"""

from __future__ import annotations

import torch

from proveout.kernels.arithmetic.bits import (
    HIDDEN,
    INFINITY,
    MANTISSA,
    SIGN,
    Arch,
    Tensor,
    bits,
    exponent,
    floats,
    flush,
    nan_to_infinity,
)

ONE, ZERO = torch.tensor(1.0), torch.tensor(0.0)


def add(x: Tensor, y: Tensor, arch: Arch) -> Tensor:
    return mad(ONE, x, y, arch)


def multiply(x: Tensor, y: Tensor, arch: Arch) -> Tensor:
    return mad(x, y, ZERO, arch)


def mad(x: Tensor, y: Tensor, z: Tensor, arch: Arch) -> Tensor:
    """x·y + z, SFPMAD."""
    px, py, pz = (bits(t).to(torch.int64) for t in torch.broadcast_tensors(x, y, z))
    wormhole = arch == "wormhole"
    ex, ey, ez = (exponent(t) for t in (px, py, pz))
    mx, my, mz = (torch.where(e > 0, t & MANTISSA | HIDDEN, 0) for t, e in ((px, ex), (py, ey), (pz, ez)))
    sign_p, sign_z = (px ^ py) < 0, pz < 0
    # the product with three more bits; what lies below them leaves a sticky bit
    product = mx * my << 3
    mp = product >> 23 | (product & MANTISSA != 0).to(torch.int64)
    ep = ex + ey - 127
    mz = mz << 3
    special = (ex == 255) | (ey == 255) | (ez == 255) | (ep >= 255)
    infinite_p = (ex == 255) | (ey == 255)
    bad_p = (ex == 255) & ((mx != HIDDEN) | (my == 0)) | (ey == 255) & ((my != HIDDEN) | (mx == 0))
    nan_z = (ez == 255) & (mz != HIDDEN << 3)
    infinite_z = (ez == 255) & ~nan_z
    both = infinite_p | (ep >= 255) if wormhole else infinite_p
    clash = infinite_z & both & (sign_z != sign_p)
    nan = bad_p | nan_z | clash
    bit_p, bit_z = (torch.where(s, 1 << 31, 0) for s in (sign_p, sign_z))

    nothing = (mp == 0) | (ep < 0)
    mp, ep_sum = torch.where(nothing, 0, mp), torch.where(nothing & special, 0, ep.clamp(max=255))
    total, top, negative = _sum(mp, ep_sum, sign_p, mz, ez, sign_z)
    result = _rounded(total, top, negative, wormhole)
    cancelled = torch.where(sign_z & sign_p, 1 << 31, 0) if not wormhole else torch.zeros_like(total)
    result = torch.where(total == 0, cancelled, result)
    alone = torch.where(mz > 0, pz & 0xFFFFFFFF, 0 if wormhole else bit_z & bit_p)
    result = torch.where(nothing, alone, result)
    if wormhole:
        leaked = torch.where(total == 0, 0, _rounded(total, top, negative, wormhole, leak=True))
        which = torch.where(bad_p | clash, bit_p, bit_z) | INFINITY | 1
        not_a_number = which | leaked
    else:
        not_a_number = torch.full_like(result, 0x7FC00000)
    infinite = torch.where(infinite_z, bit_z, bit_p) | INFINITY
    result = torch.where(special, torch.where(nan, not_a_number, infinite), result)
    return floats(result)


def _sum(
    mp: Tensor, ep: Tensor, sign_p: Tensor, mz: Tensor, ez: Tensor, sign_z: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Both shifted to the larger exponent; magnitude, exponent, sign."""
    top = torch.maximum(ep, ez)
    mp, mz = _sticky(mp, top - ep, 64), _sticky(mz, top - ez, 32)
    signed = torch.where(sign_p, -mp, mp) + torch.where(sign_z, -mz, mz)
    return signed.abs(), top, torch.where(mp >= mz, sign_p, sign_z)


def _sticky(value: Tensor, by: Tensor, width: int) -> Tensor:
    """Shifted right; bits that are lost set the lowest one, unless nothing is left."""
    by = by.clamp(min=0)
    shifted = value >> by.clamp(max=62)
    lost = shifted << by.clamp(max=62) != value
    shifted = torch.where(shifted != 0, shifted | lost.to(torch.int64), 0)
    return torch.where(by < width, shifted, 0)


def _rounded(total: Tensor, top: Tensor, negative: Tensor, wormhole: bool, leak: bool = False) -> Tensor:
    """Normalised to 24 bits and three more, to nearest even; `leak` is what shines through a NaN on Wormhole."""
    length = (total.double().view(torch.int64) >> 52) - 1023 + 1
    right = length - 27
    top = top + right
    overflow, tiny = top >= 255, top < 0 if wormhole else top <= 0
    if not wormhole:
        right = torch.where(tiny, right + 1, right)
        top = torch.where(tiny, 0, top)
    by = right.clamp(min=0)
    kept_low = total & (1 if wormhole else by | 1)
    shifted = torch.where(right <= 0, total << (-right).clamp(min=0), total >> by | (kept_low != 0).to(torch.int64))
    near = (top.clamp(min=0) << 23) + (shifted >> 3 & MANTISSA)
    near = near + ((shifted & 7) + (near & 1) > 4).to(torch.int64)
    sign = torch.where(negative, 1 << 31, 0)
    below = near >> 23 == 0
    if leak:
        return torch.where(overflow | tiny | below, 0, near)
    gone = (tiny | below) if wormhole else below
    near = torch.where(gone, 0 if wormhole else sign, sign | near)
    return torch.where(overflow, sign | INFINITY, near)


# ---- what reads and writes registers --------------------------------------------------------------------------------


def store_bfloat16(x: Tensor) -> Tensor:
    """SFPSTORE to a bfloat16 destination: cut, not rounded."""
    return floats(flush(bits(x), signed=True) & -0x10000)


def store_float32(x: Tensor) -> Tensor:
    return floats(flush(bits(x), signed=True))


def round_bfloat16(x: Tensor) -> Tensor:
    """SFP_STOCH_RND in its nearest mode: ties away from zero, NaN as infinity, denormals as +0."""
    pattern = nan_to_infinity(bits(x))
    near = torch.where(pattern & INFINITY == INFINITY, pattern, pattern + 0x8000 & -0x10000)
    return floats(torch.where(pattern & INFINITY == 0, 0, near))


def field_of(x: Tensor) -> Tensor:
    """SFPEXEXP: the exponent without its bias, int32."""
    return exponent(bits(x)) - 127


def cast(whole: Tensor) -> Tensor:
    """SFPCAST: a sign-and-magnitude integer as float32, to nearest even. -0 keeps its sign."""
    magnitude = (whole & 0x7FFFFFFF).to(torch.float32)
    return torch.where(whole < 0, -magnitude, magnitude)


def lut(x: Tensor, coefficients: tuple[Tensor, Tensor, Tensor], arch: Arch) -> Tensor:
    """SFPLUT: slope·|x| + offset with x's sign. Each of three words holds an 8-bit slope above an 8-bit offset."""
    word = _piece(x, coefficients)
    out = mad(_eight_bits(word >> 8 & 255), x.abs(), _eight_bits(word & 255), arch)
    return floats(bits(out) & ~SIGN | bits(x) & SIGN)


def lut_float32(
    x: Tensor, slopes: tuple[Tensor, Tensor, Tensor], offsets: tuple[Tensor, Tensor, Tensor], arch: Arch
) -> Tensor:
    """SFPLUTFP32 with six pieces: below .5, 1, 1.5, 2, 3 and above; two 16-bit coefficients a word."""
    size = bits(x) & ~SIGN
    half, one, three_halves, two, three = (bits(torch.tensor(v)) for v in (0.5, 1.0, 1.5, 2.0, 3.0))
    upper = (size >= half) & (size < one) | (size >= three_halves) & (size < two) | (size >= three)
    by = torch.where(upper, 16, 0)
    slope, offset = (_sixteen_bits(_piece(x, words) >> by & 0xFFFF) for words in (slopes, offsets))
    return mad(slope, x.abs(), offset, arch)


def _piece(x: Tensor, words: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The first word where |x| is below 1, the second below 2, else the third."""
    size = bits(x) & ~SIGN
    return torch.where(size < 0x3F800000, words[0], torch.where(size < 0x40000000, words[1], words[2]))


def _eight_bits(code: Tensor) -> Tensor:
    value = (code >> 7) << 31 | 127 - (code >> 4 & 7) << 23 | (code & 15) << 19
    return floats(torch.where(code == 255, 0, value))


def _sixteen_bits(code: Tensor) -> Tensor:
    field = code >> 10 & 31
    return floats((code >> 15) << 31 | torch.where(field == 31, 0, field + 112) << 23 | (code & 0x3FF) << 13)


RECIPROCALS = tuple(round(256 / (1 + (i + 0.5) / 128)) - 128 for i in range(128))
"""Blackhole's first guess at 1/x by the top 7 bits after the point: 7 bits of 1 over the middle of the piece."""


def approximate_reciprocal(x: Tensor) -> Tensor:
    """SFPARECIP, Blackhole alone: about 7 bits of 1/x. 0 gives infinity, from 2^126 on 0; the sign stays."""
    pattern = bits(x)
    size = pattern & ~SIGN
    guess = (253 - (size >> 23)) << 23 | torch.tensor(RECIPROCALS, dtype=torch.int32)[(size >> 16 & 127).long()] << 16
    guess = torch.where(size < HIDDEN, INFINITY, torch.where(size < 0x7E800000, guess, 0))
    return floats(pattern & SIGN | guess)
