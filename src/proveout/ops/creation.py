"""Tensors made from nothing. Most fold away; these serve the ones that are made at run time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from proveout.ops.samples import ODD, ints, randn
from proveout.ops.table import Builder, Op, Sample, Value


def lower_full_like(b: Builder, self: Value, fill_value: float, **options: Any) -> Value:
    """Known at compile time: only the shape of the operand counts."""
    value = torch.full((), fill_value, dtype=getattr(torch, b.out.dtype))
    return b.expand(b.constant(value), b.out.shape)


def lower_zeros_like(b: Builder, self: Value, **options: Any) -> Value:
    return lower_full_like(b, self, 0)


def lower_ones_like(b: Builder, self: Value, **options: Any) -> Value:
    return lower_full_like(b, self, 1)


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
]
