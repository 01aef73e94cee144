"""Tensors made from nothing. Most fold away; these serve the ones that are made at run time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from proveout.ops.samples import ODD, each, ints, randn
from proveout.ops.table import Builder, Op, Sample, Value


def lower_full_like(b: Builder, self: Value, fill_value: float, **options: Any) -> Value:
    """Known at compile time: only the shape of the operand counts."""
    return _filled(b, fill_value)


def lower_zeros_like(b: Builder, self: Value, **options: Any) -> Value:
    return lower_full_like(b, self, 0)


def lower_ones_like(b: Builder, self: Value, **options: Any) -> Value:
    return lower_full_like(b, self, 1)


def lower_full(b: Builder, size: Sequence[int], fill_value: float, **options: Any) -> Value:
    return _filled(b, fill_value)


def lower_scalar_tensor(b: Builder, s: float, **options: Any) -> Value:
    return _filled(b, s)


def _filled(b: Builder, number: float) -> Value:
    value = torch.full((), number, dtype=getattr(torch, b.out.dtype))
    return b.expand(b.constant(value), b.out.shape)


def lower_arange(b: Builder, end: float, start: float = 0, step: float = 1, **options: Any) -> Value:
    """Eager makes it, now."""
    return b.constant(torch.arange(start, end, step, dtype=getattr(torch, b.out.dtype)))


def likes(*fill: float) -> Any:
    def make() -> Iterator[Sample]:
        yield Sample((randn(*ODD), *fill))
        yield Sample((ints(3, 4), *fill), name="int64")
        yield Sample((ints(3, 4), *fill), {"dtype": torch.float32}, "dtype")
        yield Sample((randn(3, 4), *fill), {"dtype": torch.bool}, "bool")

    return make


OPS = [
    Op("aten.full_like.default", lower_full_like, samples=likes(2)),
    Op("aten.zeros_like.default", lower_zeros_like, samples=likes()),
    Op("aten.ones_like.default", lower_ones_like, samples=likes()),
    Op(
        "aten.full.default",
        lower_full,
        samples=each(
            Sample(([2, 3], 1.5)),
            Sample(([], -math.inf), name="0-d, -inf"),
            Sample(([4], 3), name="int64"),
            Sample(([4], True), name="bool"),
            Sample(([4], 2), {"dtype": torch.bfloat16}, "dtype"),
            Sample(([0, 3], 2.0), name="no element"),
        ),
    ),
    Op(
        "aten.scalar_tensor.default",
        lower_scalar_tensor,
        samples=each(Sample((2.5,)), Sample((3,), {"dtype": torch.int64}, "int64"), Sample((math.nan,), name="NaN")),
    ),
    Op("aten.arange.default", lower_arange, samples=each(Sample((7,)), Sample((2.5,), name="float"))),
    Op("aten.arange.start", lower_arange, samples=each(Sample((-3, 4)), Sample((3, 3), name="no element"))),
    Op(
        "aten.arange.start_step",
        lower_arange,
        samples=each(
            Sample((9, -2, -3)),
            Sample((0.5, 2.0, 0.25), {"dtype": torch.bfloat16}, "bfloat16"),
            Sample((0, 2**40, 2**38), name="beyond int32"),
        ),
    ),
]
