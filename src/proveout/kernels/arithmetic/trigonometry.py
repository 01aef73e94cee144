"""Trigonometric and hyperbolic functions and their inverses, as the vector unit computes them.

Coefficients and order of steps are those of tt-metal at 2026-08-22; see `functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from proveout.kernels.arithmetic import vector
from proveout.kernels.arithmetic.bits import Tensor, bits, exponent, floats
from proveout.kernels.arithmetic.functions import Sfpu, copy_sign, log1p_body, reciprocal_body, to_integer, value

HALF_PI = 1.5707963705062866


def horner(sfpu: Sfpu, x: Tensor, *descending: float | str) -> Tensor:
    """Coefficients from the highest power down; texts are in hexadecimal."""
    r = value(_number(descending[0]))
    for c in descending[1:]:
        r = sfpu.mad(r, x, _number(c))
    return r


def _number(c: float | str) -> float:
    return float.fromhex(c) if isinstance(c, str) else c


def reciprocal_positive(sfpu: Sfpu, x: Tensor) -> Tensor:
    """1/x for x > 0 by a guess from the pattern (Wormhole) or the table (Blackhole)."""
    if sfpu.arch == "blackhole":
        y = vector.approximate_reciprocal(x)
        for _ in range(2 if sfpu.wide else 1):
            y = sfpu.mad(y, sfpu.mad(-x, y, 1.0), y)
        return y
    y = floats(0xFEF392E0 - (1 << 32) - bits(x))
    e = sfpu.mad(x, y, 1.0)
    if sfpu.wide:
        y = sfpu.mad(y, e, y)
        e = sfpu.mad(x, y, 1.0)
    return sfpu.mad(-y, sfpu.mad(e, e, e), -y)


def root_newton(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A square root of numbers from 0 on, with no constants of its own: what inverse hyperbolic functions use."""
    half = sfpu.mul(x, 0.5)
    y = floats(0x5F1110A0 - (bits(x) >> 1))
    for _ in range(3 if sfpu.wide else 2):
        y = sfpu.mul(y, sfpu.mad(sfpu.mul(-half, y), y, 1.5))
    a = sfpu.mul(x, y)
    rest = sfpu.mad(-a, a, x)
    return torch.where(x == 0, 0.0, sfpu.mad(sfpu.mul(0.5, rest), y, a))


def root_rough(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A square root from the well-known guess and two rounds of Newton's method."""
    y = floats(0x5F370000 - (bits(x) >> 1 & 0x7FFFFFFF))
    less = sfpu.mul(x, -0.5)
    for _ in range(2):
        y = sfpu.mul(sfpu.mad(sfpu.mul(y, y), less, 1.5), y)
    return torch.where(x == 0, x, sfpu.mul(y, x))


def root_endpoint(sfpu: Sfpu, x: Tensor) -> Tensor:
    """The square root kernel's steps without its ends."""
    y = floats(0x5F1110A0 - (bits(x) >> 1 & 0x7FFFFFFF))
    c = sfpu.mul(-y, sfpu.mul(x, y))
    y = sfpu.mul(y, sfpu.mad(c, sfpu.add(2.2533049, c), 2.2825186))
    xy = sfpu.mul(x, y)
    return sfpu.mad(sfpu.mad(-y, xy, 1.0), sfpu.mul(0.5, xy), xy)


HALF_PI_PARTS = ("-0x1.92p+0", "-0x1.fbp-12", "-0x1.51p-22", "-0x1.0b4612p-34")


def tan(sfpu: Sfpu, x: Tensor) -> Tensor:
    """x less the nearest multiple of pi/2, a polynomial, and minus its reciprocal in every other quadrant."""
    shifted = sfpu.mad(x, 0.6366197466850281, 12582912.0)
    j = sfpu.add(shifted, -12582912.0)
    a = x
    for part in HALF_PI_PARTS:
        a = sfpu.mad(j, float.fromhex(part), a)
    s = sfpu.mul(a, a)
    if sfpu.wide:
        t = horner(
            sfpu, s, "0x1.fa9f82p-9", "0x1.2b404p-10", "0x1.4787dp-7", "0x1.620abcp-6", "0x1.ba5716p-5",
            "0x1.111072p-3", "0x1.555556p-2",
        )  # fmt: skip
    else:
        t = horner(sfpu, s, "0x1.4f1f4ep-4", "0x1.02b98p-3", "0x1.55953p-2")
    t = sfpu.mul(t, s)
    r = sfpu.mad(t, a, a)
    inverse = -reciprocal_body(sfpu, r, 1)
    if sfpu.wide:
        rest = sfpu.mad(t, a, sfpu.mad(-1.0, r, a))
        corrected = sfpu.mad(rest, inverse, sfpu.mad(r, inverse, 1.0))
        inverse = sfpu.mad(corrected, inverse, inverse)
    return sfpu.stored(torch.where(bits(shifted) & 1 == 1, inverse, r))


def atan(sfpu: Sfpu, x: Tensor) -> Tensor:
    size = x.abs()
    large = size >= 1
    if not sfpu.wide:
        t = torch.where(large, reciprocal_body(sfpu, size, 2), size)
        p = horner(
            sfpu, sfpu.mul(t, t), -4.4326744973659515380859375e-2, 0.1555790007114410400390625,
            -0.325808584690093994140625, 0.999787867069244384765625,
        )  # fmt: skip
        p = sfpu.mul(p, t)
        out = torch.where(large, sfpu.add(HALF_PI, -p), p)
        return sfpu.stored(torch.where(torch.isnan(x), math.nan, copy_sign(out, x)))
    far = size >= 2.0**26
    a = torch.where(far, 0.0, torch.where(large, reciprocal_positive(sfpu, size), size))
    s = sfpu.mul(a, a)
    p = horner(sfpu, s, *ATAN_WIDE, "0x1.999384p-3", "-0x1.555552p-2")
    r = sfpu.mad(p, sfpu.mul(s, a), a)
    r = torch.where(large, sfpu.add(HALF_PI, -r), r)
    return sfpu.stored(torch.where(torch.isnan(x), math.nan, copy_sign(r, x)))


ATAN_WIDE = ("0x1.01cp-8", "-0x1.4bcp-6", "0x1.93p-5", "-0x1.48cp-4", "0x1.bd4p-4", "-0x1.24p-3")
"""Odd powers from the 17th down to the 7th."""


def asin(sfpu: Sfpu, x: Tensor) -> Tensor:
    out = _asin_wide(sfpu, x) if sfpu.wide else _asin_short(sfpu, x)
    return sfpu.stored(torch.where(x.abs() > 1, math.nan, out))


def acos(sfpu: Sfpu, x: Tensor) -> Tensor:
    out = _acos_wide(sfpu, x) if sfpu.wide else sfpu.add(HALF_PI, -_asin_short(sfpu, x))
    return sfpu.stored(torch.where(x.abs() > 1, math.nan, out))


def _asin_short(sfpu: Sfpu, x: Tensor) -> Tensor:
    """Near 1 by the half angle."""
    size = x.abs()
    end = size >= 0.625
    z = torch.where(end, root_rough(sfpu, sfpu.mul(sfpu.add(1.0, -size), 0.5)), size)
    ratio = horner(
        sfpu, sfpu.mul(z, z), 0.083148844540119171142578125, 0.06381262838840484619140625,
        0.16771225631237030029296875, 0.999978601932525634765625,
    )  # fmt: skip
    r = sfpu.mul(z, ratio)
    return copy_sign(torch.where(end, sfpu.mad(-2.0, r, HALF_PI), r), x)


def _reduced(sfpu: Sfpu, x: Tensor) -> tuple[Tensor, Tensor]:
    """|x|, or near 1 the sine of the half angle; and which it is."""
    size = x.abs()
    end = sfpu.add(size, -0.5625) >= 0
    return torch.where(end, root_endpoint(sfpu, sfpu.mul(sfpu.add(1.0, -size), 0.5)), size), end


def _asin_wide(sfpu: Sfpu, x: Tensor) -> Tensor:
    z, end = _reduced(sfpu, x)
    s = sfpu.mul(z, z)
    p = horner(sfpu, s, "0x1.9ep-5", "0x1.364p-6", "0x1.7dcp-5", "0x1.329a74p-4", "0x1.55578cp-3")
    r = sfpu.mad(sfpu.mul(p, s), z, z)
    return copy_sign(torch.where(end, sfpu.mad(-2.0, r, HALF_PI), r), x)


def _acos_wide(sfpu: Sfpu, x: Tensor) -> Tensor:
    z, end = _reduced(sfpu, x)
    s = sfpu.mul(z, z)
    p = horner(sfpu, s, "0x1.83p-5", "0x1.cap-8", "0x1.158p-5", "0x1.6acp-5", "0x1.33411ep-4", "0x1.555552p-3")
    z = torch.where((bits(x) < 0) ^ ~end, -z, z)
    r = sfpu.mad(sfpu.mul(p, s), z, z)
    r = torch.where(~end | (z < 0), sfpu.add(r, HALF_PI), r)
    return torch.where(end, sfpu.add(r, r), r)


def _reduced_exp(sfpu: Sfpu, x: Tensor) -> tuple[Tensor, Tensor]:
    """|x| less its multiple of ln 2, and that multiple."""
    size = x.abs()
    whole = to_integer(sfpu.mul(x, 1.442695).abs(), 255)
    j = whole.float()
    if not sfpu.wide:
        return sfpu.mad(j, -0.6931471805599453, size), whole
    return sfpu.mad(j, -1.42860677e-6, sfpu.mad(j, -0.693145752, size)), whole


def cosh(sfpu: Sfpu, x: Tensor) -> Tensor:
    """From a quarter of e^|x|: twice it, and an eighth of its reciprocal."""
    f, whole = _reduced_exp(sfpu, x)
    wide = (1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0, 1.0)
    short = (0.038877178, 0.168174848, 0.500122011, 0.999963462, 1.0)
    r = horner(sfpu, f, *(wide if sfpu.wide else short))
    field = whole + 125
    q = torch.where(field < 255, sfpu.mul(r, floats((field & 255) << 23)), sfpu.mul(x.abs(), math.inf))
    inverse = sfpu.mul(reciprocal_positive(sfpu, q), 0.125)
    twice = sfpu.add(q, q)
    return sfpu.stored(torch.where(exponent(bits(q)) - 127 < 24, sfpu.add(twice, inverse), twice))


def sinh(sfpu: Sfpu, x: Tensor) -> Tensor:
    """From a quarter of e^|x| - 1, and the reciprocal of e^|x|."""
    f, whole = _reduced_exp(sfpu, x)
    wide = (1.974105835e-04, 1.393107930e-3, 8.333439939e-3, 4.166680202e-2, 1.666667163e-1, 4.999999702e-1)
    short = (8.361816406e-03, 4.177856445e-02, 1.666259766e-01, 0.5)
    r = sfpu.mad(horner(sfpu, f, *(wide if sfpu.wide else short)), sfpu.mul(f, f), f)
    scale = floats((whole << 23) + bits(value(0.25)))
    q = torch.where(whole < 130, sfpu.mad(r, scale, sfpu.add(scale, -0.25)), sfpu.mul(x.abs(), math.inf))
    inverse = reciprocal_positive(sfpu, sfpu.mad(4.0, q, 1.0))
    y = sfpu.add(q, q)
    power = exponent(bits(q)) - 127
    y = torch.where(power < 23, sfpu.mad(y, inverse, y), y)
    return sfpu.stored(copy_sign(torch.where(power >= -27, y, x), x))


LARGE = 2.0**28
LN_2 = 0.6931471805599453


def acosh(sfpu: Sfpu, x: Tensor) -> Tensor:
    """log1p(x - 1 + sqrt((x - 1)(x + 1))); far out ln 2 + log1p(x - 1). The argument passes through the destination."""
    less = sfpu.add(x, -1.0)
    root = root_newton(sfpu, sfpu.mul(sfpu.add(x, 1.0), less))
    out = log1p_body(sfpu, sfpu.cut(torch.where(x < LARGE, sfpu.add(less, root), less)))
    out = torch.where(x >= LARGE, sfpu.add(out, LN_2), out)
    return sfpu.stored(torch.where(x == 1, 0.0, torch.where(x < 1, math.nan, out)))


def asinh(sfpu: Sfpu, x: Tensor) -> Tensor:
    size, square = x.abs(), sfpu.mul(x, x)
    root = root_newton(sfpu, sfpu.mad(x, x, 1.0))
    middle = sfpu.mad(square, reciprocal_positive(sfpu, sfpu.add(1.0, root)), size)
    argument = torch.where(size >= LARGE, sfpu.add(size, -1.0), torch.where(size >= 0.75, middle, 0.0))
    out = log1p_body(sfpu, sfpu.cut(argument))
    out = torch.where(size >= LARGE, sfpu.add(out, LN_2), out)
    p = horner(
        sfpu, square, 4.375355784e-03, -1.484858524e-02, 2.785361186e-02, -4.417778924e-02, 7.495806366e-02,
        -1.666652262e-01, 1.0,
    )  # fmt: skip
    return sfpu.stored(copy_sign(torch.where(size < 0.75, sfpu.mul(size, p), out), x))


def atanh(sfpu: Sfpu, x: Tensor) -> Tensor:
    """log1p(2|x| / (1 - |x|)) / 2. The argument passes through the destination."""
    size = x.abs()
    a = torch.where(size >= 1, 0.0, size)
    argument = sfpu.mul(sfpu.add(a, a), reciprocal_positive(sfpu, sfpu.add(1.0, -a)))
    out = copy_sign(sfpu.mul(0.5, log1p_body(sfpu, sfpu.cut(argument))), x)
    out = torch.where(size == 1, copy_sign(value(math.inf).expand(x.shape), x), out)
    return sfpu.stored(torch.where(size > 1, math.nan, out))


def cbrt(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A guess from a third of the pattern, then Moroz' steps."""
    size = x.abs()
    f = sfpu.mad(bits(size).float(), float.fromhex("-0x1.555556p-10"), 1418472267.0 / 256 + 8388608.0)
    y = floats(bits(f) << 8)
    c0, c1, c2 = (float.fromhex(c) for c in ("0x1.c09806p0", "-0x1.403e6cp0", "0x1.04cdb2p-1"))
    if sfpu.wide:
        c = sfpu.mul(sfpu.mul(size, y), sfpu.mul(y, y))
        y = sfpu.mul(y, sfpu.mad(c, sfpu.mad(c2, c, c1), c0))
        d = sfpu.mul(size, sfpu.mul(y, y))
        t = sfpu.mad(sfpu.mad(d, y, -1.0), float.fromhex("-0x1.555556p-2"), 1.0)
    else:
        d = sfpu.mul(size, sfpu.mul(y, y))
        c = sfpu.mul(d, y)
        t = sfpu.mad(c, sfpu.mad(c2, c, c1), c0)
    return sfpu.stored(sfpu.mul(copy_sign(d, x), sfpu.mul(t, t)))


TRIGONOMETRY: dict[str, Callable[..., Tensor]] = {
    f.__name__: f for f in (tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, cbrt)
}
