"""The operations that Tenstorrent's accuracy report measures: what the vector unit does, and what is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from proveout.kernels.arithmetic.bits import Tensor
from proveout.kernels.arithmetic.chains import (
    floor_quotient,
    gelu_fast,
    hypot,
    ldexp,
    logaddexp2,
    squared_difference,
)
from proveout.kernels.arithmetic.functions import Sfpu
from proveout.kernels.arithmetic.pairs import PAIRS, difference, lerp, scaled_sum, total
from proveout.kernels.arithmetic.table import FUNCTIONS

Exact = Callable[..., Tensor]


@dataclass(frozen=True)
class Op:
    """What the chip does with one operand or several, and what is exact."""

    ours: Callable[..., Tensor]
    exact: Exact
    operands: int = 1


def _sequence(name: str, exact: Exact) -> Op:
    return Op(FUNCTIONS[name], exact)


def _cut(function: Callable[[Sfpu, Tensor], Tensor], exact: Exact) -> Op:
    """A kernel that does not round."""
    return Op(lambda sfpu, x: sfpu.cut(function(sfpu, x)), exact)


def _plain(exact: Exact) -> Op:
    """No arithmetic, or none that rounds: the exact function itself."""
    return Op(lambda sfpu, x: exact(x), exact)


def _pair(name: str, exact: Exact) -> Op:
    return Op(PAIRS[name], exact, 2)


def _compared(exact: Exact) -> Op:
    """0 or 1; both orders of the operands are exact on the chip."""
    return Op(lambda sfpu, a, b: exact(a, b), lambda a, b: exact(a, b).double(), 2)


def _xielu(x: Tensor) -> Tensor:
    """With its eps: below 0, e^x is that of at most -1e-6."""
    return torch.where(x > 0, 0.8 * x * x + 0.5 * x, 0.8 * (torch.expm1(x.clamp(max=-1e-6)) - x) + 0.5 * x)


def _tanhshrink(x: Tensor) -> Tensor:
    """x - tanh x, by its series where the difference would lose digits."""
    s = x * x
    series = x * s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * (62 / 2835 - s * 1382 / 155925))))
    return torch.where(x.abs() < 0.03, series, F.tanhshrink(x))


def _mvlgamma(x: Tensor) -> Tensor:
    return torch.where(x > 1.5, torch.special.multigammaln(x.clamp(min=1.6), 4), math.nan)


OPS: dict[str, Op] = {
    "acosh": _sequence("acosh", torch.acosh),
    "asin": _sequence("asin", torch.asin),
    "atan": _sequence("atan", torch.atan),
    "atanh": _sequence("atanh", torch.atanh),
    "cbrt": _sequence("cbrt", lambda x: torch.sign(x) * x.abs() ** (1 / 3)),
    "cosh": _sequence("cosh", torch.cosh),
    "sinh": _sequence("sinh", torch.sinh),
    "erfc": _sequence("erfc", torch.erfc),
    "erfinv": _sequence("erfinv", torch.erfinv),
    "exp2": _sequence("exp2", torch.exp2),
    "hardmish": _sequence("hardmish", lambda x: x * ((x.float() + 2).clamp(0, 2) / 2).double()),
    "hardsigmoid": _sequence("hardsigmoid", F.hardsigmoid),
    "hardswish": _sequence("hardswish", F.hardswish),
    "logit": _sequence("logit", torch.logit),
    "multigammaln": _sequence("multigammaln", _mvlgamma),
    "softcap beta=50.0": _sequence("softcap", lambda x: 50 * torch.tanh(x / 50)),
    "softplus": _sequence("softplus", F.softplus),
    "tanhshrink": _sequence("tanhshrink", _tanhshrink),
    "xielu": _sequence("xielu", _xielu),
    "addalpha alpha=2.0": Op(lambda s, a, b: scaled_sum(s, a, b, 2.0), lambda a, b: a + 2 * b, 2),
    "atan2": _pair("atan2", torch.atan2),
    "div": _pair("div", torch.div),
    "divide": _pair("divide", torch.div),
    "div_no_nan": _pair("div_no_nan", lambda a, b: torch.where(b == 0, 0.0, a / b)),
    "ge_": _compared(torch.ge),
    "gt_": _compared(torch.gt),
    "le_": _compared(torch.le),
    "logical_xor_": _compared(torch.logical_xor),
    "hypot": Op(hypot, torch.hypot, 2),
    "l1_loss": Op(lambda s, a, b: difference(s, a, b).abs(), lambda a, b: (a - b).abs(), 2),
    "ldexp": Op(ldexp, lambda a, b: a * torch.exp2(b), 2),
    "lerp": Op(lerp, torch.lerp, 3),
    "logaddexp2": Op(logaddexp2, torch.logaddexp2, 2),
    "floor_div": Op(floor_quotient, lambda a, b: torch.floor(a / b), 2),
    "bias_gelu": Op(lambda s, a, b: gelu_fast(s, total(s, a, b)), lambda a, b: F.gelu(a + b), 2),
    "gelu fast_approx": Op(gelu_fast, F.gelu),
    "maximum": _pair("maximum", torch.maximum),
    "minimum": _pair("minimum", torch.minimum),
    "multiply": _pair("multiply", torch.mul),
    "pow": _pair("pow", torch.pow),
    "rsub": _pair("rsub", torch.rsub),
    "squared_difference": Op(squared_difference, lambda a, b: (a - b) ** 2, 2),
    "subtract": _pair("subtract", torch.sub),
    "elu": _sequence("elu", F.elu),
    "erf": _sequence("erf", torch.erf),
    "expm1": _sequence("expm1", torch.expm1),
    "gelu": _sequence("gelu", F.gelu),
    "log": _sequence("log", torch.log),
    "log10": _sequence("log10", torch.log10),
    "reciprocal": _sequence("reciprocal", torch.reciprocal),
    "sigmoid_accurate": _sequence("sigmoid", torch.sigmoid),
    "sin": _sequence("sin", torch.sin),
    "cos": _sequence("cos", torch.cos),
    "softsign": _sequence("softsign", F.softsign),
    "square": _sequence("square", torch.square),
    "tanh": _sequence("tanh", torch.tanh),
    "deg2rad": _cut(lambda s, x: s.mul(x, math.pi / 180), torch.deg2rad),
    "rad2deg": _cut(lambda s, x: s.mul(x, 180 / math.pi), torch.rad2deg),
    "leaky_relu negative_slope=0.01": _sequence("leaky_relu", lambda x: F.leaky_relu(x, 0.01)),
    "prelu weight=0.25": _cut(lambda s, x: torch.where(x < 0, s.mul(x, 0.25), x), lambda x: F.leaky_relu(x, 0.25)),
    "softshrink": _cut(
        lambda s, x: torch.where(x > 0.5, s.add(x, -0.5), torch.where(x < -0.5, s.add(x, 0.5), 0.0)), F.softshrink
    ),
    "abs": _plain(torch.abs),
    "ceil": _plain(torch.ceil),
    "clamp min=-1.0,max=1.0": _plain(lambda x: x.clamp(-1.0, 1.0)),
    "clip min=-1.0,max=1.0": _plain(lambda x: x.clamp(-1.0, 1.0)),
    "floor": _plain(torch.floor),
    "frac": _plain(torch.frac),
    "hardshrink": _plain(F.hardshrink),
    "hardtanh": _plain(F.hardtanh),
    "heaviside value=0.5": _plain(lambda x: torch.heaviside(x, torch.tensor(0.5, dtype=x.dtype))),
    "neg": _plain(torch.neg),
    "relu": _plain(torch.relu),
    "relu6": _plain(F.relu6),
    "relu_max upper_limit=1.0": _plain(lambda x: x.clamp(0.0, 1.0)),
    "relu_min lower_limit=1.0": _plain(lambda x: x.clamp(min=1.0)),
    "round": _plain(torch.round),
    "threshold threshold=0.5,value=0.0": _plain(lambda x: F.threshold(x, 0.5, 0.0)),
    "trunc": _plain(torch.trunc),
}
