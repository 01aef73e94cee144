"""Changes of dtype, and the copies that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from proveout.ops.samples import ODD, bools, ints, randn
from proveout.ops.table import Builder, Op, Sample, Value
from proveout.reasons import Kind, Reason

OTHER_DEVICE = Kind("copy-away", "a copy to {device} leaves this device")
NOT_STRIDED = Kind("not-strided", "layout {layout} is not strided")


def lower_to_copy(
    b: Builder,
    self: Value,
    dtype: str | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Value:
    return b.cast(self, dtype) if dtype else self


def guard_to_copy(device: Any = None, layout: Any = None, **rest: Any) -> Reason | None:
    if device is not None and str(device) != "cpu":
        return OTHER_DEVICE(device=str(device))
    if layout not in (None, torch.strided):
        return NOT_STRIDED(layout=str(layout))
    return None


def lower_identity(b: Builder, self: Value, memory_format: Any = None) -> Value:
    """Values are immutable in a Program, so a copy is the value itself."""
    return self


def cast_samples() -> Iterator[Sample]:
    for dtype in (
        torch.bfloat16,
        torch.float32,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.float16,
        torch.float64,
    ):
        yield Sample((randn(*ODD, scale=3.0),), {"dtype": dtype}, f"float32 to {dtype}")
        yield Sample((bools(4, 5),), {"dtype": dtype}, f"bool to {dtype}")
        yield Sample((ints(4, 5),), {"dtype": dtype}, f"int64 to {dtype}")
    yield Sample((randn(*ODD),), {}, "nothing asked")


def copies() -> Iterator[Sample]:
    yield Sample((randn(*ODD),))
    yield Sample((randn(4, 6).t(),), name="transposed")
    yield Sample((ints(4, 6),), name="int64")


OPS = [
    Op("aten._to_copy.default", lower_to_copy, guard_to_copy, cast_samples),
    Op("aten.clone.default", lower_identity, samples=copies),
    Op("aten.alias.default", lower_identity, samples=copies),
    Op("aten.detach.default", lower_identity, samples=copies),
    Op("aten.lift_fresh_copy.default", lower_identity, samples=copies),
]
