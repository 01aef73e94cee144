"""Running sums, positions of extremes, order, products: ops that walk along one dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from proveout.ops.reduce import reduced
from proveout.ops.samples import ODD, bools, each, ints, randn, uniform
from proveout.ops.table import INT32, WIDE, Builder, Op, Refused, Sample, Value, normal_dim
from proveout.reasons import KERNEL_DTYPE, PRODUCTS_OF_INTEGERS, Kind

SMALLEST = Kind("argmin-of-smallest", "the smallest int32 has no negative, and ttnn has no argmin")


def lower_cumsum(b: Builder, self: Value, dim: int, dtype: str | None = None) -> Value:
    """Summed in float32 where eager gives bfloat16: it rounds only what it writes."""
    x = b.cast(self, b.out.dtype)
    if self.rank == 0:
        return x
    dim = normal_dim(dim, self.rank)
    bounds = None
    if x.range:
        n = x.shape[dim]
        bounds = (min(x.range[0] * n, x.range[0]), max(x.range[1] * n, x.range[1]))
    wide = b.cast(x, WIDE) if x.is_float else x
    return b.cast(b.call("ttnn.cumsum", input=wide, dim=dim, range=bounds), b.out.dtype)


def lower_cumprod(b: Builder, self: Value, dim: int, dtype: str | None = None) -> Value:
    if b.out.dtype not in ("float32", "bfloat16"):
        raise Refused(PRODUCTS_OF_INTEGERS())
    x = b.cast(self, b.out.dtype)
    if self.rank == 0:
        return x
    out = b.call("ttnn.cumprod", input_tensor=b.cast(x, WIDE), dim=normal_dim(dim, self.rank))
    return b.cast(out, b.out.dtype)


def lower_argmax(b: Builder, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The first of equals, and the first NaN before any number, as eager."""
    return _first_largest(b, self, dim)


def lower_argmin(b: Builder, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _first_largest(b, _negated(b, self), dim)


def _negated(b: Builder, x: Value) -> Value:
    """Turns the order around."""
    x = b.cast(x, "int32") if x.dtype == "bool" else x
    if x.is_float:
        return b.call("ttnn.neg", input_tensor=x)
    if x.range is None or x.range[0] > INT32[0]:
        bounds = (-x.range[1], -x.range[0]) if x.range else None
        return b.call("ttnn.neg", input_tensor=x, range=bounds)
    raise Refused(SMALLEST())


def _first_largest(b: Builder, x: Value, dim: int | None, index: int = 0) -> Value:
    """ttnn.argmax looks along the last dimension."""
    wanted = b.outs[index]
    assert wanted is not None
    x = b.cast(x, "int32") if x.dtype == "bool" else x
    if dim is None or x.rank == 0:
        x = b.reshape(x, (math.prod(x.shape),))
        at = 0
    else:
        at = normal_dim(dim, x.rank)
        x = b.permute(x, (*(d for d in range(x.rank) if d != at), at))
    last = x.rank - 1
    largest = b.call(
        "ttnn.argmax", input_tensor=x, dim=last, keepdim=False, gives=wanted.dtype, range=(0, max(x.shape[last] - 1, 0))
    )
    return b.reshape(largest, wanted.shape)


def lower_max_dim(b: Builder, self: Value, dim: int, keepdim: bool = False) -> tuple[Value | None, ...]:
    values = reduced(b, "ttnn.max", self, dim, keepdim, self.range) if b.used(0) else None
    return values, _first_largest(b, self, dim, 1) if b.used(1) else None


def lower_min_dim(b: Builder, self: Value, dim: int, keepdim: bool = False) -> tuple[Value | None, ...]:
    values = reduced(b, "ttnn.min", self, dim, keepdim, self.range) if b.used(0) else None
    return values, _first_largest(b, _negated(b, self), dim, 1) if b.used(1) else None


def lower_prod(
    b: Builder, self: Value, dim: int | None = None, keepdim: bool = False, dtype: str | None = None
) -> Value:
    if b.out.dtype not in ("float32", "bfloat16"):
        raise Refused(PRODUCTS_OF_INTEGERS())
    x = b.cast(b.cast(self, b.out.dtype), WIDE)
    if dim is None or x.rank == 0:
        x, dim = b.reshape(x, (math.prod(x.shape),)), 0
    out = b.call("ttnn.prod", input_tensor=x, dim=normal_dim(dim, x.rank), keepdim=keepdim and self.rank > 0)
    return b.cast(b.reshape(out, b.out.shape), b.out.dtype)


def lower_topk(
    b: Builder, self: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value | None, ...]:
    """Equals come in no order in eager either."""
    return _ordered(b, "ttnn.topk", self, dim, k=k, largest=largest, sorted=sorted)


def lower_sort(b: Builder, self: Value, dim: int = -1, descending: bool = False) -> tuple[Value | None, ...]:
    """Equals come in no order in eager either."""
    return _ordered(b, "ttnn.sort", self, dim, descending=descending)


def lower_sort_stable(
    b: Builder, self: Value, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Value | None, ...]:
    return _ordered(b, "ttnn.sort", self, dim, descending=descending, stable=bool(stable))


def _ordered(b: Builder, kernel: str, self: Value, dim: int, **how: Any) -> tuple[Value, ...]:
    """ttnn orders along the last dimension."""
    if not self.is_float:
        raise Refused(KERNEL_DTYPE(kernel=kernel, wanted=("bfloat16",), dtype=self.dtype))
    x = b.reshape(self, self.shape or (1,))
    at = normal_dim(dim, x.rank)
    order = (*(d for d in range(x.rank) if d != at), at)
    x = b.permute(x, order)
    dtypes, ranges = (self.dtype, "int64"), (None, (0, max(x.shape[-1] - 1, 0)))
    results = b.calls(kernel, input_tensor=x, dim=x.rank - 1, gives=dtypes, ranges=ranges, **how)
    back = [order.index(d) for d in range(x.rank)]
    return tuple(b.reshape(b.permute(v, back), b.out.shape) for v in results)


# ---- samples -----------------------------------------------------------------------------------------------------

BF16 = torch.bfloat16
SPECIAL = torch.tensor([[1.0, math.nan, 3.0, math.nan], [-math.inf, 2.0, 2.0, 1.0], [-math.inf] * 4])


def cumsum_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), 1))
    yield Sample((randn(*ODD), -1), name="negative dim")
    yield Sample((randn(), 0), name="0-d")
    yield Sample((randn(70), 0), name="1-d")
    yield Sample((randn(4, 90, dtype=BF16), 1), name="bfloat16")
    yield Sample((bools(4, 5), 1), name="bool counts")
    yield Sample((ints(4, 5), 0), name="int64")
    yield Sample((randn(4, 5), 0), {"dtype": BF16}, "dtype")
    yield Sample((bools(4, 5), 0), {"dtype": torch.float32}, "bool as float")
    yield Sample((SPECIAL, 1), name="special")
    yield Sample((randn(0, 4), 0), name="no element")


def position_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), 1))
    yield Sample((randn(*ODD), -1, True), name="keepdim")
    yield Sample((randn(*ODD),), name="all")
    yield Sample((randn(*ODD), None, True), name="all, keepdim")
    yield Sample((randn(), 0), name="0-d")
    yield Sample((randn(50), -1), name="1-d")
    yield Sample((SPECIAL, 1), name="NaN, -inf, ties")
    yield Sample((randn(4, 30, dtype=BF16).round(), 1), name="bfloat16 ties")
    yield Sample((ints(4, 5), 1), name="int64")
    yield Sample((ints(4, 5, dtype=torch.int32), 1), name="int32")


def extreme_samples() -> Iterator[Sample]:
    for sample in position_samples():
        if "all" not in sample.name:
            yield sample
    yield Sample((bools(4, 5), 1), name="bool")


def order_samples(*k: int) -> Callable[[], Iterator[Sample]]:
    def make() -> Iterator[Sample]:
        yield Sample((randn(4, 9), *k))
        yield Sample((randn(4, 9, dtype=BF16), *k, -2), name="bfloat16, inner")
        yield Sample((randn(2, 3, 40, dtype=BF16), *k, -1, *([False] if k else [True])), name="the other way")
        yield Sample((SPECIAL.to(BF16), *k), name="NaN, -inf, ties")
        yield Sample((ints(4, 9), *k), name="int64")
        if not k:
            yield Sample((randn(dtype=BF16),), name="0-d")
            yield Sample((randn(99, dtype=BF16).round(),), name="ties")

    return make


PROD_DIM = each(
    Sample((randn(*ODD), 1)),
    Sample((randn(*ODD), -1, True), name="keepdim"),
    Sample((randn(), 0), name="0-d"),
    Sample((uniform(4, 9, low=0.5, high=1.5, dtype=BF16), 1), name="bfloat16"),
    Sample((ints(4, 5), 1), name="int64"),
    Sample((bools(4, 5), 1), {"dtype": torch.float32}, "dtype"),
)

OPS = [
    Op("aten.cumsum.default", lower_cumsum, samples=cumsum_samples),
    Op(
        "aten.cumprod.default",
        lower_cumprod,
        samples=each(
            Sample((randn(*ODD), 1)),
            Sample((randn(), -1), name="0-d"),
            Sample((uniform(4, 9, low=0.5, high=1.5, dtype=BF16), 1), name="bfloat16"),
            Sample((bools(4, 5), 0), name="bool"),
            Sample((SPECIAL, 1), name="special"),
        ),
    ),
    Op("aten.argmax.default", lower_argmax, samples=position_samples),
    Op("aten.argmin.default", lower_argmin, samples=position_samples),
    Op("aten.max.dim", lower_max_dim, samples=extreme_samples),
    Op("aten.min.dim", lower_min_dim, samples=extreme_samples),
    Op("aten.topk.default", lower_topk, samples=order_samples(3)),
    Op("aten.sort.default", lower_sort, samples=order_samples()),
    Op(
        "aten.sort.stable",
        lower_sort_stable,
        samples=each(
            Sample((randn(4, 9, dtype=BF16).round(),), {"stable": True, "dim": 0}),
            Sample((randn(4, 9, dtype=BF16).round(),), {"stable": False, "descending": True}, "descending"),
        ),
    ),
    Op("aten.prod.dim_int", lower_prod, samples=PROD_DIM),
    Op(
        "aten.prod.default",
        lower_prod,
        samples=each(
            Sample((randn(2, 3, 4),)), Sample((randn(),), name="0-d"), Sample((randn(3, dtype=BF16),), name="bfloat16")
        ),
    ),
]
