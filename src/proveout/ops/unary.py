"""Element-wise ATen ops of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from proveout.ops.samples import ODD, bools, ints, randn, uniform
from proveout.ops.table import Builder, Op, Range, Refused, Sample, Value
from proveout.program import Name
from proveout.reasons import COMPLEX_NUMBER, KERNEL_DTYPE, Kind

LARGE_NUMBER = Kind("large-number", "the number {number} does not fit 32 bits")
ELU_SCALE = Kind("elu-scale", "ttnn.elu has no scale")

Operand = Value | int | float | bool
Samples = Callable[[], Iterator[Sample]]


def as_dtype(b: Builder, x: Operand, dtype: str) -> Operand:
    """An operand in a kernel's dtype: a tensor is cast, a number is written as one of that kind."""
    if isinstance(x, Value):
        return b.cast(x, dtype)
    if isinstance(x, complex):
        raise Refused(COMPLEX_NUMBER())
    if dtype.startswith(("int", "uint")):
        if not -(2**31) <= x < 2**31:
            raise Refused(LARGE_NUMBER(number=str(x)))
        return int(x)
    return float(x) if dtype != "bool" else bool(x)


def unary(aten: str, kernel: str, samples: Samples, **parameters: Any) -> Op:
    def lower(b: Builder, self: Value) -> Value:
        return b.call(kernel, input_tensor=b.cast(self, b.out.dtype), gives=b.out.dtype, **parameters)

    return Op(f"aten.{aten}.default", lower, samples=samples)


def real() -> Iterator[Sample]:
    yield Sample((randn(*ODD),))
    yield Sample((randn(33),), name="1-d")
    yield Sample((randn(),), name="0-d")
    yield Sample((randn(4, 6).t(),), name="transposed")
    yield Sample((randn(4, 6, dtype=torch.bfloat16),), name="bfloat16")
    yield Sample((ints(3, 4),), name="int64")


def positive() -> Iterator[Sample]:
    yield Sample((uniform(*ODD, low=0.1, high=4.0),))
    yield Sample((uniform(40, low=0.1, high=4.0, dtype=torch.bfloat16),), name="bfloat16")


def special() -> Iterator[Sample]:
    yield Sample((torch.tensor([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan]),), name="special")
    yield Sample((randn(*ODD),))


def floats() -> Iterator[Sample]:
    yield from (s for s in real() if s.name != "int64")


UNARY = [
    unary("tanh", "ttnn.tanh", real),
    unary("sigmoid", "ttnn.sigmoid", real),
    unary("silu", "ttnn.silu", floats),
    unary("mish", "ttnn.mish", floats),
    unary("exp", "ttnn.exp", real),
    unary("expm1", "ttnn.expm1", real),
    unary("log", "ttnn.log", positive),
    unary("log1p", "ttnn.log1p", positive),
    unary("sqrt", "ttnn.sqrt", positive),
    unary("rsqrt", "ttnn.rsqrt", positive),
    unary("reciprocal", "ttnn.reciprocal", positive),
    unary("sin", "ttnn.sin", real),
    unary("cos", "ttnn.cos", real),
    unary("erf", "ttnn.erf", real),
    unary("floor", "ttnn.floor", special),
    unary("ceil", "ttnn.ceil", special),
    unary("trunc", "ttnn.trunc", special),
    unary("sign", "ttnn.sign", special),
    unary("hardswish", "ttnn.hardswish", floats),
    unary("hardsigmoid", "ttnn.hardsigmoid", floats),
]


def _known(x: Value, image: Callable[[int, int], Range]) -> Range | None:
    return image(*x.range) if x.range else None


def lower_relu(b: Builder, self: Value) -> Value:
    bounds = _known(self, lambda lo, hi: (max(lo, 0), max(hi, 0)))
    return b.call("ttnn.relu", input_tensor=self, range=bounds)


def lower_neg(b: Builder, self: Value) -> Value:
    return b.call("ttnn.neg", input_tensor=self, range=_known(self, lambda lo, hi: (-hi, -lo)))


def lower_abs(b: Builder, self: Value) -> Value:
    bounds = _known(self, lambda lo, hi: (0, max(abs(lo), abs(hi))))
    return b.call("ttnn.abs", input_tensor=self, range=bounds)


def lower_gelu(b: Builder, self: Value, approximate: str = "none") -> Value:
    variant = Name("ttnn.GeluVariant.Tanh" if approximate == "tanh" else "ttnn.GeluVariant.Accurate")
    return b.call("ttnn.gelu", input_tensor=self, variant=variant)


def lower_elu(b: Builder, self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    if input_scale != 1 or scale != 1:
        raise Refused(ELU_SCALE())
    return b.call("ttnn.elu", input_tensor=self, alpha=float(alpha))


def lower_softplus(b: Builder, self: Value, beta: float = 1, threshold: float = 20) -> Value:
    return b.call("ttnn.softplus", input_tensor=self, beta=float(beta), threshold=float(threshold))


def lower_leaky_relu(b: Builder, self: Value, negative_slope: float = 0.01) -> Value:
    return b.call("ttnn.leaky_relu", input_tensor=self, negative_slope=float(negative_slope))


def lower_hardtanh(b: Builder, self: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return lower_clamp(b, self, min_val, max_val)


def lower_clamp(b: Builder, self: Value, min: float | None = None, max: float | None = None) -> Value:
    x = b.cast(self, b.out.dtype)
    limits: dict[str, Any] = {k: as_dtype(b, v, b.out.dtype) for k, v in (("min", min), ("max", max)) if v is not None}
    bounds = None
    if x.range and not x.is_float:
        low, high = limits.get("min", x.range[0]), limits.get("max", x.range[1])
        assert isinstance(low, int)
        assert isinstance(high, int)
        bounds = (_clip(x.range[0], low, high), _clip(x.range[1], low, high))
    return b.call("ttnn.clamp", input_tensor=x, range=bounds, **limits)


def _clip(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def lower_clamp_tensor(b: Builder, self: Value, min: Value | None = None, max: Value | None = None) -> Value:
    x = b.cast(self, b.out.dtype)
    for kernel, limit in (("ttnn.maximum", min), ("ttnn.minimum", max)):
        if limit is not None:
            x = b.call(kernel, input_tensor_a=x, input_tensor_b=b.cast(limit, b.out.dtype))
    return x


def predicate(aten: str, kernel: str) -> Op:
    def lower(b: Builder, self: Value) -> Value:
        if not self.is_float:
            raise Refused(KERNEL_DTYPE(kernel=kernel, wanted="floating-point numbers", dtype=self.dtype))
        return b.call(kernel, input_tensor=self, gives="bool")

    return Op(f"aten.{aten}.default", lower, samples=special)


def lower_logical_not(b: Builder, self: Value) -> Value:
    return b.call("ttnn.eq", input_tensor_a=self, input_tensor_b=0, dtype=b.dtype("bool"), gives="bool")


def lower_bitwise_not(b: Builder, self: Value) -> Value:
    if self.dtype == "bool":
        return lower_logical_not(b, self)
    flipped = b.call("ttnn.neg", input_tensor=self, range=_known(self, lambda lo, hi: (-hi, -lo)))
    return b.call(
        "ttnn.subtract",
        input_tensor_a=flipped,
        input_tensor_b=1,
        range=_known(self, lambda lo, hi: (~hi, ~lo)),
    )


def gelu_samples() -> Iterator[Sample]:
    yield from floats()
    yield Sample((randn(*ODD),), {"approximate": "tanh"}, "tanh")


def clamp_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), -0.5, 0.5))
    yield Sample((randn(*ODD), None, 0.5), name="no minimum")
    yield Sample((randn(*ODD), 0.25), name="no maximum")
    yield Sample((randn(*ODD), 0.5, -0.5), name="crossed")
    yield Sample((bools(4, 4).long(), 0, 3), name="int64")
    yield Sample((bools(4, 4).long(), 0.5, 3), name="int64 with float limits")


def parameter_samples(*values: float) -> Samples:
    def make() -> Iterator[Sample]:
        yield from floats()
        yield Sample((randn(*ODD), *values), name="parameters")

    return make


OPS = [
    *UNARY,
    Op("aten.relu.default", lower_relu, samples=real),
    Op("aten.neg.default", lower_neg, samples=real),
    Op("aten.abs.default", lower_abs, samples=real),
    Op("aten.gelu.default", lower_gelu, samples=gelu_samples),
    Op("aten.elu.default", lower_elu, samples=parameter_samples(0.7)),
    Op("aten.softplus.default", lower_softplus, samples=parameter_samples(2.0, 1.0)),
    Op("aten.leaky_relu.default", lower_leaky_relu, samples=parameter_samples(0.2)),
    Op("aten.hardtanh.default", lower_hardtanh, samples=parameter_samples(-0.3, 0.6)),
    Op("aten.clamp.default", lower_clamp, samples=clamp_samples),
    Op(
        "aten.clamp.Tensor",
        lower_clamp_tensor,
        samples=lambda: iter([Sample((randn(*ODD), randn(7) - 1, randn(7))), Sample((randn(*ODD), None, randn(7)))]),
    ),
    predicate("isnan", "ttnn.isnan"),
    predicate("isinf", "ttnn.isinf"),
    Op(
        "aten.logical_not.default",
        lower_logical_not,
        samples=lambda: iter([Sample((bools(4, 4),)), *special()]),
    ),
    Op(
        "aten.bitwise_not.default",
        lower_bitwise_not,
        samples=lambda: iter([Sample((bools(4, 4),)), Sample((ints(4, 4),))]),
    ),
]
