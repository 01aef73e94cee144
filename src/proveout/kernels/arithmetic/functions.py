"""Functions as the vector unit computes them: tt-metal's published polynomials and sequences, step by step.

Each takes float32 values (what the destination holds) and gives what is stored there again: `wide` for a float32
destination; otherwise the result is rounded to bfloat16, ties away from zero, or cut where the kernel does not round.
Sequences are those of tt-metal at 2026-08-22. A multiplication followed by an addition is one `mad`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from proveout.kernels.arithmetic import vector
from proveout.kernels.arithmetic.bits import HIDDEN, INFINITY, MANTISSA, SIGN, Arch, Tensor, bits, exponent, floats

Number = Tensor | float


@dataclass(frozen=True)
class Sfpu:
    """A vector unit at work: its chip, and whether the destination is float32."""

    arch: Arch
    wide: bool

    def mad(self, x: Number, y: Number, z: Number) -> Tensor:
        return vector.mad(value(x), value(y), value(z), self.arch)

    def mul(self, x: Number, y: Number) -> Tensor:
        return self.mad(x, y, 0.0)

    def add(self, x: Number, y: Number) -> Tensor:
        return self.mad(1.0, x, y)

    def poly(self, x: Tensor, *ascending: Number) -> Tensor:
        """c0 + x·(c1 + x·(c2 + …))."""
        out: Number = ascending[-1]
        for c in reversed(ascending[:-1]):
            out = self.mad(x, out, c)
        return value(out)

    def stored(self, x: Tensor) -> Tensor:
        """What a kernel that rounds leaves in the destination."""
        return vector.store_float32(x) if self.wide else vector.round_bfloat16(x)

    def cut(self, x: Tensor) -> Tensor:
        """What a kernel that does not round leaves there."""
        return vector.store_float32(x) if self.wide else vector.store_bfloat16(x)


def value(x: Number) -> Tensor:
    return x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float32)


def set_exponent(x: Tensor, field: Tensor | int) -> Tensor:
    """SFPSETEXP."""
    return floats(bits(x) & ~INFINITY | (torch.as_tensor(field, dtype=torch.int32) & 255) << 23)


def copy_sign(x: Tensor, of: Tensor) -> Tensor:
    return floats(bits(x) & ~SIGN | bits(of) & SIGN)


def to_integer(x: Tensor, most: int) -> Tensor:
    """SFP_STOCH_RND to an integer in its nearest mode: |x|, halves up, at most `most`, with x's sign."""
    size = torch.nan_to_num(x.abs().double(), nan=float(most), posinf=float(most))
    whole = torch.floor(size + 0.5).clamp(max=most).to(torch.int32)
    return torch.where(x < 0, -whole, whole)


# ---- exponential ----------------------------------------------------------------------------------------------------

LOG2_E = 1.4426950216293334961


def exp_21(sfpu: Sfpu, x: Tensor, c0: float = 1.0017248) -> Tensor:
    """e^x by 2^(whole)·(polynomial of the fraction), about 21 bits (Moroz et al. 2022); not rounded."""
    z = sfpu.mad(x, LOG2_E, 127.0).clamp(0.0, 255.0)
    return two_to(sfpu, z, c0)


def two_to(sfpu: Sfpu, z: Tensor, c0: float) -> Tensor:
    """2^(z - 127) for 0 <= z < 256."""
    pattern = bits(z)
    shift = exponent(pattern) - 127
    significand = pattern & MANTISSA | HIDDEN
    left = significand << shift.clamp(0, 8)
    right = significand >> ((-shift).clamp(min=0) & 31)
    whole = torch.where(shift >= 0, left, right)
    fraction = (whole & MANTISSA).float()
    frac = sfpu.mad(sfpu.mad(fraction, 4.791750143340323e-15, 7.839635491371155e-08), fraction, c0)
    return set_exponent(frac, whole >> 23)


def exp_accurate(sfpu: Sfpu, x: Tensor) -> Tensor:
    """e^x in float32: two-part reduction by ln 2, polynomial of degree 6."""
    whole = to_integer(sfpu.mul(1.442695, x), 32767)
    j = whole.float()
    f = sfpu.mad(j, -1.42860677e-6, sfpu.mad(j, -6.93145752e-1, x))
    r = value(1.37805939e-3)
    for c in (8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1.0, 1.0):
        r = sfpu.mad(r, f, c)
    field = exponent(bits(r)) + whole
    out = torch.where(field >= 255, math.inf, torch.where(field < 1, 0.0, set_exponent(r, field)))
    return torch.where(torch.isnan(x), x, out)


def exp(sfpu: Sfpu, x: Tensor) -> Tensor:
    """The bfloat16 kernel's first coefficient is held in 16 bits."""
    return sfpu.stored(exp_accurate(sfpu, x) if sfpu.wide else exp_21(sfpu, x, 1 + 2.0**-9))


def expm1(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(expm1_body(sfpu, x))


def expm1_body(sfpu: Sfpu, a: Tensor) -> Tensor:
    bias = 12582912.0
    shifted = sfpu.mad(1.442695, a, bias)
    i = bits(shifted)
    j = sfpu.add(shifted, -bias)
    scale = floats((i << 23) + bits(value(0.5)))
    tail = to_integer(sfpu.add(j, -2.0).abs(), 127) >= 127
    ends = torch.where(j < 2, -0.5, math.inf)
    if not sfpu.wide:
        f = sfpu.mad(j, -0.6931471805599453, a)
        s = sfpu.mul(f, f)
        r = value(8.361816406e-03)
        for c in (4.177856445e-02, 1.666259766e-01, 0.5):
            r = sfpu.mad(r, f, c)
        r = sfpu.mad(r, s, f)
        far = torch.where(tail, ends, sfpu.mad(scale, r, sfpu.add(scale, -0.5)))
        return torch.where(j == 0, r, sfpu.mul(far, 2.0))
    f = sfpu.mad(j, -1.42860677e-6, sfpu.mad(j, -0.693145752, a))
    s = sfpu.mul(f, f)
    r = value(1.974105835e-04)
    below_half = floats(bits(value(0.5)) - 1)
    for c in (1.393107930e-3, 8.333439939e-3, 4.166680202e-2, 1.666667163e-1):
        r = sfpu.mad(r, f, c)
    r = sfpu.mad(r, f, below_half)
    r = sfpu.mad(r, s, torch.where(j == 1, sfpu.add(f, 0.5), f))
    y = sfpu.add(scale, -0.5)
    rest = sfpu.add(sfpu.mad(-1.0, y, scale), -0.5)
    far = sfpu.add(sfpu.mad(r, scale, rest), y)
    far = torch.where(tail, ends, far)
    return torch.where(j == 0, r, sfpu.mul(torch.where(j == 1, r, far), 2.0))


def elu(sfpu: Sfpu, x: Tensor, alpha: float = 1.0) -> Tensor:
    return sfpu.stored(torch.where(x >= 0, x, sfpu.mul(alpha, elu_body(sfpu, x))))


def elu_body(sfpu: Sfpu, x: Tensor) -> Tensor:
    """e^x - 1 from -87 on, as elu, selu and celu compute it."""
    below = x.clamp(min=-87.0)
    bias = floats(torch.tensor(0x4B400000))
    shifted = sfpu.mad(below, 1.4426950408889634, bias)
    k = sfpu.add(shifted, -bias)
    r = sfpu.mad(k, -3.19461832987e-05, sfpu.mad(k, -0.693115234375, below))
    wide = (1.0, 0.5, 1.6666504741e-01, 4.1666239500e-02, 8.3691505715e-03, 1.3948583510e-03)
    short = (1.0, 4.9999371171e-01, 1.6666433215e-01, 4.1875664145e-02, 8.3751315251e-03)
    h = sfpu.mul(r, sfpu.poly(r, *(wide if sfpu.wide else short)))
    two_k = set_exponent(value(1.0), bits(shifted) - 0x4B3FFF81)
    return sfpu.mad(two_k, h, sfpu.add(two_k, -1.0))


# ---- reciprocal and roots -------------------------------------------------------------------------------------------


def reciprocal_body(sfpu: Sfpu, x: Tensor, rounds: int) -> Tensor:
    """1/x: a first guess (a parabola on Wormhole, a table on Blackhole), then so many rounds of Newton's method."""
    if sfpu.arch == "blackhole":
        y = vector.approximate_reciprocal(x)
        for _ in range(rounds):
            t = sfpu.mad(x, y, -2.0)
            y = torch.where(t < 0, sfpu.mad(y, -t, -0.0), y)
        return y
    negative = floats(bits(x) & MANTISSA | bits(value(-1.0)))
    y = sfpu.mad(0.3232325017452239990234375, negative, 1.4545459747314453125)
    y = sfpu.mad(y, negative, 2.121212482452392578125)
    scale = sfpu.mul(floats(~bits(x) & ~MANTISSA), 0.5)
    for _ in range(rounds):
        y = sfpu.mad(y, sfpu.mad(negative, y, 1.0), y)
    return copy_sign(sfpu.mul(y, scale), x)


def reciprocal(sfpu: Sfpu, x: Tensor) -> Tensor:
    if sfpu.arch == "wormhole":
        return sfpu.stored(reciprocal_body(sfpu, x, 2 if sfpu.wide else 1))
    y = vector.approximate_reciprocal(x)
    if not sfpu.wide:  # whether 1/x is above the middle between two bfloat16 is the sign of x·middle - 1
        middle = floats(bits(y) | 0x8000)
        error = sfpu.mad(x, middle, -1.0)
        return sfpu.cut(floats(bits(middle) + (bits(error) >> 16 & 0xFFFF)))
    e = sfpu.mad(-x, y, 1.0)
    t = sfpu.mad(sfpu.mad(e, e, e), e, e)
    t = torch.where(torch.isnan(t) | (t > 1), 1.0, t)
    return sfpu.stored(sfpu.mad(t, y, y))


def root_body(sfpu: Sfpu, x: Tensor, inverse: bool) -> Tensor:
    """Square root, or one over it: a guess from the pattern, then two refinements of 1/sqrt(x)."""
    y = floats(0x5F1110A0 - (bits(x) >> 1 & 0x7FFFFFFF))
    c = sfpu.mul(-y, sfpu.mul(x, y))
    y = sfpu.mul(y, sfpu.mad(c, sfpu.add(2.2533049, c), 2.2825186))
    xy = sfpu.mul(x, y)
    rest = sfpu.mad(-y, xy, 1.0)
    if inverse:
        left = floats(INFINITY - bits(x))
        out = sfpu.mad(rest, set_exponent(y, exponent(bits(y)) - 1), y)
        out = torch.where((bits(x) == 0) | (bits(x) == INFINITY), left, out)
    else:
        out = torch.where(bits(x) < INFINITY, sfpu.mad(rest, sfpu.mul(0.5, xy), xy), y)
    return torch.where(x < 0, math.nan, out)


def sqrt(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(root_body(sfpu, x, inverse=False))


def rsqrt(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(root_body(sfpu, x, inverse=True))


# ---- sigmoid, tanh and what is made of them -------------------------------------------------------------------------


def sigmoid_body(sfpu: Sfpu, x: Tensor) -> Tensor:
    below = exp_accurate(sfpu, -x) if sfpu.wide else exp_21(sfpu, -x)
    return reciprocal_body(sfpu, sfpu.add(1.0, below), 2 if sfpu.wide else 1)


def sigmoid(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(sigmoid_body(sfpu, x))


def silu(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(sfpu.mul(x, sigmoid_body(sfpu, x)))


def tanh(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(tanh_accurate(sfpu, x) if sfpu.wide else tanh_short(sfpu, x))


def tanh_short(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A polynomial, at most 1."""
    coefficients = (
        0.0, 0.999004364013671875, 3.0897438526153564453125e-2, -0.4890659749507904052734375,
        0.281917631626129150390625, -6.6649019718170166015625e-2, 5.876733921468257904052734375e-3,
    )  # fmt: skip
    return copy_sign(sfpu.poly(x.abs(), *coefficients).clamp(max=1.0), x)


def tanh_accurate(sfpu: Sfpu, x: Tensor) -> Tensor:
    """(e^2x - 1) / (e^2x + 1) with a corrected quotient."""
    i = to_integer(sfpu.mul(x, 2 * 1.442695).abs(), 255)
    a = sfpu.add(x, x).abs()
    f = sfpu.mad(i.float(), -0.6931471805599453, a)
    r = value(1.974105835e-04)
    for c in (1.393318176e-3, 8.331298828e-3, 4.166680202e-2, 1.666667163e-1, 0.5):
        r = sfpu.mad(r, f, c)
    r = sfpu.mad(r, sfpu.mul(f, f), f)
    scale = set_exponent(torch.zeros_like(x), i + 126)
    x0 = sfpu.mad(r, scale, sfpu.add(scale, -0.5))
    x1 = sfpu.add(x0, 1.0)
    if sfpu.arch == "wormhole":
        guess = floats(torch.tensor(0xFEF30000 - (1 << 32)) - bits(x1))
        t = sfpu.mad(x1, guess, 1.0)
        guess = sfpu.mad(guess, sfpu.mad(t, t, t), guess)
        y0 = sfpu.mul(x0, guess)
        y = sfpu.mad(sfpu.mad(x1, y0, x0), guess, y0)
        y = torch.where(exponent(bits(x)) >= 115, y, x)
    else:
        guess = vector.approximate_reciprocal(x1)
        t = sfpu.mad(-x1, guess, 1.0)
        guess = sfpu.mad(guess, sfpu.mad(t, t, t), guess)
        y0 = sfpu.mul(x0, guess)
        y = sfpu.mad(sfpu.mad(-x1, y0, x0), guess, y0)
        y = torch.where(exponent(bits(x)) >= 115, y, x)
    return copy_sign(torch.where(i < 61, y, 1.0), x)


ERF_WIDE = (
    (1.1283791065e00, 2.1477432549e-01, 6.2133435160e-02, 5.6230435148e-03, 6.1307044234e-04, 1.7678321456e-05,
     2.7384647439e-08, -2.8632063387e-10),
    (1.0, 5.2367275953e-01, 1.2961706519e-01, 1.9642570987e-02, 1.9545555115e-03, 1.3179056987e-04,
     1.3156344494e-06, -3.5153888689e-09, -6.7350725691e-12),
)  # fmt: skip
ERF_SHORT = (
    (1.1280932447e00, 2.7609212279e-01, 4.5400281738e-02, 7.4481184425e-04),
    (1.0, 5.7439188334e-01, 1.3675764810e-01, 8.2844606784e-03, 2.4813862145e-05),
)
"""Numerator (odd powers) and denominator (even powers) of erf, for |x| <= 10."""


def erf_body(sfpu: Sfpu, x: Tensor, wide: bool) -> Tensor:
    numerator, denominator = ERF_WIDE if wide else ERF_SHORT
    square = sfpu.mul(x, x)
    top = sfpu.mul(sfpu.poly(square, *numerator), x)
    quotient = sfpu.mul(top, reciprocal_body(sfpu, sfpu.poly(square, *denominator), 2))
    return quotient.clamp(-1.0, 1.0)


def erf(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.cut(erf_body(sfpu, x.clamp(-10.0, 10.0), sfpu.wide))


def gelu(sfpu: Sfpu, x: Tensor) -> Tensor:
    """float32: x·(1 + erf)/2. bfloat16: an exponential tail below -3.125, a polynomial of the distribution, x itself
    from 2.78125 on. Both are 0 below -5.54."""
    if sfpu.wide:
        y = erf_body(sfpu, sfpu.mul(x, 0.7071067811865475).clamp(max=10.0), wide=True)
        out = sfpu.mul(x, sfpu.mad(0.5, y, 0.5))
        out = torch.where(y == -1, sfpu.mul(x, 2.0**-25), out)
        return sfpu.stored(torch.where(x > -5.54259443, out, 0.0))
    square = sfpu.mul(x, x)
    tail = two_to(sfpu, sfpu.mad(square, -0.72134752044, 127.0).clamp(0.0, 255.0), 1.0017248)
    tail = sfpu.mul(tail, sfpu.poly(x, 3.0369991064e-01, 9.5413386822e-02, 1.3809983619e-02, 7.5950479368e-04))
    out = sfpu.mul(x, sfpu.add(sfpu.add(tail, 0.375), -0.375))
    odd = sfpu.poly(
        square, 3.9894227818e-01, -6.6361041488e-02, 9.7720050615e-03, -1.0717806322e-03, 8.1812159812e-05,
        -3.8082057209e-06, 7.9821413868e-08,
    )  # fmt: skip
    out = torch.where(x >= -3.125, sfpu.mul(x, sfpu.mad(x, odd, 0.5)), out)
    out = torch.where(x >= 2.78125, x, out)
    return sfpu.stored(torch.where(x > -5.54259443, out, 0.0))


def gelu_tanh(sfpu: Sfpu, x: Tensor) -> Tensor:
    p = sfpu.mad(0.044715, sfpu.mul(x, x), 1.0)
    t = tanh_accurate(sfpu, sfpu.mul(0.7978845608028654, sfpu.mul(x, p)))
    half = sfpu.mul(0.5, x)
    return sfpu.stored(sfpu.mad(half, t, half))


def softsign(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.cut(sfpu.mul(x, reciprocal_body(sfpu, sfpu.add(x.abs(), 1.0), 2)))


# ---- logarithms and trigonometry ------------------------------------------------------------------------------------


def log(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(log_body(sfpu, x))


def log2(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(log_body(sfpu, x, 1 / math.log(2), exact_powers=True))


def log10(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(log_body(sfpu, x, 1 / math.log(10)))


def log1p(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.stored(log1p_body(sfpu, x))


def log1p_body(sfpu: Sfpu, x: Tensor) -> Tensor:
    """1 + x = m·2^k with m from 0.75 to 1.5; x is scaled by 2^-k and what that leaves out of m - 1 is added."""
    u = sfpu.add(x, 1.0)
    k = (bits(u) - bits(value(0.75))) & ~MANTISSA
    scale = floats(bits(value(-4.0)) - k)
    m = sfpu.add(floats(bits(x) - k), sfpu.mad(-0.25, scale, -1.0))
    r = sfpu.mad(_log_terms(sfpu, m), sfpu.mul(m, m), m)
    out = sfpu.mad(k.float(), float(value(0.693147182)) * 2.0**-23, r)
    out = torch.where(u == math.inf, math.inf, out)
    return torch.where(u >= 0, torch.where(u == 0, -math.inf, out), math.nan)


def log_body(sfpu: Sfpu, x: Tensor, scale: float | None = None, exact_powers: bool = False) -> Tensor:
    """x = m·2^k with m from 0.75 to 1.5; a polynomial of m - 1 and k·ln 2."""
    a = sfpu.mad(x, 1.0, 0.0)
    k = (bits(x) - bits(value(0.75))) & ~MANTISSA
    m = sfpu.add(floats(bits(a) - k), -1.0)
    r = sfpu.mad(_log_terms(sfpu, m), sfpu.mul(m, m), m)
    whole = k.float()
    if exact_powers:
        assert scale is not None
        out = sfpu.mad(whole, 2.0**-23, sfpu.mul(r, scale))
    else:
        out = sfpu.mad(whole, float(value(0.693147182)) * 2.0**-23, r)
        out = out if scale is None else sfpu.mul(out, scale)
    out = torch.where(a == 0, -math.inf, torch.where(a == math.inf, math.inf, out))
    return torch.where(a >= 0, out, math.nan)


def _log_terms(sfpu: Sfpu, m: Tensor) -> Tensor:
    """What ln(1 + m) - m is over m²."""
    if sfpu.wide:
        first, *terms = (
            "-0x1.92cp-5", "0x1.b84p-4", "-0x1.0c4p-3", "0x1.274p-3", "-0x1.55p-3", "0x1.998p-3", "-0x1.00001ap-2",
            "0x1.555572p-2", "-0x1p-1",
        )  # fmt: skip
    else:
        first, *terms = ("-0x1p-2", "0x1.744p-2", "-0x1.008p-1")
    r = value(float.fromhex(first))
    for term in terms:
        r = sfpu.mad(r, m, float.fromhex(term))
    return r


PI_PARTS = ("-0x1.92p+1", "-0x1.fbp-11", "-0x1.51p-21", "-0x1.0b4612p-33")


def sin(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sine_body(sfpu, x)


def sine_body(sfpu: Sfpu, x: Tensor) -> Tensor:
    """x less the nearest multiple of pi in four parts, then a polynomial; far out nothing is left of it."""
    shifted = sfpu.mad(x, float.fromhex("0x1.45f306p-2"), 12582912.0)
    j = sfpu.add(shifted, -12582912.0)
    a = x
    for part in PI_PARTS:
        a = sfpu.mad(j, float.fromhex(part), a)
    return _sine(sfpu, a, bits(shifted))


def cos(sfpu: Sfpu, x: Tensor) -> Tensor:
    shifted = sfpu.add(sfpu.mad(x, float.fromhex("0x1.45f306p-2"), 0.5), 12582912.0)
    j = sfpu.mad(sfpu.add(shifted, -12582912.0), 2.0, -1.0)
    a = x
    for part in PI_PARTS:
        a = sfpu.mad(j, float.fromhex(part) / 2, a)
    return _sine(sfpu, a, bits(shifted))


def _sine(sfpu: Sfpu, a: Tensor, turns: Tensor) -> Tensor:
    s = sfpu.mul(a, a)
    a = floats(bits(a) ^ turns << 31)
    wide = ("0x1.5dc908p-19", "-0x1.9f70fp-13", "0x1.110edap-7", "-0x1.55554cp-3")
    short = ("-0x1.8b10a4p-13", "0x1.10c2a2p-7", "-0x1.5554a4p-3")
    coefficients = [float.fromhex(c) for c in (wide if sfpu.wide else short)]
    r = sfpu.poly(s, *reversed(coefficients))
    return sfpu.stored(sfpu.mad(r, sfpu.mul(a, s), a))


def square(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.cut(sfpu.mul(x, x))


ELEMENTARY: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        exp, expm1, elu, reciprocal, sqrt, rsqrt, sigmoid, silu, tanh, erf, gelu, gelu_tanh, softsign, log, log1p, log2,
        log10, sin, cos, square,
    )
}  # fmt: skip
