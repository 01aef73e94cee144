"""Activations and special functions, as the vector unit computes them: tt-metal's at 2026-08-22; see `functions`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from proveout.kernels.arithmetic import matrix
from proveout.kernels.arithmetic.bits import Tensor, bits, exponent
from proveout.kernels.arithmetic.functions import (
    Sfpu,
    copy_sign,
    elu_body,
    exp_21,
    exp_accurate,
    log_body,
    reciprocal_body,
    set_exponent,
    sine_body,
    tanh_short,
    to_integer,
    two_to,
    value,
)
from proveout.kernels.arithmetic.pairs import quotient
from proveout.kernels.arithmetic.trigonometry import root_rough

ROUND = 12582912.0
"""1.5·2^23: added and taken away again, it leaves a whole number, halves to even."""


def exp2(sfpu: Sfpu, x: Tensor) -> Tensor:
    if not sfpu.wide:
        return sfpu.stored(two_to(sfpu, sfpu.add(x, 127.0).clamp(0.0, 255.0), 1.0017248))
    whole = to_integer(x, 32767)
    f = sfpu.add(x, -whole.float())
    terms = ("0x1.62e42ep-1", "0x1.ebfba0p-3", "0x1.c6afd8p-5", "0x1.3b4p-7", "0x1.5f4p-10", "0x1.41cp-13")
    r = sfpu.poly(f, 1.0, *(float.fromhex(c) for c in terms))
    field = exponent(bits(r)) + whole
    out = torch.where(field >= 255, math.inf, torch.where(field < 1, 0.0, set_exponent(r, field)))
    return sfpu.stored(torch.where(torch.isnan(x), x, out))


def rational(
    sfpu: Sfpu, x: Tensor, pieces: Sequence[tuple[float, Sequence[float], Sequence[float]]], rounds: int
) -> Tensor:
    """A quotient of polynomials by pieces, each with where it begins; powers ascend."""
    top = bottom = torch.zeros_like(x)
    for number, (start, numerator, denominator) in enumerate(pieces):
        here = x >= start if number else torch.ones_like(x, dtype=torch.bool)
        top = torch.where(here, sfpu.poly(x, *numerator), top)
        bottom = torch.where(here, sfpu.poly(x, *denominator), bottom)
    return sfpu.mul(top, reciprocal_body(sfpu, bottom, rounds))


ERFC = (
    (
        0.0,
        (1.0000233650e00, -1.3375675678e00, 6.8185544014e-01, -1.5691982210e-01, 1.3746744953e-02),
        (1.0, -2.0801517367e-01, 4.3667086959e-01, -3.4568668343e-03, 2.5104774162e-02, 2.8375532478e-02),
    ),
    (
        2.5,
        (-2.5655237550e-05, 2.1275576728e-05, -6.6162156145e-06, 9.1439767402e-07, -4.7387182178e-08),
        (1.0, -1.6457208991e-01, -2.0572184026e-01, -1.3888636231e-01, 1.2677097321e-01, -2.1375391632e-02),
    ),
)


def erfc(sfpu: Sfpu, x: Tensor) -> Tensor:
    """With a reciprocal that is not refined; from 5 on it stays what it is there."""
    r = rational(sfpu, x.abs().clamp(max=5.0), ERFC, 0)
    return sfpu.cut(torch.where(x < 0, sfpu.add(2.0, -r), r))


def erfinv(sfpu: Sfpu, x: Tensor) -> Tensor:
    """Winitzki's formula with the logarithm's bfloat16 polynomial, whatever the destination."""
    log = log_body(Sfpu(sfpu.arch, wide=False), sfpu.mad(-x, x, 1.0))
    half = sfpu.mad(-0.5, log, -4.330746750799873)
    inner = sfpu.mad(half, half, -sfpu.mul(log, 6.802721088435375))
    out = root_rough(sfpu, sfpu.add(half, root_rough(sfpu, inner)))
    return sfpu.cut(copy_sign(out, x))


def exp_negative(sfpu: Sfpu, x: Tensor, lowest: float = -math.inf) -> Tensor:
    """e^x for x <= 0: less its multiple of ln 2 in two parts, a series."""
    shifted = sfpu.add(sfpu.mul(x, 1.4426950408889634).clamp(min=lowest), ROUND)
    k = sfpu.add(shifted, -ROUND)
    r = sfpu.mad(k, -3.19461832987e-05, sfpu.mad(k, -0.693115234375, x))
    p = sfpu.poly(r, *SERIES)
    field = exponent(bits(p)) + bits(shifted) - bits(value(ROUND))
    return torch.where(field > 0, set_exponent(p, field), 0.0)


SERIES = tuple(1.0 / math.factorial(n) for n in range(8))
SOFTPLUS_WIDE = (
    6.9310557842e-01, -4.9926245213e-01, 1.2186349183e-01, 5.6753782555e-03, -1.0528374463e-02, 2.7290175203e-03,
    -3.4358495031e-04, 2.1285692128e-05, -4.8245715334e-07,
)  # fmt: skip
SOFTPLUS_SHORT = (
    6.9423984729e-01, -5.0932420424e-01, 1.4279095486e-01, -1.3000584069e-02, -1.8627923291e-03, 5.0152968088e-04,
    -3.1273466851e-05,
)  # fmt: skip


def softplus(sfpu: Sfpu, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """max(t, 0) and a polynomial of |t| = |beta·x|, from 5 on an exponential series (bfloat16: nothing)."""
    t = sfpu.mul(beta, x)
    size = t.abs()
    if sfpu.wide:
        e = torch.where(size < 1e6, exp_negative(sfpu, -size), 0.0)  # beyond, integers would wrap; silicon has 0
        tail = sfpu.mul(e, sfpu.mad(e, sfpu.mad(e, 0.333333343, -0.5), 1.0))
        rest = torch.where(size > 5, tail, sfpu.poly(size, *SOFTPLUS_WIDE))
    else:
        rest = torch.where(size > 5, 0.0, sfpu.poly(size, *SOFTPLUS_SHORT))
    out = sfpu.mul(1.0 / beta, sfpu.add(t.clamp(min=0.0), rest))
    return torch.where(t < threshold, sfpu.stored(out), sfpu.cut(x))


def mish(sfpu: Sfpu, x: Tensor) -> Tensor:
    """x·u(u + 2) / ((u + 1)² + 1) with u = e^x; x itself from 8 on."""
    u = exp_accurate(sfpu, x) if sfpu.wide else sfpu.stored(exp_21(sfpu, x))
    one_more = sfpu.add(u, 1.0)
    inverse = reciprocal_body(sfpu, sfpu.mad(one_more, one_more, 1.0), 2 if sfpu.wide else 1)
    out = sfpu.mul(x, sfpu.mul(sfpu.mul(u, sfpu.add(u, 2.0)), inverse))
    return sfpu.stored(torch.where(x < 8, out, x))


def selu(sfpu: Sfpu, x: Tensor, scale: float = 1.0507, alpha: float = 1.67326) -> Tensor:
    """ttnn's own defaults have five digits, so that in float32 it is off by about 1e-6 everywhere."""
    product = float(value(scale) * value(alpha))
    return sfpu.stored(torch.where(x >= 0, sfpu.mul(scale, x), sfpu.mul(product, elu_body(sfpu, x))))


def celu(sfpu: Sfpu, x: Tensor, alpha: float = 1.0) -> Tensor:
    inner = elu_body(sfpu, sfpu.mul(1.0 / alpha, x))
    return sfpu.stored(torch.where(x >= 0, x, sfpu.mul(alpha, inner)))


def tanhshrink(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A polynomial up to 1; beyond, x less a tanh of its own."""
    size, u = x.abs(), sfpu.mul(x, x)
    if sfpu.wide:
        q = sfpu.poly(
            u, 3.3333331347e-01, -1.3333128393e-01, 5.3934831172e-02, -2.1660288796e-02, 8.2192532718e-03,
            -2.5107525289e-03, 4.2079269770e-04,
        )  # fmt: skip
        e = exp_accurate(sfpu, sfpu.mul(-2.0, size.clamp(max=9.0)))
        sigmoid = reciprocal_body(sfpu, sfpu.add(1.0, e), 1 if sfpu.arch == "wormhole" else 2)
        far = copy_sign(sfpu.add(size, -sfpu.mad(2.0, sigmoid, -1.0)), x)
    else:
        q = sfpu.poly(u, 3.3329936862e-01, -1.3223160803e-01, 4.8076551408e-02, -1.0762925260e-02)
        p = sfpu.poly(size, 6.1829000893e-02, 1.0561303143e00, -4.0859283753e-01, 5.3348409333e-02)
        far = sfpu.add(x, -copy_sign(p.clamp(max=1.0), x))
    return sfpu.stored(torch.where(size > 1, far, sfpu.mul(sfpu.mul(x, u), q)))


def leaky_relu(sfpu: Sfpu, x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return sfpu.cut(torch.where(x < 0, sfpu.mul(x, negative_slope), x))


def hardmish(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.cut(sfpu.mul(x, sfpu.mad(x, 0.5, 1.0).clamp(0.0, 1.0)))


def hardsigmoid(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.cut(sfpu.mad(x, 0.1666666716337204, 0.5).clamp(0.0, 1.0))


def hardswish(sfpu: Sfpu, x: Tensor) -> Tensor:
    """In bfloat16 the product is the matrix unit's."""
    gate = hardsigmoid(sfpu, x)
    if sfpu.wide:
        return sfpu.cut(sfpu.mul(gate, x))
    return matrix.multiply(gate.bfloat16(), x.bfloat16(), matrix.Unit(sfpu.arch, 4))


XIELU_EDGE = float(value(-1e-6))


def xielu(sfpu: Sfpu, x: Tensor, alpha_p: float = 0.8, alpha_n: float = 0.8) -> Tensor:
    half = sfpu.mul(0.5, x)
    above = sfpu.mad(sfpu.mul(alpha_p, x), x, half)
    near = sfpu.mul(
        sfpu.mul(x, x),
        sfpu.poly(
            x, 0.500000059604644775390625, 0.16666667163372039794921875, 4.16650883853435516357421875e-2,
            8.333188481628894805908203125e-3, 1.400390756316483020782470703125e-3,
            1.99588379473425447940826416015625e-4,
        ),
    )  # fmt: skip
    far = sfpu.add(sfpu.add(exp_negative(sfpu, x, -126.5), -1.0), -x)
    tiny = sfpu.add(-0.0000009999995427, -x)
    term = torch.where(x >= XIELU_EDGE, tiny, torch.where(x > -0.5, near, far))
    return sfpu.stored(torch.where(x > 0, above, sfpu.mad(alpha_n, term, half)))


def softcap(sfpu: Sfpu, x: Tensor, beta: float = 50.0) -> Tensor:
    """Blackhole alone has this kernel."""
    return sfpu.stored(sfpu.mul(tanh_short(sfpu, sfpu.mul(x, 1.0 / beta)), beta))


def logit(sfpu: Sfpu, x: Tensor) -> Tensor:
    """log(x / (1 - x)); each of the three passes through the destination."""
    ratio = quotient(sfpu, x, sfpu.cut(sfpu.add(1.0, -x)))
    return sfpu.stored(log_body(sfpu, ratio))


def i0(sfpu: Sfpu, x: Tensor) -> Tensor:
    return sfpu.cut(
        sfpu.poly(
            sfpu.mul(x, x), 1.0, 0.25, 0.015625, 0.0004340277778, 0.000006781684028, 6.78e-08, 4.71e-10, 2.40e-12,
            9.39e-15, 2.90e-17, 7.24e-20, 1.50e-22,
        )
    )  # fmt: skip


LN_ROOT_2PI, LN_ROOT_PI, LN_PI = 0.9189385332046727, 0.57236494, 1.1447298858


def lgamma(sfpu: Sfpu, x: Tensor) -> Tensor:
    """Stirling's series from 0.5 on, reflected below; float32 has more terms, and polynomials around 1 and 2."""
    z = torch.where(x < 0.5, sfpu.add(1.0, -x), x)
    inverse = reciprocal_body(sfpu, z, 2)
    square = sfpu.mul(inverse, inverse)
    log_z = log_body(sfpu, z) if sfpu.wide else log_cubic(sfpu, z)
    main = sfpu.add(sfpu.add(sfpu.mul(sfpu.add(z, -0.5), log_z), -z), LN_ROOT_2PI)
    terms = (0.0833333333, -0.0027777777, 0.0007936507, -0.0005952380)
    out = sfpu.add(main, sfpu.mul(inverse, sfpu.poly(square, *terms[: 4 if sfpu.wide else 2])))
    if sfpu.wide:
        one, two = sfpu.add(z, -1.0), sfpu.add(z, -2.0)
        around_one = sfpu.mul(one, sfpu.poly(one, -0.57721566, 0.82246703, -0.40068563, 0.27058081, -0.20738555))
        around_two = sfpu.mul(two, sfpu.poly(two, 0.42278434, 0.32246703, -0.06735230, 0.02058081, -0.00738555))
        out = torch.where(one.abs() < 0.25, around_one, torch.where(two.abs() < 0.25, around_two, out))
        out = torch.where(sfpu.add(z, -0.5).abs() < 0.01, LN_ROOT_PI, out)
    else:
        out = sfpu.stored(torch.where((x == 1) | (x == 2), 0.0, out))
    turned = sfpu.cut(sfpu.mul(sfpu.cut(torch.frac(x)), math.pi))
    sine = torch.where(x == torch.floor(x), 0.0, sine_body(sfpu, turned))
    reflected = sfpu.add(sfpu.add(LN_PI, -sfpu.stored(log_body(sfpu, sine.abs()))), -out)
    out = torch.where(x < 0.5, reflected, out)
    return sfpu.stored(torch.where(x.abs() == math.inf, math.inf, out))


CUBIC = tuple(float.fromhex(c) for c in ("-0x1.952992p+0", "0x2.4f5388p+0", "-0xd.e712ap-4", "0x2.44734p-4"))
"""Of a logarithm between 1 and 2."""


def log_cubic(sfpu: Sfpu, x: Tensor) -> Tensor:
    """An older logarithm, which some kernels keep."""
    whole = (exponent(bits(x)) - 127).float()
    return sfpu.mad(whole, 0.692871, sfpu.poly(set_exponent(x, 127), *CUBIC))


def multigammaln(sfpu: Sfpu, x: Tensor) -> Tensor:
    """Four calls of lgamma and four additions, each of which is stored."""
    unit = matrix.Unit(sfpu.arch, 4)

    def add(a: Tensor, b: Tensor | float) -> Tensor:
        if sfpu.wide:
            return sfpu.cut(sfpu.add(a, b))
        return matrix.add(a.bfloat16(), value(b).bfloat16(), unit)

    out = lgamma(sfpu, x)
    for less in (0.5, 1.0, 1.5):
        out = add(out, lgamma(sfpu, add(x, -less)))
    return add(out, 3.434189657547)


ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        exp2, erfc, erfinv, softplus, mish, selu, celu, tanhshrink, hardmish, hardsigmoid, hardswish, xielu, softcap,
        logit, i0, lgamma, multigammaln, leaky_relu,
    )
}  # fmt: skip
