"""How much arithmetic an element-wise operation is: which class of vector code it runs, and in how many passes.

A class is a cost to be fitted; which class an operation belongs to follows from what it computes.
"""

from __future__ import annotations

CLASSES: dict[str, tuple[str, ...]] = {
    # one or a few vector instructions: they hide behind moving the tile
    "light": (
        "abs", "ceil", "clamp", "clamp_tss", "clip", "copy", "deg2rad", "eqz", "fill", "floor", "frac", "gez", "gtz",
        "hardmish", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "heaviside", "identity", "isfinite", "isinf",
        "isnan", "isneginf", "isposinf", "leaky_relu", "lez", "logical_not", "ltz", "mul_unary_sfpu", "neg", "nez",
        "prelu", "rad2deg", "relu", "relu6", "relu_max", "relu_min", "round", "sign", "signbit", "softshrink",
        "square", "threshold", "trunc", "gelu/fast_approx", "exp/fast_approx", "bitwise_not", "add_unary_sfpu",
    ),
    # one root or one quotient
    "root": ("reciprocal", "recip", "rsqrt", "sqrt", "softsign", "cbrt", "rdiv", "tanh"),
    # one exponential, logarithm or reduced angle
    "exponential": (
        "cos", "elu", "exp", "exp2", "log", "log10", "log1p", "log2", "sigmoid", "silu", "sin", "softcap", "softplus",
        "celu", "selu", "swish", "logsigmoid", "log_sigmoid", "sigmoid/fast_approx",
    ),
    # an exponential and a quotient, or two of them
    "double": (
        "cosh", "expm1", "sigmoid_accurate", "sinh", "tan", "tanhshrink", "mish", "erf", "atan", "glu", "swiglu",
    ),
    # long polynomials with cases
    "long": (
        "acos", "acosh", "asin", "asinh", "atanh", "erfc", "erfinv", "gelu", "i0", "i1", "logit", "xielu", "geglu",
    ),
    # powers and logarithms of sums
    "power": ("pow", "logaddexp", "logaddexp2", "xlogy", "rpow", "power", "polyval", "digamma", "lgamma"),
}  # fmt: skip
CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names}

PASSES: dict[str, int] = {
    "multigammaln": 30, "polygamma": 20, "div_no_nan": 3, "floor_div": 5, "isclose": 6, "nextafter": 8, "outer": 2,
    "remainder": 2, "fmod": 2, "logical_xor": 1, "addcdiv": 2, "geglu": 3, "swiglu": 3, "reglu": 2, "glu": 3,
    "var": 4, "std": 5, "normalize_global": 6, "normalize_hw": 6, "std_hw": 4, "var_hw": 4,
}  # fmt: skip
"""Calls that run several device operations, and how many times they so read and write their tensors."""

BINARY = frozenset({
    "add", "addalpha", "atan2", "bias_gelu", "div", "div_no_nan", "divide", "eq", "floor_div", "fmod", "ge", "gt",
    "hypot", "l1_loss", "ldexp", "le", "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "lt",
    "maximum", "minimum", "mse_loss", "multiply", "ne", "pow", "remainder", "rsub", "squared_difference", "sub",
    "subtract", "xlogy", "isclose", "nextafter", "outer", "subalpha", "gcd", "lcm",
})  # fmt: skip
TERNARY = frozenset({"lerp", "addcmul", "addcdiv", "mac", "where"})


def arity(name: str) -> int:
    """Operands of a call that does not say."""
    return 2 if name in BINARY else 3 if name in TERNARY else 1


def vector_class(name: str, binary: bool = False) -> str:
    """The class of an operation by its name; an unknown unary one is as dear as an exponential, a binary one light."""
    key = name.lower()
    return CLASS_OF.get(key) or CLASS_OF.get(key.partition("/")[0]) or ("light" if binary else "exponential")


def passes(name: str) -> int:
    return PASSES.get(name.lower(), 1)
