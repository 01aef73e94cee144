"""Functions of two or three operands on the vector unit, and those that ttnn makes of several kernels.

Operands are float32 values as the destination holds them; results are what it holds afterwards. A chain of kernels in
one call keeps what lies between in the destination: float32, or bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from proveout.kernels.arithmetic import matrix
from proveout.kernels.arithmetic.bits import SIGN, Tensor, bits, exponent, floats
from proveout.kernels.arithmetic.functions import (
    Sfpu,
    copy_sign,
    exp_accurate,
    reciprocal,
    reciprocal_body,
    set_exponent,
    to_integer,
    value,
)


def nearest_even(x: Tensor) -> Tensor:
    """float32 as kernels of two operands round it to bfloat16: to nearest even, by adding to the pattern."""
    pattern = bits(x)
    return floats(pattern + 0x7FFF + (pattern >> 16 & 1) & -0x10000)


def even(sfpu: Sfpu, x: Tensor) -> Tensor:
    """What such a kernel leaves in the destination."""
    return sfpu.cut(x if sfpu.wide else nearest_even(x))


def quotient(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """a times the reciprocal of b; in float32 corrected by what is left."""
    inverse = reciprocal_body(sfpu, b, 2)
    out = sfpu.mul(a, inverse)
    if sfpu.wide:
        rest = sfpu.mad(-out, b, a)
        out = torch.where(exponent(bits(out)) != 255, sfpu.mad(rest, inverse, out), out)
    infinite = copy_sign(value(math.inf).expand(out.shape), a)
    out = torch.where(b == 0, torch.where(a == 0, math.nan, infinite), out)
    return even(sfpu, out)


def product(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    out = even(sfpu, sfpu.mul(a, b))
    return out if sfpu.wide else torch.where((a == 0) | (b == 0), 0.0, out)


def total(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """The matrix unit's sum in bfloat16, the vector unit's in float32."""
    if sfpu.wide:
        return sfpu.cut(sfpu.add(a, b))
    return matrix.add(a.bfloat16(), b.bfloat16(), matrix.Unit(sfpu.arch, 4))


def difference(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    if sfpu.wide:
        return sfpu.cut(sfpu.add(a, -b))
    return matrix.add(a.bfloat16(), b.bfloat16(), matrix.Unit(sfpu.arch, 4), subtract=True)


def larger(a: Tensor, b: Tensor) -> Tensor:
    """SFPSWAP: by sign and magnitude, so that +0 is above -0 and NaN above infinity."""
    return torch.where(_order(a) >= _order(b), a, b)


def smaller(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(_order(a) >= _order(b), b, a)


def _order(x: Tensor) -> Tensor:
    raw = bits(x)
    return torch.where(raw < 0, ~(raw & ~SIGN), raw)


# ---- powers ---------------------------------------------------------------------------------------------------------


def power(sfpu: Sfpu, base: Tensor, exponent_: Tensor) -> Tensor:
    base, exponent_ = torch.broadcast_tensors(base, exponent_)
    out = _power_wide(sfpu, base, exponent_) if sfpu.wide else _power_short(sfpu, base, exponent_)
    whole = to_integer(exponent_, 32767)
    odd = floats(bits(out) & ~SIGN | (whole << 31))
    out = torch.where(base < 0, torch.where(whole.float() == exponent_, odd, math.nan), out)
    zero = torch.where(exponent_ < 0, math.nan, 0.0)
    out = torch.where((base == 0) & (exponent_ != 0), zero, out)
    return sfpu.stored(out)


def _power_short(sfpu: Sfpu, base: Tensor, exponent_: Tensor) -> Tensor:
    """log2 by a cubic polynomial, 2^z by Moroz' formula with two factors."""
    x = set_exponent(base.abs(), 127)
    hexes = (float.fromhex(c) for c in ("-0x1.952992p+0", "0x2.4f5388p+0", "-0xd.e712ap-4", "0x2.44734p-4"))
    series = sfpu.poly(x, *hexes)
    field = (exponent(bits(base)) - 127).float()
    log2 = sfpu.mad(series, 1.442695, field)
    z = sfpu.mul(exponent_, log2).clamp(min=-127.0)
    z = floats(torch.where(bits(z) & 0x7F800000 == 0, 0, bits(z) + (23 << 23)))
    whole = _positive_integer(sfpu.add(z, float(0x3F800000)))
    zii = exponent(whole) - 127
    zif = whole & 0x7FFFFF
    d2 = sfpu.mul(0.40196114e-7, (0xF94EE7 + zif).float())
    d3 = (0x560E + zif).float()
    return set_exponent(floats(_positive_integer(sfpu.mul(d2, d3))), 127 + zii)


def _positive_integer(x: Tensor) -> Tensor:
    """A number from 0 on, cut to a whole one; from 2^31 on the largest."""
    return x.double().clamp(0.0, 2.0**31 - 1).nan_to_num(0.0).to(torch.int64).to(torch.int32)


def _power_wide(sfpu: Sfpu, base: Tensor, exponent_: Tensor) -> Tensor:
    size = base.abs()
    m = set_exponent(size, 127)
    field = exponent(bits(size)) - 127
    high = m >= 1.4142135381698608
    m = torch.where(high, sfpu.mul(m, 0.5), m)
    field = torch.where(high, field + 1, field)
    more = sfpu.add(m, 1.0)
    recip = sfpu.mad(-0.2426406871192851, more, 1.0)
    for _ in range(3):
        recip = sfpu.mul(recip, sfpu.mad(-more, recip, 2.0))
    z = sfpu.mad(m, recip, -recip)
    p = sfpu.poly(sfpu.mul(z, z), 1.0, 1 / 3, 0.2, 1 / 7, 1 / 9, 1 / 11)
    log_m = sfpu.mul(2.0, sfpu.mul(z, p))
    whole = field.float()
    split = sfpu.mul(exponent_, 4097.0)
    top = sfpu.add(split, -sfpu.add(split, -exponent_))
    low = sfpu.add(exponent_, -top)
    z_high = sfpu.mul(top, whole)
    z_low = sfpu.mad(low, whole, sfpu.mul(exponent_, sfpu.mul(log_m, 1.442695)))
    s = sfpu.add(z_high, z_low)
    e = sfpu.add(z_low, -sfpu.add(s, -z_high))
    under = s < -127
    s, e = torch.where(under, -127.0, s), torch.where(under, 0.0, e)
    shifted = sfpu.add(s, 12582912.0)
    k = sfpu.add(shifted, -12582912.0)
    y = exp_accurate(sfpu, sfpu.mul(sfpu.add(sfpu.add(s, -k), e), 0.693147180559945309))
    out = exponent(bits(y)) + bits(shifted) - 0x4B400000
    return torch.where(out >= 255, math.inf, set_exponent(y, out))


# ---- angles ---------------------------------------------------------------------------------------------------------

ATAN_WIDE = (
    "0x1.01cp-8", "-0x1.4bcp-6", "0x1.93p-5", "-0x1.48cp-4", "0x1.bd4p-4", "-0x1.24p-3", "0x1.99938ap-3",
    "-0x1.555558p-2",
)  # fmt: skip
ATAN_SHORT = ("-0x1.de8p-5", "0x1.668p-3", "-0x1.54p-2")


def atan2(sfpu: Sfpu, y: Tensor, x: Tensor) -> Tensor:
    """Of the smaller over the larger; in bfloat16 with a reciprocal that is not refined."""
    low, high = smaller(x.abs(), y.abs()), larger(x.abs(), y.abs())
    a = sfpu.mul(low, reciprocal_body(sfpu, high, 2 if sfpu.wide else 0))
    s = sfpu.mul(a, a)
    q = sfpu.poly(s, *(float.fromhex(c) for c in reversed(ATAN_WIDE if sfpu.wide else ATAN_SHORT)))
    r = sfpu.mad(sfpu.mul(q, s), a, a)
    half_pi = float.fromhex("0x1.921fb6p+0")
    steep = torch.where(low >= high, torch.where(low == 0, 0.0, half_pi / 2), sfpu.add(half_pi, -r))
    r = torch.where(low >= x.abs(), steep, r)
    r = torch.where(x < 0, sfpu.add(2 * half_pi, -r), r)
    return copy_sign(sfpu.stored(r), y)


# ---- what ttnn makes of them ----------------------------------------------------------------------------------------


def lerp(sfpu: Sfpu, start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return even(sfpu, sfpu.mad(weight, sfpu.add(end, -start), start))


def scaled_sum(sfpu: Sfpu, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    return total(sfpu, a, sfpu.cut(sfpu.mul(b, alpha)))


def quotient_or_zero(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """In float32 with the reciprocal kernel's own reciprocal."""
    out = sfpu.cut(sfpu.mul(a, reciprocal(sfpu, b))) if sfpu.wide else quotient(sfpu, a, b)
    return torch.where(b == 0, 0.0, out)


Pair = Callable[[Sfpu, Tensor, Tensor], Tensor]
PAIRS: dict[str, Pair] = {
    "add": total, "subtract": difference, "multiply": product, "divide": quotient, "div": quotient, "pow": power,
    "atan2": atan2, "div_no_nan": quotient_or_zero,
    "rsub": lambda sfpu, a, b: difference(sfpu, b, a),
    "maximum": lambda sfpu, a, b: sfpu.cut(larger(a, b)),
    "minimum": lambda sfpu, a, b: sfpu.cut(smaller(a, b)),
}  # fmt: skip
"""By ttnn's name."""
