"""Element-wise ATen ops of two operands and more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from proveout.ops.samples import ODD, bools, ints, randn, uniform
from proveout.ops.table import Builder, Op, Range, Refused, Sample, Value
from proveout.ops.unary import Operand, Samples, as_dtype
from proveout.reasons import Kind

INTEGER_DIVISION = Kind("integer-division", "integer division has no exact kernel")
FLOOR_DIVISION = Kind("floor-division", "the floor of a rounded quotient is not eager's floor division")
INTEGER_POWERS = Kind("integer-powers", "integer powers have no kernel")


def result_type(*operands: Operand) -> str:
    """Eager's type promotion, Python numbers and 0-d tensors included."""
    a, c = (
        torch.empty(v.shape, dtype=getattr(torch, v.dtype), device="meta") if isinstance(v, Value) else v
        for v in operands
    )
    return str(torch.result_type(a, c)).removeprefix("torch.")


def _range(x: Operand) -> Range | None:
    if isinstance(x, Value):
        return x.range
    return (int(x), int(x)) if math.isfinite(x) else None


def _interval(function: Callable[[int, int], int], a: Operand, c: Operand) -> Range | None:
    """Bounds of a monotone or bilinear function of two bounded integers: they lie at the corners."""
    left, right = _range(a), _range(c)
    if left is None or right is None:
        return None
    corners = [function(x, y) for x in left for y in right]
    return min(corners), max(corners)


def _pair(b: Builder, a: Operand, c: Operand, dtype: str, scalar: str = "input_tensor_b") -> dict[str, Any]:
    second = as_dtype(b, c, dtype)
    return {
        "input_tensor_a": as_dtype(b, a, dtype),
        "input_tensor_b" if isinstance(second, Value) else scalar: second,
    }


def _scaled(b: Builder, x: Operand, alpha: float, dtype: str) -> Operand:
    if alpha == 1:
        return x
    if not isinstance(x, Value):
        return x * alpha
    bounds = _interval(lambda p, q: p * q, x, alpha)
    return b.call("ttnn.multiply", **_pair(b, x, alpha, dtype), gives=dtype, range=bounds)


def lower_add(b: Builder, self: Operand, other: Operand, alpha: float = 1) -> Value:
    dtype = b.out.dtype
    if dtype == "bool":
        second = other if alpha else False
        return b.call("ttnn.logical_or", **_pair(b, self, second, dtype), gives=dtype)
    second = _scaled(b, other, alpha, dtype)
    bounds = _interval(lambda x, y: x + y, self, second)
    return b.call("ttnn.add", **_pair(b, self, second, dtype), gives=dtype, range=bounds)


def lower_sub(b: Builder, self: Operand, other: Operand, alpha: float = 1) -> Value:
    dtype = b.out.dtype
    second = _scaled(b, other, alpha, dtype)
    bounds = _interval(lambda x, y: x - y, self, second)
    return b.call("ttnn.subtract", **_pair(b, self, second, dtype), gives=dtype, range=bounds)


def lower_rsub(b: Builder, self: Value, other: Operand, alpha: float = 1) -> Value:
    dtype = b.out.dtype
    first = _scaled(b, self, alpha, dtype)
    bounds = _interval(lambda x, y: y - x, first, other)
    return b.call("ttnn.rsub", **_pair(b, first, other, dtype, "input_b"), gives=dtype, range=bounds)


def lower_mul(b: Builder, self: Operand, other: Operand) -> Value:
    dtype = b.out.dtype
    if dtype == "bool":
        return b.call("ttnn.logical_and", **_pair(b, self, other, dtype), gives=dtype)
    bounds = _interval(lambda x, y: x * y, self, other)
    return b.call("ttnn.multiply", **_pair(b, self, other, dtype), gives=dtype, range=bounds)


def lower_div(b: Builder, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    dtype = b.out.dtype
    if not dtype.startswith(("float", "bfloat")):
        raise Refused(INTEGER_DIVISION())
    if rounding_mode == "floor":
        raise Refused(FLOOR_DIVISION())
    quotient = b.call("ttnn.div", **_pair(b, self, other, dtype, "value"), gives=dtype)
    return b.call("ttnn.trunc", input_tensor=quotient) if rounding_mode else quotient


def lower_pow(b: Builder, self: Operand, exponent: Operand) -> Value:
    dtype = b.out.dtype
    if not dtype.startswith(("float", "bfloat")):
        raise Refused(INTEGER_POWERS())
    return b.call("ttnn.pow", input_tensor=as_dtype(b, self, dtype), exponent=as_dtype(b, exponent, dtype), gives=dtype)


def extremum(kernel: str, pick: Callable[[int, int], int]) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, other: Operand) -> Value:
        bounds = _interval(pick, self, other)
        return b.call(kernel, **_pair(b, self, other, b.out.dtype, "input_b"), gives=b.out.dtype, range=bounds)

    return lower


def comparison(kernel: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, other: Operand) -> Value:
        dtype = result_type(self, other)
        return b.call(kernel, **_pair(b, self, other, dtype), dtype=b.dtype("bool"), gives="bool")

    return lower


def logical(kernel: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, other: Value) -> Value:
        truths = [x if x.dtype == "bool" else _truth(b, x) for x in (self, other)]
        return b.call(kernel, input_tensor_a=truths[0], input_tensor_b=truths[1], gives="bool")

    return lower


def _truth(b: Builder, x: Value) -> Value:
    return b.call("ttnn.ne", input_tensor_a=x, input_tensor_b=0, dtype=b.dtype("bool"), gives="bool")


def bitwise(on_bool: str, on_int: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, other: Operand) -> Value:
        if b.out.dtype == "bool":
            return b.call(on_bool, **_pair(b, self, other, "bool"), gives="bool")
        known = _range(self), _range(other)
        bounds = None
        if all(r and r[0] >= 0 for r in known):
            bits = max(r[1] for r in known if r).bit_length()
            bounds = (0, 2**bits - 1)
        return b.call(on_int, **_pair(b, self, other, b.out.dtype, "input_b"), gives=b.out.dtype, range=bounds)

    return lower


def lower_where(b: Builder, condition: Value, self: Value, other: Value) -> Value:
    dtype = b.out.dtype
    bounds = _interval(lambda x, y: x, self, other), _interval(lambda x, y: y, self, other)
    known = (min(r[0] for r in bounds if r), max(r[1] for r in bounds if r)) if all(bounds) else None
    truth = condition if condition.dtype == "bool" else _truth(b, condition)
    return b.call(
        "ttnn.where",
        predicate=truth,
        true_value=b.cast(self, dtype),
        false_value=b.cast(other, dtype),
        gives=dtype,
        range=known,
    )


def lower_masked_fill(b: Builder, self: Value, mask: Value, value: Operand) -> Value:
    if isinstance(value, Value):
        return lower_where(b, mask, value, self)
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    filled = b.constant(torch.full((), value, dtype=getattr(torch, b.out.dtype)))
    return lower_where(b, mask, filled, b.expand(self, shape))


def tensor_pairs() -> Iterator[Sample]:
    yield Sample((randn(*ODD), randn(*ODD) + 0.1))
    yield Sample((randn(*ODD), randn(7)), name="broadcast")
    yield Sample((randn(1, 3, 1, 7), randn(2, 1, 5, 1)), name="both broadcast")
    yield Sample((randn(*ODD), randn()), name="0-d other")
    yield Sample((randn(4, 4), randn(4, 4, dtype=torch.bfloat16)), name="mixed dtypes")
    yield Sample((randn(4, 4), ints(4, 4, low=1)), name="float and int64")
    yield Sample((bools(4, 4), randn(4, 4)), name="bool and float")
    yield Sample((ints(4, 4), ints(4, 4, low=1)), name="int64")
    yield Sample((bools(4, 4).int(), ints(4, 4, low=1, dtype=torch.int32)), name="int32")
    yield Sample((randn(0, 4), randn(0, 4)), name="no element")


def alpha_pairs() -> Iterator[Sample]:
    yield from tensor_pairs()
    yield Sample((randn(*ODD), randn(*ODD)), {"alpha": 0.5}, "alpha")
    yield Sample((ints(4, 4), ints(4, 4)), {"alpha": 3}, "int alpha")


def scalar_pairs() -> Iterator[Sample]:
    yield Sample((randn(*ODD), 1.5))
    yield Sample((randn(*ODD), 2), name="int")
    yield Sample((ints(4, 4), 2), name="int64")
    yield Sample((ints(4, 4), 2.5), name="int64 and float")
    yield Sample((bools(4, 4), 3), name="bool and int")


def order_pairs() -> Iterator[Sample]:
    yield from (s for s in tensor_pairs() if s.name != "mixed dtypes")
    yield Sample((torch.tensor([1.0, math.nan, -math.inf]), torch.tensor([1.0, 1.0, math.inf])), name="special")


def truth_pairs() -> Iterator[Sample]:
    yield Sample((bools(4, 5), bools(4, 5).t().contiguous().t()))
    yield Sample((bools(4, 1, 5), bools(3, 1)), name="broadcast")
    yield Sample((randn(4, 5).round(), bools(4, 5)), name="float and bool")


def bit_pairs() -> Iterator[Sample]:
    yield Sample((bools(4, 5), bools(4, 5)))
    yield Sample((ints(4, 5, low=0), ints(4, 5, low=0)), name="int64")


def bit_scalars() -> Iterator[Sample]:
    yield Sample((bools(4, 5), True))
    yield Sample((ints(4, 5, low=0), 6), name="int64")
    yield Sample((ints(4, 5, dtype=torch.int32), 6), name="int32")
    yield Sample((bools(4, 5), 6), name="bool and int")


def power_scalars() -> Iterator[Sample]:
    yield Sample((randn(*ODD), 3.0))
    yield Sample((randn(*ODD), 2), name="int exponent")
    yield Sample((uniform(*ODD, low=0.2, high=3.0), 0.5), name="root")
    yield Sample((uniform(*ODD, low=0.2, high=3.0), -1.5), name="negative")
    yield Sample((ints(4, 4), 2), name="int64")


def where_samples() -> Iterator[Sample]:
    yield Sample((bools(*ODD), randn(*ODD), randn(*ODD)))
    yield Sample((bools(5, 7), randn(*ODD), torch.tensor(-math.inf)), name="broadcast, -inf")
    yield Sample((bools(4, 4), torch.tensor(1), torch.tensor(0)), name="0-d int64")
    yield Sample((bools(4, 4), randn(4, 4), torch.tensor(0, dtype=torch.int64)), name="mixed dtypes")


def _both(name: str, lower: Callable[..., Value], tensors: Samples, scalars: Samples = scalar_pairs) -> list[Op]:
    return [
        Op(f"aten.{name}.Tensor", lower, samples=tensors),
        Op(f"aten.{name}.Scalar", lower, samples=scalars),
    ]


OPS = [
    *_both("add", lower_add, alpha_pairs),
    *_both(
        "sub",
        lower_sub,
        lambda: (s for s in alpha_pairs() if "bool and" not in s.name),
        lambda: (s for s in scalar_pairs() if "bool" not in s.name),
    ),
    *_both("mul", lower_mul, tensor_pairs),
    *_both("div", lower_div, tensor_pairs),
    Op(
        "aten.rsub.Scalar",
        lower_rsub,
        samples=lambda: (
            Sample((s.args[0], s.args[1], 2), s.kwargs, s.name) for s in scalar_pairs() if "bool" not in s.name
        ),
    ),
    Op("aten.pow.Tensor_Scalar", lower_pow, samples=power_scalars),
    Op(
        "aten.pow.Tensor_Tensor",
        lower_pow,
        samples=lambda: iter([Sample((uniform(*ODD, low=0.2, high=2.0), randn(7)))]),
    ),
    Op("aten.pow.Scalar", lower_pow, samples=lambda: iter([Sample((2.0, randn(*ODD)))])),
    Op("aten.maximum.default", extremum("ttnn.maximum", max), samples=order_pairs),
    Op("aten.minimum.default", extremum("ttnn.minimum", min), samples=order_pairs),
    *(
        op
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for op in _both(name, comparison(f"ttnn.{name}"), order_pairs)
    ),
    *(Op(f"aten.logical_{n}.default", logical(f"ttnn.logical_{n}"), samples=truth_pairs) for n in ("and", "or", "xor")),
    *(
        Op(f"aten.bitwise_{n}.{kind}", bitwise(f"ttnn.logical_{n}", f"ttnn.bitwise_{n}"), samples=samples)
        for n in ("and", "or", "xor")
        for kind, samples in (("Tensor", bit_pairs), ("Scalar", bit_scalars))
    ),
    Op("aten.where.self", lower_where, samples=where_samples),
    Op(
        "aten.masked_fill.Scalar",
        lower_masked_fill,
        samples=lambda: iter([Sample((randn(*ODD), bools(5, 7), -math.inf))]),
    ),
    Op(
        "aten.masked_fill.Tensor",
        lower_masked_fill,
        samples=lambda: iter([Sample((randn(*ODD), bools(5, 7), torch.tensor(2.0)))]),
    ),
]
