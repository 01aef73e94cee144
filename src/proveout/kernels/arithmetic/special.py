"""Special functions, remainders and sums of products, as the vector unit computes them: tt-metal's at 2026-08-22."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from proveout.kernels.arithmetic.activations import log_cubic, rational
from proveout.kernels.arithmetic.bits import Tensor, bits, exponent, floats
from proveout.kernels.arithmetic.functions import (
    Sfpu,
    copy_sign,
    exp,
    exp_21,
    exp_accurate,
    log,
    reciprocal_body,
    root_body,
    value,
)
from proveout.kernels.arithmetic.pairs import even, power, total

I1_WIDE = (
    (5.0000000000e-01, 5.6819390506e-02, 1.9247245509e-03, 2.8397364076e-05, 2.0916867527e-07, 7.7937084564e-10,
     1.2293555930e-12),
    (1.0, -1.1361218989e-02, 6.1268139689e-05, -1.9771712800e-07, 3.8127551116e-10, -3.1218170410e-13,
     -3.0635529988e-16, 7.4301498523e-19),
)  # fmt: skip
I1_SHORT = (
    (4.9992737740e-01, 5.4503594600e-02, 1.6126291630e-03, 2.0223499130e-05),
    (1.0, -1.6242591070e-02, 1.0333660750e-04, -2.5076132990e-07),
)
"""Numerator (odd powers) and denominator (even powers) of the Bessel function I1 up to 10."""
I1_FAR = (
    3.9894228967e-01,
    -1.4960495444e-01,
    -4.6652925320e-02,
    -4.3674591560e-02,
    -1.9748322314e-02,
    -3.3467922914e-01,
)


def i1(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A quotient of polynomials up to 10, e^x / sqrt(x) times a polynomial of 1/x beyond; constant from 88.5 on."""
    x = x.clamp(-88.5, 88.5)
    size, square = x.abs(), sfpu.mul(x, x)
    numerator, denominator = I1_WIDE if sfpu.wide else I1_SHORT
    top = sfpu.mul(sfpu.poly(square, *numerator), x)
    near = sfpu.mul(top, reciprocal_body(sfpu, sfpu.poly(square, *denominator), 2))
    e = exp_accurate(sfpu, size) if sfpu.wide else sfpu.stored(exp_21(sfpu, size))
    root = root_body(sfpu, size, inverse=True)
    far = sfpu.mul(sfpu.mul(e, root), sfpu.poly(sfpu.mul(root, root), *I1_FAR))
    return sfpu.stored(torch.where(size > 10, copy_sign(far, x), near))


DIGAMMA_WIDE = (
    (
        0.01,
        (-4.2596286535e-01, -1.2459139824e00, -7.0374596119e-01, 3.5418295860e-01, 3.9686101675e-01, 1.0760356486e-01,
         1.1159370653e-02, 4.5299832709e-04, 6.4513715188e-06, 2.3348954770e-08, 3.3629592167e-12),
        (-6.3762914866e-08, 4.2596703768e-01, 1.0, 8.2736301422e-01, 3.0081826448e-01, 4.9985647202e-02,
         3.7117889151e-03, 1.1463041301e-04, 1.2610012732e-06, 3.3732798776e-09),
    ),
    (
        51.005,
        (1.3856337913e05, -2.7915017828e05, 5.5189096727e04, 2.6230285816e04, 2.0102400217e03, 5.4774037756e01,
         6.1410588531e-01, 2.8495312547e-03, 4.9248967852e-06, 2.2963254970e-09, 3.8530168912e-14),
        (-1.6724299601e05, 1.0, 6.3677231206e04, 1.1013851737e04, 5.9383811201e02, 1.2890647910e01, 1.2061770104e-01,
         4.7490052009e-04, 6.9240316615e-07, 2.5925175628e-10),
    ),
)  # fmt: skip
DIGAMMA_SHORT = (
    (
        0.01,
        (-3.3767190625e05, -6.0287050000e05, 2.1532992188e05, 2.1398454688e05, 1.9496867188e04, 2.4847094727e02,
         8.7151519954e-02),
        (1.0, 3.3760150000e05, 4.0892268750e05, 9.9775718750e04, 5.1246479492e03, 4.1351390839e01),
    ),
)  # fmt: skip


def digamma(sfpu: Sfpu, x: Tensor) -> Tensor:
    """Quotients of polynomials up to 102; beyond, a series with the logarithm's cubic polynomial."""
    near = rational(sfpu, x, DIGAMMA_WIDE if sfpu.wide else DIGAMMA_SHORT, 2)
    inverse = reciprocal_body(sfpu, x, 2)
    square = sfpu.mul(inverse, inverse)
    series = sfpu.mad(-square, 0.0083333333, 0.0833333333)
    far = sfpu.mad(-square, series, sfpu.mad(-inverse, 0.5, log_cubic(sfpu, x)))
    return sfpu.cut(torch.where(x > 102, torch.where(x == math.inf, math.inf, far), near))


def polygamma(sfpu: Sfpu, x: Tensor, k: int = 1) -> Tensor:
    """Six terms of the sum over 1 / (x + i)^(k + 1), and Euler and Maclaurin's formula for the rest."""
    rounds = 2 if sfpu.wide else 1
    out = torch.zeros_like(x)
    for term in range(6):
        inverse = reciprocal_body(sfpu, sfpu.add(x, float(term)), rounds)
        powered = inverse
        for _ in range(k):
            powered = sfpu.mul(powered, inverse)
        out = sfpu.add(out, powered)
    inverse = reciprocal_body(sfpu, sfpu.add(x, 6.0), rounds)
    powered = inverse
    for _ in range(k - 1):
        powered = sfpu.mul(powered, inverse)
    rising = [math.prod(range(k + 1, k + 1 + count)) for count in (1, 3, 5)]
    ends = (1 / k, rising[0] / 12, -rising[1] / 720, rising[2] / 30240)
    tail = sfpu.mul(powered, sfpu.mad(0.5, inverse, sfpu.poly(sfpu.mul(inverse, inverse), *ends)))
    return sfpu.stored(sfpu.mul(sfpu.add(out, tail), (-1.0) ** (k + 1) * math.factorial(k)))


LOG_SIGMOID = (
    0.6924354434013367, 0.49275708198547363, 0.12142381817102432, 0.0031102809589356184, -0.00330807245336473,
    -0.00028794066747650504, 5.3185409342404455e-05, 7.1853546614875086e-06, 7.4961114648886e-08,
)  # fmt: skip


def log_sigmoid(sfpu: Sfpu, x: Tensor) -> Tensor:
    """A polynomial of -x up to 4, x itself below, -e^-x above, which passes through the destination."""
    near = -sfpu.poly(-x, *LOG_SIGMOID)
    return sfpu.cut(torch.where(x > 4, -exp(sfpu, -x), torch.where(x > -4, near, x)))


# ---- remainders -----------------------------------------------------------------------------------------------------


def cut_to_whole(x: Tensor) -> Tensor:
    """A number's whole part, by masking its pattern."""
    field = exponent(bits(x)) - 127
    mask = torch.tensor(-1, dtype=torch.int32) << (23 - field).clamp(0, 23)
    return torch.where(field < 0, floats(bits(x) & -0x80000000), floats(bits(x) & mask))


def floor_to_whole(sfpu: Sfpu, x: Tensor) -> Tensor:
    whole = cut_to_whole(x)
    return torch.where((x < 0) & (whole != x), sfpu.add(whole, -1.0), whole)


def fmod(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """a less b times the whole part of a/b; corrected once where that is too large, or not of a's sign."""
    size = b.abs()
    whole = cut_to_whole(sfpu.mul(a, reciprocal_body(sfpu, b, 2)))
    out = sfpu.mad(-whole, b, a)
    out = torch.where(out.abs() >= size, torch.where(out >= 0, sfpu.add(out, -size), sfpu.add(out, size)), out)
    up, down = (a >= 0) & (out < 0), (a < 0) & (out > 0)
    out = torch.where(up, sfpu.add(out, size), torch.where(down, sfpu.add(out, -size), out))
    out = torch.where(a == b, 0.0, out)
    return sfpu.stored(torch.where(b == 0, math.nan, out))


def remainder(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """As `fmod`, with the quotient's floor, and of b's sign."""
    out = sfpu.mad(-floor_to_whole(sfpu, sfpu.mul(a, reciprocal_body(sfpu, b, 2))), b, a)
    out = torch.where((out != 0) & ((bits(out) ^ bits(b)) < 0), sfpu.add(out, b), out)
    less = sfpu.add(out, -b)
    again = ((b > 0) & (a > 0) & (less >= 0)) | ((b < 0) & (a < 0) & (less <= 0))
    out = torch.where(again, less, out)
    return sfpu.stored(torch.where(b == 0, math.nan, out))


# ---- of several operands, and with a number -------------------------------------------------------------------------


def xlogy(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """a times an older logarithm of b, which passes through the destination."""
    logarithm = torch.where(b == 0, -math.inf, log_cubic(sfpu, b))
    return sfpu.cut(torch.where((b < 0) | torch.isnan(b), math.nan, sfpu.mul(sfpu.cut(logarithm), a)))


def logaddexp(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    return log(sfpu, total(sfpu, exp(sfpu, a), exp(sfpu, b)))


def mac(sfpu: Sfpu, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return sfpu.stored(sfpu.mad(a, b, c))


def addcmul(sfpu: Sfpu, a: Tensor, b: Tensor, c: Tensor, number: float = 1.0) -> Tensor:
    return sfpu.stored(sfpu.mad(sfpu.mul(number, b), c, a))


def addcdiv(sfpu: Sfpu, a: Tensor, b: Tensor, c: Tensor, number: float = 1.0) -> Tensor:
    return even(sfpu, sfpu.mad(sfpu.mul(b, number), reciprocal_body(sfpu, c, 2), a))


def rdiv(sfpu: Sfpu, x: Tensor, number: float = 1.0) -> Tensor:
    """A number over x; in bfloat16 by a rounded reciprocal."""
    inverse = reciprocal_body(sfpu, x, 2) if sfpu.wide else sfpu.stored(reciprocal_body(sfpu, x, 1))
    return sfpu.cut(sfpu.mul(inverse, number))


def rpow(sfpu: Sfpu, x: Tensor, number: float = 2.0) -> Tensor:
    return power(sfpu, value(number).expand(x.shape), x)


SPECIAL: dict[str, Callable[..., Tensor]] = {f.__name__: f for f in (i1, digamma, polygamma, log_sigmoid, rdiv, rpow)}
"""Of one operand."""
