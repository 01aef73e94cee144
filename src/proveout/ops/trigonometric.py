"""Trigonometric and hyperbolic functions, their inverses, and logarithms of other bases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch

from proveout.ops.samples import ODD, ints, randn, uniform
from proveout.ops.table import Builder, Op, Sample, Value
from proveout.ops.unary import real, unary

SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, -2.5, math.inf, -math.inf, math.nan])


def everywhere() -> Iterator[Sample]:
    yield from real()
    yield Sample((SPECIAL,), name="special")


def inside_one() -> Iterator[Sample]:
    yield Sample((uniform(*ODD, low=-1.0, high=1.0),))
    yield Sample((uniform(40, low=-0.9, high=0.9, dtype=torch.bfloat16),), name="bfloat16")
    yield Sample((ints(3, 4, low=0, high=2),), name="int64")
    yield Sample((SPECIAL,), name="outside gives NaN")


def above_one() -> Iterator[Sample]:
    yield Sample((uniform(*ODD, low=1.0, high=4.0),))
    yield Sample((uniform(40, low=1.0, high=4.0, dtype=torch.bfloat16),), name="bfloat16")
    yield Sample((SPECIAL,), name="outside gives NaN")


def angles() -> Iterator[Sample]:
    yield Sample((randn(*ODD), randn(*ODD)))
    yield Sample((randn(*ODD), randn(7)), name="broadcast")
    yield Sample((randn(4, 4), randn()), name="0-d")
    yield Sample((randn(9, dtype=torch.bfloat16), randn(9, dtype=torch.bfloat16)), name="bfloat16")
    yield Sample((ints(4, 4, dtype=torch.int32), ints(4, 4, low=1, dtype=torch.int32)), name="int32")
    signs = torch.tensor([0.0, -0.0, 1.0, -1.0])
    yield Sample((signs.repeat(4), signs.repeat_interleave(4)), name="all quadrants")


def lower_two(kernel: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, other: Value) -> Value:
        dtype = b.out.dtype
        return b.call(kernel, input_tensor_a=b.cast(self, dtype), input_tensor_b=b.cast(other, dtype), gives=dtype)

    return lower


OPS = [
    unary("tan", "ttnn.tan", everywhere),
    unary("asin", "ttnn.asin", inside_one),
    unary("acos", "ttnn.acos", inside_one),
    unary("atan", "ttnn.atan", everywhere),
    unary("sinh", "ttnn.sinh", everywhere),
    unary("cosh", "ttnn.cosh", everywhere),
    unary("asinh", "ttnn.asinh", everywhere),
    unary("acosh", "ttnn.acosh", above_one),
    unary("atanh", "ttnn.atanh", inside_one),
    unary("log2", "ttnn.log2", above_one),
    unary("log10", "ttnn.log10", above_one),
    unary("exp2", "ttnn.exp2", everywhere),
    unary("erfc", "ttnn.erfc", everywhere),
    unary("erfinv", "ttnn.erfinv", inside_one),
    Op("aten.atan2.default", lower_two("ttnn.atan2"), samples=angles),
]
