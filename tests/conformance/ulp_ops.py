"""The operations that Tenstorrent's accuracy report measures: what the vector unit does, and what is exact."""

from __future__ import annotations

import functools
import inspect
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
from proveout.kernels.arithmetic.pairs import difference, lerp, scaled_sum, total
from proveout.kernels.arithmetic.special import addcdiv, addcmul, logaddexp, mac, xlogy
from proveout.kernels.arithmetic.table import FUNCTIONS, PAIRS

Exact = Callable[..., Tensor]


@dataclass(frozen=True)
class Op:
    """What the chip does with one operand or several, and what is exact."""

    ours: Callable[..., Tensor]
    exact: Exact
    operands: int = 1


def _sequence(name: str, exact: Exact, **parameters: float) -> Op:
    return Op(functools.partial(FUNCTIONS[name], **parameters), exact)


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


def _flag(exact: Exact) -> Op:
    """0 or 1 of one operand."""
    return Op(lambda sfpu, x: exact(x).float(), lambda x: exact(x).double())


def _softshrink(lambd: float = 0.5) -> Op:
    def ours(sfpu: Sfpu, x: Tensor) -> Tensor:
        return torch.where(x > lambd, sfpu.add(x, -lambd), torch.where(x < -lambd, sfpu.add(x, lambd), 0.0))

    return _cut(ours, lambda x: F.softshrink(x, lambd))


COMPARED = {
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
}  # fmt: skip
FLAGS = {
    "eqz": lambda x: x == 0, "nez": lambda x: x != 0, "gtz": lambda x: x > 0, "gez": lambda x: x >= 0,
    "ltz": lambda x: x < 0, "lez": lambda x: x <= 0, "isnan": torch.isnan, "isinf": torch.isinf,
    "isfinite": torch.isfinite, "isposinf": torch.isposinf, "isneginf": torch.isneginf, "signbit": torch.signbit,
    "logical_not": torch.logical_not,
}  # fmt: skip

OPS: dict[str, Op] = {
    **{name: _compared(exact) for name, exact in COMPARED.items()},
    **{name: _flag(exact) for name, exact in FLAGS.items()},
    "acos": _sequence("acos", torch.acos),
    "asinh": _sequence("asinh", torch.asinh),
    "digamma": _sequence("digamma", torch.digamma),
    "exp": _sequence("exp", torch.exp),
    "i0": _sequence("i0", torch.i0),
    "i1": _sequence("i1", torch.special.i1),
    "lgamma": _sequence("lgamma", torch.lgamma),
    "log1p": _sequence("log1p", torch.log1p),
    "log2": _sequence("log2", torch.log2),
    "log_sigmoid": _sequence("log_sigmoid", F.logsigmoid),
    "mish": _sequence("mish", F.mish),
    "rsqrt": _sequence("rsqrt", torch.rsqrt),
    "selu": _sequence("selu", F.selu),
    "sigmoid": _sequence("sigmoid", torch.sigmoid),
    "silu": _sequence("silu", F.silu),
    "swish": _sequence("silu", F.silu),
    "sqrt": _sequence("sqrt", torch.sqrt),
    "tan": _sequence("tan", torch.tan),
    "add": _pair("add", torch.add),
    "sub": _pair("subtract", torch.sub),
    "mul": _pair("multiply", torch.mul),
    "mse_loss": Op(squared_difference, lambda a, b: (a - b) ** 2, 2),
    "fmod": _pair("fmod", torch.fmod),
    "remainder": _pair("remainder", torch.remainder),
    "logaddexp": Op(logaddexp, torch.logaddexp, 2),
    "xlogy": Op(xlogy, torch.xlogy, 2),
    "addcdiv": Op(addcdiv, lambda a, b, c: a + b / c, 3),
    "addcmul": Op(addcmul, lambda a, b, c: a + b * c, 3),
    "mac": Op(mac, lambda a, b, c: a * b + c, 3),
    "where": Op(lambda s, a, b, c: torch.where(a != 0, b, c), lambda a, b, c: torch.where(a != 0, b, c), 3),
    "identity": _plain(lambda x: x),
    "sign": _plain(torch.sign),
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
    "softplus": _sequence("softplus", F.softplus),
    "tanhshrink": _sequence("tanhshrink", _tanhshrink),
    "xielu": _sequence("xielu", _xielu),
    "atan2": _pair("atan2", torch.atan2),
    "div": _pair("div", torch.div),
    "divide": _pair("divide", torch.div),
    "div_no_nan": _pair("div_no_nan", lambda a, b: torch.where(b == 0, 0.0, a / b)),
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
    "softshrink": _softshrink(),
    "abs": _plain(torch.abs),
    "ceil": _plain(torch.ceil),
    "floor": _plain(torch.floor),
    "frac": _plain(torch.frac),
    "hardshrink": _plain(F.hardshrink),
    "hardtanh": _plain(F.hardtanh),
    "neg": _plain(torch.neg),
    "relu": _plain(torch.relu),
    "relu6": _plain(F.relu6),
    "round": _plain(torch.round),
    "trunc": _plain(torch.trunc),
}
"""By ttnn's name."""


def _slope(slope: float) -> Op:
    return _cut(lambda s, x: torch.where(x < 0, s.mul(x, slope), x), lambda x: F.leaky_relu(x, slope))


def _clamped(min: float = -1.0, max: float = 1.0) -> Op:
    return _plain(lambda x: x.clamp(min, max))


WITH_NUMBERS: dict[str, Callable[..., Op]] = {
    "addalpha": lambda alpha=1.0: Op(lambda s, a, b: scaled_sum(s, a, b, alpha), lambda a, b: a + alpha * b, 2),
    "subalpha": lambda alpha=1.0: Op(lambda s, a, b: scaled_sum(s, a, b, -alpha), lambda a, b: a - alpha * b, 2),
    "addcdiv": lambda value=1.0: Op(
        lambda s, a, b, c: addcdiv(s, a, b, c, value), lambda a, b, c: a + value * b / c, 3
    ),
    "addcmul": lambda value=1.0: Op(
        lambda s, a, b, c: addcmul(s, a, b, c, value), lambda a, b, c: a + value * b * c, 3
    ),
    "celu": lambda alpha=1.0: _sequence("celu", lambda x: F.celu(x, alpha), alpha=alpha),
    "elu": lambda alpha=1.0: _sequence("elu", lambda x: F.elu(x, alpha), alpha=alpha),
    "clamp": _clamped,
    "clip": _clamped,
    "hardshrink": lambda lambd=0.5: _plain(lambda x: F.hardshrink(x, lambd)),
    "hardtanh": lambda min_val=-1.0, max_val=1.0: _clamped(min_val, max_val),
    "heaviside": lambda value=1.0: _plain(lambda x: torch.heaviside(x, torch.tensor(value, dtype=x.dtype))),
    "leaky_relu": lambda negative_slope=0.01: _slope(negative_slope),
    "polygamma": lambda k=1.0: _sequence("polygamma", lambda x: torch.polygamma(int(k), x), k=int(k)),
    "prelu": lambda weight=0.25: _slope(weight),
    "rdiv": lambda value=1.0: _sequence("rdiv", lambda x: value / x, number=value),
    "relu_max": lambda upper_limit=6.0: _plain(lambda x: x.clamp(0.0, upper_limit)),
    "relu_min": lambda lower_limit=0.0: _plain(lambda x: x.clamp(min=lower_limit)),
    "rpow": lambda exponent=2.0: _sequence("rpow", lambda x: exponent**x, number=exponent),
    "selu": lambda scale=1.0507, alpha=1.67326: _sequence("selu", F.selu, scale=scale, alpha=alpha),
    "softshrink": _softshrink,
    "softcap": lambda beta=50.0: _sequence("softcap", lambda x: beta * torch.tanh(x / beta), beta=beta),
    "threshold": lambda threshold=0.0, value=0.0: _plain(lambda x: F.threshold(x, threshold, value)),
}
"""By ttnn's name, with the numbers it is called with."""


def find(op: str) -> Op | None:
    """An operation by ttnn's name, or by that and its numbers: `clamp min=-1.0,max=1.0`. `add_`, in place, is `add`."""
    if op in OPS:
        return OPS[op]
    name, _, numbers = op.partition(" ")
    if name.endswith("_"):
        return find(op.replace("_ ", " ") if numbers else op[:-1])
    if name not in WITH_NUMBERS:
        return None
    values = dict(part.strip().split("=", 1) for part in numbers.split(",") if "=" in part)
    try:
        given = {key: float(number) for key, number in values.items()}
    except ValueError:
        return None
    known = inspect.signature(WITH_NUMBERS[name]).parameters
    if given.keys() <= known.keys():
        return WITH_NUMBERS[name](**given)
    return WITH_NUMBERS[name](*given.values()) if len(given) == len(known) == 1 else None  # its number by another name
