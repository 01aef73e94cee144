"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from proveout.ops.samples import ODD, bools, ints, randn
from proveout.ops.table import WIDE, Builder, Op, Range, Refused, Sample, Value, normal_dim
from proveout.reasons import Kind

TRUTH_OF_UINT8 = Kind("truth-of-uint8", "any and all of uint8 give uint8")
TOO_FEW = Kind("variance-of-too-few", "a variance over too few elements is not a number")

Dims = int | Sequence[int] | None


def reduced(
    b: Builder,
    kernel: str,
    x: Value,
    dim: Dims,
    keepdim: bool,
    range: Range | None = None,
    gives: str | None = None,
) -> Value:
    """Reduce over `dim` (all where None or empty, as eager reads it); a 0-d tensor counts as one element."""
    if x.rank == 0:
        x = b.reshape(x, (1,))
        return b.reshape(b.call(kernel, input_tensor=x, dim=(0,), keepdim=False, range=range, gives=gives), ())
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,) if dim is not None else ()
    axes = tuple(sorted(normal_dim(d, x.rank) for d in dims)) or tuple(_count(x.rank))
    return b.call(kernel, input_tensor=x, dim=axes, keepdim=keepdim, range=range, gives=gives)


def _count(rank: int) -> range:
    return range(rank)


def _size(x: Value, dim: Dims) -> int:
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,) if dim is not None else ()
    return math.prod(x.shape[normal_dim(d, x.rank)] for d in dims) if dims and x.rank else math.prod(x.shape)


def lower_sum(b: Builder, self: Value, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    x = b.cast(self, b.out.dtype)
    bounds = None
    if x.range:
        n = _size(x, dim)
        bounds = (min(x.range[0] * n, 0), max(x.range[1] * n, 0))
    return reduced(b, "ttnn.sum", x, dim, keepdim, bounds)


def lower_mean(b: Builder, self: Value, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    return reduced(b, "ttnn.mean", b.cast(self, b.out.dtype), dim, keepdim)


def extremum(kernel: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        return reduced(b, kernel, self, dim, keepdim, self.range)

    return lower


def truth(kernel: str) -> Callable[..., Value]:
    def lower(b: Builder, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        if b.out.dtype != "bool":
            raise Refused(TRUTH_OF_UINT8())
        x = b.cast(self, "bool")
        return reduced(b, kernel, x, dim, keepdim, gives="bool")

    return lower


def lower_var(
    b: Builder, self: Value, dim: Dims = None, correction: float | None = None, keepdim: bool = False
) -> Value:
    """Mean of squared distances, scaled for the correction; two passes, as eager's own result is the exact one. In
    float32, as eager has it inside."""
    x = b.cast(self, WIDE)
    n = _size(self, dim)
    count = n - (1 if correction is None else correction)
    if count <= 0:
        raise Refused(TOO_FEW())
    mean = reduced(b, "ttnn.mean", x, dim, True)
    distance = b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=mean)
    squares = b.call("ttnn.square", input_tensor=distance)
    out = reduced(b, "ttnn.mean", squares, dim, keepdim)
    out = out if count == n else b.call("ttnn.multiply", input_tensor_a=out, input_tensor_b=n / count)
    return b.cast(out, self.dtype)


def lower_var_mean(
    b: Builder, self: Value, dim: Dims = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Value, ...]:
    """In float32, as eager has both inside."""
    x = b.cast(self, WIDE)
    both = lower_var(b, x, dim, correction, keepdim), reduced(b, "ttnn.mean", x, dim, keepdim)
    return tuple(b.cast(v, self.dtype) for v in both)


def dims(*, extra: Sequence[Sample] = ()) -> Callable[[], Iterator[Sample]]:
    def make() -> Iterator[Sample]:
        yield Sample((randn(*ODD), [-1]))
        yield Sample((randn(*ODD), [1, -1], True), name="two, keepdim")
        yield Sample((randn(*ODD), []), name="empty list")
        yield Sample((randn(), [0]), name="0-d")
        yield Sample((randn(40, 33, dtype=torch.bfloat16), [0]), name="bfloat16")
        yield from extra

    return make


def whole() -> Iterator[Sample]:
    yield Sample((randn(*ODD),))
    yield Sample((randn(),), name="0-d")
    yield Sample((bools(4, 5),), name="bool")


def floats() -> Iterator[Sample]:
    yield from (s for s in whole() if s.name != "bool")


def truths(*rest: Any) -> Callable[[], Iterator[Sample]]:
    return lambda: iter([Sample((bools(4, 5), *rest)), Sample((randn(4, 5).round(), *rest), name="float")])


def variances() -> Iterator[Sample]:
    yield Sample((randn(*ODD), [-1]), {"correction": 0})
    yield Sample((randn(*ODD), [1, 2]), {"correction": 1, "keepdim": True}, "two, keepdim")
    yield Sample((randn(*ODD),), name="all")
    yield Sample((randn(4, 40, dtype=torch.bfloat16), [1]), name="bfloat16")
    yield Sample((randn(4, 1), [1]), name="too few elements")


SUM_EXTRA = (
    Sample((bools(4, 5), [1]), name="bool counts"),
    Sample((ints(4, 5), [1]), name="int64"),
    Sample((randn(4, 5), [1]), {"dtype": torch.bfloat16}, "dtype"),
)

OPS = [
    Op(
        "aten.sum.dim_IntList",
        lower_sum,
        samples=dims(extra=(*SUM_EXTRA, Sample((randn(*ODD), None), name="None"))),
    ),
    Op("aten.sum.default", lower_sum, samples=whole),
    Op(
        "aten.mean.dim",
        lower_mean,
        samples=dims(extra=(Sample((bools(4, 5), [1]), {"dtype": torch.float32}, "dtype"),)),
    ),
    Op("aten.mean.default", lower_mean, samples=floats),
    Op(
        "aten.amax.default",
        extremum("ttnn.max"),
        samples=dims(extra=(Sample((bools(4, 5).long(), [1]), name="int64"),)),
    ),
    Op("aten.amin.default", extremum("ttnn.min"), samples=dims()),
    Op("aten.max.default", extremum("ttnn.max"), samples=whole),
    Op("aten.min.default", extremum("ttnn.min"), samples=whole),
    Op("aten.any.default", truth("ttnn.max"), samples=truths()),
    Op("aten.any.dim", truth("ttnn.max"), samples=truths(-1, True)),
    Op("aten.any.dims", truth("ttnn.max"), samples=truths([0, 1])),
    Op("aten.all.default", truth("ttnn.min"), samples=truths()),
    Op("aten.all.dim", truth("ttnn.min"), samples=truths(0)),
    Op("aten.var.correction", lower_var, samples=variances),
    Op("aten.var_mean.correction", lower_var_mean, samples=variances),
]
