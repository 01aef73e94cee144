"""Remainders, divisions that round, and rounding."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from proveout.ops.pointwise import lower_div
from proveout.ops.samples import ODD, bools, each, ints, randn, uniform
from proveout.ops.table import WIDE, Builder, Op, Range, Refused, Sample, Value
from proveout.reasons import AS_INT32, Kind

DECIMALS = Kind("round-decimals", "10 to the power of {power} is more than float32 holds")
INEXACT = Kind("integer-division-bfloat16", "integer division in bfloat16 is not exact")
NOT_FLOAT32 = Kind("integers-not-float32", "{dtype} values that are not proven to be float32 numbers", AS_INT32)
MAY_BE_ZERO = Kind("divisor-zero", "an integer divisor that may be zero")

Operand = Value | int | float
EXACT = 2**24
"""Integers below it are float32 numbers."""


def lower_rounded_div(b: Builder, self: Value, other: Operand, rounding_mode: str | None) -> Value:
    """Eager's own steps: what fmod leaves is taken off first, so that the quotient is whole."""
    if rounding_mode is None or (rounding_mode == "trunc" and b.out.dtype.startswith(("float", "bfloat"))):
        return lower_div(b, self, other, rounding_mode)
    if b.out.dtype.startswith(("float", "bfloat")):
        return _floored(b, self, other)
    x, y = _whole(b, self, other)
    kernel = "ttnn.remainder" if rounding_mode == "floor" else "ttnn.fmod"
    rest = _call(b, kernel, x, y)
    quotient = _call(b, "ttnn.div", b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=rest), y)
    assert self.range is not None
    far = max(abs(r) for r in self.range)
    return _integer(b, b.call("ttnn.round", input_tensor=quotient), (-far, far))


def _floored(b: Builder, self: Value, other: Operand) -> Value:
    """The quotient less one where the remainder's sign is not the divisor's, as eager has it; in float32."""
    x, y = b.cast(self, "float32"), _number(b, other)
    rest = _call(b, "ttnn.fmod", x, y)
    quotient = _call(b, "ttnn.div", b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=rest), y)
    left = _compare(b, "ttnn.ne", rest, 0.0)
    turned = _compare(b, "ttnn.lt", rest, 0.0)
    if isinstance(y, Value):
        turned = b.call(
            "ttnn.logical_xor", input_tensor_a=turned, input_tensor_b=_compare(b, "ttnn.lt", y, 0.0), gives="bool"
        )
    elif y < 0:
        turned = _compare(b, "ttnn.ge", rest, 0.0)
    over = b.call("ttnn.logical_and", input_tensor_a=left, input_tensor_b=turned, gives="bool")
    quotient = b.call("ttnn.subtract", input_tensor_a=quotient, input_tensor_b=b.cast(over, "float32"))
    floor = b.call("ttnn.floor", input_tensor=quotient)
    gap = b.call("ttnn.subtract", input_tensor_a=quotient, input_tensor_b=floor)
    nearer = b.cast(_compare(b, "ttnn.gt", gap, 0.5), "float32")
    out = b.call("ttnn.add", input_tensor_a=floor, input_tensor_b=nearer)
    if isinstance(y, Value):
        zero = _compare(b, "ttnn.eq", y, 0.0)
        plain = _call(b, "ttnn.div", x, y)
        out = b.call("ttnn.where", predicate=zero, true_value=plain, false_value=out, gives="float32")
    elif y == 0:
        out = _call(b, "ttnn.div", x, y)
    return b.cast(out, b.out.dtype)


def remainder(kernel: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, other: Operand) -> Value:
        """Exact in float32 wherever it has the operands; eager rounds to bfloat16 once."""
        if b.out.dtype.startswith(("float", "bfloat")):
            return b.cast(_call(b, kernel, b.cast(self, "float32"), _number(b, other)), b.out.dtype)
        x, y = _whole(b, self, other)
        bounds = other.range if isinstance(other, Value) else (int(other), int(other))
        assert bounds is not None
        far = max(abs(r) for r in bounds) - 1
        low = 0 if kernel == "ttnn.remainder" and bounds[0] > 0 else -far
        return _integer(b, _call(b, kernel, x, y), (low, far))

    return lower


def lower_round(b: Builder, self: Value, decimals: int = 0) -> Value:
    """Halves go to the even neighbour. To decimals, it is scaled, rounded and scaled back in float32, as eager does it;
    to tens, it is divided first."""
    if not self.is_float:
        return self
    if not decimals:
        return b.call("ttnn.round", input_tensor=self)
    power = torch.tensor(10.0 ** abs(decimals), dtype=torch.float32).item()
    if not math.isfinite(power):
        raise Refused(DECIMALS(power=abs(decimals)))
    there, back = ("ttnn.multiply", "ttnn.div") if decimals > 0 else ("ttnn.div", "ttnn.multiply")
    scaled = b.call("ttnn.round", input_tensor=_call(b, there, b.cast(self, WIDE), power))
    return b.cast(_call(b, back, scaled, power), b.out.dtype)


def _whole(b: Builder, self: Value, other: Operand) -> tuple[Value, Value | float]:
    """Integers as float32, where it has them all and the divisor is never zero (eager raises)."""
    known = [v.range if isinstance(v, Value) else (int(v), int(v)) for v in (self, other)]
    if b.dtype("float32").text.endswith("bfloat16"):
        raise Refused(INEXACT())
    if any(r is None or r[0] <= -EXACT or r[1] >= EXACT for r in known):
        raise Refused(NOT_FLOAT32(dtype=b.out.dtype))
    divisor = known[1]
    assert divisor is not None
    if divisor[0] <= 0 <= divisor[1]:
        raise Refused(MAY_BE_ZERO())
    return b.cast(self, "float32"), _number(b, other)


def _integer(b: Builder, x: Value, bounds: Range) -> Value:
    return b.cast(dataclasses.replace(b.cast(x, "int32"), range=bounds), b.out.dtype)


def _number(b: Builder, x: Operand) -> Value | float:
    return b.cast(x, "float32") if isinstance(x, Value) else float(x)


SCALAR = {"ttnn.fmod": "scalar", "ttnn.div": "value"}


def _call(b: Builder, kernel: str, x: Value, y: Value | float) -> Value:
    name = "input_tensor_b" if isinstance(y, Value) else SCALAR.get(kernel, "input_tensor_b")
    second: dict[str, Any] = {name: y}
    return b.call(kernel, input_tensor_a=x, **second)


def _compare(b: Builder, kernel: str, x: Value, number: float) -> Value:
    return b.call(kernel, input_tensor_a=x, input_tensor_b=number, dtype=b.dtype("bool"), gives="bool")


# ---- samples -----------------------------------------------------------------------------------------------------

SPECIAL = torch.tensor([1.0, -1.0, 7.5, -7.5, 0.0, math.inf, -math.inf, math.nan])
MODES = (None, "floor", "trunc")


def tensors() -> Iterator[Sample]:
    yield Sample((randn(*ODD) * 9, 2.0 + uniform(*ODD)))
    yield Sample((randn(*ODD) * 9, randn(7) * 2), name="broadcast, negative")
    yield Sample((SPECIAL.repeat_interleave(8), SPECIAL.repeat(8)), name="special")
    yield Sample((randn(4, 9, dtype=torch.bfloat16) * 9, 1 + uniform(9, dtype=torch.bfloat16)), name="bfloat16")
    yield Sample((ints(4, 4), ints(4, 4, low=1)), name="int64")
    yield Sample((bools(4, 4).int(), ints(4, 4, low=1, dtype=torch.int32)), name="int32")


def numbers() -> Iterator[Sample]:
    for number in (2.5, -3, 1e-3):
        yield Sample((randn(*ODD) * 9, number), name=str(number))
    yield Sample((SPECIAL, 2.0), name="special")
    yield Sample((SPECIAL, 0.0), name="by zero")
    yield Sample((bools(4, 4), 3), name="bool and int")
    yield Sample((ints(4, 4), 3), name="int64")
    yield Sample((bools(4, 4), -2.5), name="bool and float")


def with_modes(plain: Callable[[], Iterator[Sample]]) -> Callable[[], Iterator[Sample]]:
    def make() -> Iterator[Sample]:
        for mode in MODES:
            for sample in plain():
                yield Sample(sample.args, {"rounding_mode": mode}, f"{sample.name} {mode}")

    return make


OPS = [
    Op("aten.div.Tensor_mode", lower_rounded_div, samples=with_modes(tensors)),
    Op("aten.div.Scalar_mode", lower_rounded_div, samples=with_modes(numbers)),
    Op("aten.remainder.Tensor", remainder("ttnn.remainder"), samples=tensors),
    Op("aten.remainder.Scalar", remainder("ttnn.remainder"), samples=numbers),
    Op("aten.fmod.Tensor", remainder("ttnn.fmod"), samples=tensors),
    Op("aten.fmod.Scalar", remainder("ttnn.fmod"), samples=numbers),
    Op(
        "aten.round.default",
        lower_round,
        samples=each(
            Sample((randn(*ODD) * 9,)),
            Sample((torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, math.inf, math.nan]),), name="halves, special"),
            Sample((randn(9, dtype=torch.bfloat16),), name="bfloat16"),
            Sample((ints(4),), name="int64"),
        ),
    ),
    Op(
        "aten.round.decimals",
        lower_round,
        samples=each(
            *(Sample((randn(*ODD) * 90,), {"decimals": n}, f"{n} decimals") for n in (0, 2, -1, 40)),
            Sample((randn(9, dtype=torch.bfloat16) * 90,), {"decimals": 1}, "bfloat16"),
        ),
    ),
]
