"""Writing by index: at places, over slices, where a mask is set, and with several writes to a place combined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from proveout.ops.indexing import Indices, at, bounded, lookup, place_of, take
from proveout.ops.pointwise import lower_where
from proveout.ops.samples import ODD, bools, each, ints, randn
from proveout.ops.shape import cut
from proveout.ops.table import Builder, Op, Refused, Sample, Value, normal_dim
from proveout.reasons import NO_ELEMENTS, PRODUCTS_OF_INTEGERS, SCATTER, Kind

ADDITION_ROUNDING = Kind(
    "index-put-rounding", "eager rounds to bfloat16 after each addition, ttnn.scatter_add after the last"
)
SUM_OF_BOOLS = Kind("scatter-bools", "a sum of bools is a bool in eager and a number on the chip")
REDUCE_ROUNDING = Kind("scatter-rounding", "eager rounds to bfloat16 after each step, in an order of its own")
REDUCED_INTEGERS = Kind("scatter-integers", "a {reduce} of integers is rounded down, or leaves 32 bits soon")

Ints = Sequence[int]


def lower_index_put(b: Builder, self: Value, indices: Indices, values: Value, accumulate: bool = False) -> Value:
    """Two writes to one place without `accumulate` are in no order in eager either."""
    if accumulate and self.dtype == "bfloat16":
        raise Refused(ADDITION_ROUNDING())
    place = place_of(b, self, indices)
    x = b.reshape(b.permute(self, place.order), place.flat)
    wanted = (*place.lead, *place.index_shape, *place.trail)
    source = b.expand(b.cast(values, self.dtype), wanted)
    source = b.reshape(source, (place.flat[0], *place.index.shape, place.flat[2]))
    out = _write(b, x, 1, place.index, source, "add" if accumulate else None)
    out = b.reshape(out, [self.shape[d] for d in place.order])
    return b.permute(out, [place.order.index(d) for d in range(self.rank)])


def lower_scatter(b: Builder, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(b, self, dim, index, src, reduce=None)


def lower_scatter_value(b: Builder, self: Value, dim: int, index: Value, value: float) -> Value:
    number = b.constant(torch.full((), value, dtype=getattr(torch, self.dtype)))
    return _scattered(b, self, dim, index, b.expand(number, index.shape), reduce=None)


def lower_scatter_add(b: Builder, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(b, self, dim, index, src, reduce="add")


def lower_scatter_combined(b: Builder, self: Value, dim: int, index: Value, src: Value, reduce: str) -> Value:
    if reduce == "multiply" and not self.is_float:
        raise Refused(PRODUCTS_OF_INTEGERS())
    return _scattered(b, self, dim, index, src, reduce)


def lower_scatter_value_combined(b: Builder, self: Value, dim: int, index: Value, value: float, reduce: str) -> Value:
    number = b.constant(torch.full((), value, dtype=getattr(torch, self.dtype)))
    return lower_scatter_combined(b, self, dim, index, b.expand(number, index.shape), reduce)


def _scattered(b: Builder, self: Value, dim: int, index: Value, src: Value, reduce: str | None) -> Value:
    """Eager reads as much of the source as the index is large."""
    if 0 in index.shape:
        return self
    x = b.reshape(self, self.shape or (1,))
    source = b.reshape(src, src.shape or (1,))
    index = b.reshape(bounded(index, (0, x.shape[normal_dim(dim, x.rank)] - 1)), index.shape or (1,))
    for d, size in enumerate(index.shape):
        source = cut(b, source, d, 0, size)
    return b.reshape(_write(b, x, normal_dim(dim, x.rank), index, source, reduce), self.shape)


def _write(b: Builder, x: Value, dim: int, index: Value, source: Value, reduce: str | None) -> Value:
    if index.rank != x.rank:
        index = b.expand(b.reshape(index, (1, *index.shape, 1)), source.shape)
    if reduce and x.dtype == "bool":
        raise Refused(SUM_OF_BOOLS())
    places = b.as_indices(index)
    if reduce == "multiply":
        return b.call("ttnn.scatter", input=x, dim=dim, index=places, src=source, reduce=reduce)
    bounds = None
    if x.range and source.range:
        times = math.prod(source.shape) if reduce else 1
        low, high = (min(source.range[0] * times, 0), max(source.range[1] * times, 0))
        bounds = (
            (x.range[0] + low, x.range[1] + high)
            if reduce
            else (min(x.range[0], source.range[0]), max(x.range[1], source.range[1]))
        )
    kernel = "ttnn.scatter_add" if reduce else "ttnn.scatter"
    return b.call(kernel, input=x, dim=dim, index=places, src=source, range=bounds)


def lower_masked_scatter(b: Builder, self: Value, mask: Value, source: Value) -> Value:
    """The n-th place that the mask names takes the source's n-th element: a running count says which n."""
    shape = b.out.shape
    num, num_source = math.prod(shape), math.prod(source.shape)
    if not num or not num_source:
        raise Refused(NO_ELEMENTS())
    named = b.reshape(b.expand(mask, shape), (num,))
    seen = b.call("ttnn.cumsum", input=b.cast(named, "int32"), dim=0, gives="int32", range=(0, num))
    n = b.call("ttnn.subtract", input_tensor_a=seen, input_tensor_b=1, range=(-1, num - 1))
    n = b.call("ttnn.clamp", input_tensor=n, min=0, range=(0, num_source - 1))
    taken = lookup(b, b.reshape(source, (1, num_source, 1)), n)
    return lower_where(b, mask, b.reshape(taken, shape), b.expand(self, shape))


REDUCTIONS = {"sum": "add", "mean": "add", "prod": "multiply"}
"""ATen's names for what ttnn.scatter calls otherwise; it has no amax and no amin."""


def lower_scatter_reduce(
    b: Builder, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    """What is not to be included is first replaced by what changes nothing, where it is written to."""
    if reduce not in REDUCTIONS:
        raise Refused(SCATTER(reduce=reduce))
    if self.dtype == "bfloat16":
        raise Refused(REDUCE_ROUNDING())
    if not self.is_float and reduce != "sum":
        raise Refused(REDUCED_INTEGERS(reduce=reduce))
    if 0 in index.shape:
        return self
    neutral = 1 if reduce == "prod" else 0
    start = self if include_self else lower_scatter_value(b, self, dim, index, neutral)
    total = _scattered(b, start, dim, index, src, REDUCTIONS[reduce])
    if reduce != "mean":
        return total
    ones = b.expand(b.constant(torch.ones(())), index.shape)
    count = b.expand(b.constant(torch.full((), float(include_self))), self.shape)
    count = _scattered(b, count, dim, index, ones, "add")
    if not include_self:
        count = b.call("ttnn.clamp", input_tensor=count, min=1.0)
    return b.call("ttnn.div", input_tensor_a=total, input_tensor_b=count)


def lower_slice_scatter(
    b: Builder,
    self: Value,
    src: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    dim = normal_dim(dim, self.rank)
    size = self.shape[dim]
    begin, stop, _ = slice(start, end, step).indices(size)
    written = range(begin, max(begin, stop), step)
    if not written:
        return self
    source = b.expand(b.cast(src, self.dtype), (*self.shape[:dim], len(written), *self.shape[dim + 1 :]))
    if step == 1:
        return _spliced(b, self, source, dim, begin)
    positions = [size + written.index(i) if i in written else i for i in range(size)]
    return take(b, _joined(b, [self, source], dim), dim, positions)


def lower_select_scatter(b: Builder, self: Value, src: Value, dim: int, index: int) -> Value:
    dim = normal_dim(dim, self.rank)
    row = (*self.shape[:dim], 1, *self.shape[dim + 1 :])
    source = b.reshape(b.expand(b.cast(src, self.dtype), (*row[:dim], *row[dim + 1 :])), row)
    return _spliced(b, self, source, dim, index % self.shape[dim])


def _spliced(b: Builder, x: Value, source: Value, dim: int, begin: int) -> Value:
    size, stop = x.shape[dim], begin + source.shape[dim]
    before = [cut(b, x, dim, 0, begin)] if begin else []
    after = [cut(b, x, dim, stop, size)] if stop < size else []
    return _joined(b, [*before, source, *after], dim)


def _joined(b: Builder, parts: list[Value], dim: int) -> Value:
    if len(parts) == 1:
        return parts[0]
    known = [p.range for p in parts]
    bounds = (min(r[0] for r in known if r), max(r[1] for r in known if r)) if all(known) else None
    return b.call("ttnn.concat", tensors=tuple(parts), dim=dim, range=bounds)


# ---- samples -----------------------------------------------------------------------------------------------------


X = randn
BF16 = torch.bfloat16


def put_samples() -> Iterator[Sample]:
    yield Sample((X(*ODD), [at(1)], X(1, 3, 5, 7)))
    yield Sample((X(*ODD), [None, None, at(4, 0)], X(2, 3, 2, 7)), name="a cache")
    yield Sample((X(*ODD), [None, None, at(4, -3)], torch.tensor(2.0)), name="negative, one number")
    yield Sample((X(*ODD), [at(0, 1), None, at(4, 1)], X(2, 3, 7)), name="apart")
    yield Sample((X(6, 5), [at(2, 2, 0)], X(3, 5), True), name="accumulate")
    yield Sample((X(6, 5), [at(2, 1, 0), at(-1, 0, 2)], X(3), True), name="accumulate two")
    yield Sample((X(6, 5, dtype=BF16), [at(2, 1)], X(2, 5, dtype=BF16)), name="bfloat16")
    yield Sample((X(2, 5, dtype=BF16), [ints(40, low=0, high=2)], X(40, 5, dtype=BF16), True), name="rounds each time")
    yield Sample((bools(6, 5), [at(2, 1)], bools(2, 5)), name="bool")


def scatter_samples() -> Iterator[Sample]:
    columns = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(i))[:3] for i in range(4)])
    yield Sample((X(4, 5), 1, columns, X(4, 3)))
    yield Sample((X(4, 5), -1, columns[:2], X(4, 6)), name="larger source")
    yield Sample((X(4, 5, dtype=BF16), 1, columns, X(4, 3, dtype=BF16)), name="bfloat16")
    yield Sample((X(), 0, torch.tensor(0), X(1)[0]), name="0-d")
    yield Sample((X(4, 5), 1, torch.zeros(4, 0, dtype=torch.int64), X(4, 3)), name="no index")
    yield Sample((bools(4, 5).int(), 0, ints(1, 5, low=0, high=4), bools(1, 5).int()), name="int32")


def value_samples() -> Iterator[Sample]:
    for sample in scatter_samples():
        yield Sample((*sample.args[:3], 2), name=sample.name)


def add_samples() -> Iterator[Sample]:
    yield from scatter_samples()
    yield Sample((X(4, 5), 1, ints(4, 9, low=0, high=5), X(4, 9)), name="many into one")


def combined_samples() -> Iterator[Sample]:
    for kind in ("add", "multiply"):
        for sample in scatter_samples():
            yield Sample(sample.args, {"reduce": kind}, f"{kind} {sample.name}")
        many = (X(4, 5), 1, ints(4, 9, low=0, high=5), X(4, 9))
        yield Sample(many, {"reduce": kind}, f"{kind}, many into one")


def combined_value_samples() -> Iterator[Sample]:
    for sample in combined_samples():
        yield Sample((*sample.args[:3], 2), sample.kwargs, sample.name)


def slice_samples() -> Iterator[Sample]:
    yield Sample((X(*ODD), X(2, 3, 2, 7), 2, 1, 3))
    yield Sample((X(*ODD), X(2, 3, 5, 2), -1, -2), name="negative, to the end")
    yield Sample((X(*ODD), X(2, 3, 5, 3), 3, 1, 6, 2), name="step")
    yield Sample((X(*ODD), X(*ODD)), name="all")
    yield Sample((X(*ODD), X(2, 3, 0, 7), 2, 4, 2), name="nothing")
    yield Sample((bools(4, 5), bools(4, 1), 1, 0, 1), name="bool")


def masked_samples() -> Iterator[Sample]:
    yield Sample((X(4, 5), bools(4, 5), X(30)))
    yield Sample((X(4, 5), bools(5), X(4, 5) + 1), name="broadcast")
    yield Sample((X(4, 5), torch.zeros(4, 5, dtype=torch.bool), X(3)), name="nowhere")
    yield Sample((X(4, 5, dtype=BF16), bools(4, 5), X(25, dtype=BF16)), name="bfloat16")
    yield Sample((bools(4, 5), bools(4, 5), ~bools(4, 5)), name="bool")
    yield Sample((ints(4, 5), bools(4, 5), ints(4, 5)), name="int64")
    yield Sample((X(5), bools(2, 1), X(10)), name="self broadcast")


def reduce_samples() -> Iterator[Sample]:
    many = ints(4, 9, low=0, high=5)
    for kind in ("sum", "mean", "prod", "amax"):
        for included in (True, False):
            args = (X(4, 5), 1, many[:, :7], X(4, 9), kind)
            yield Sample(args, {"include_self": included}, f"{kind}{' with self' if included else ''}")
    yield Sample((X(4, 5), -2, ints(6, 5, low=0, high=4), X(6, 5), "sum"), name="negative dim")
    yield Sample((X(4, 5, dtype=BF16), 1, many, X(4, 9, dtype=BF16), "sum"), name="bfloat16")
    yield Sample((ints(4, 5), 1, many, ints(4, 9), "mean"), name="int64")
    yield Sample((bools(4, 5).int(), 1, many, bools(4, 9).int(), "sum"), {"include_self": False}, "int32")
    yield Sample((X(), 0, torch.tensor(0), X(1)[0], "mean"), name="0-d")


OPS = [
    *(
        Op(name, lower_index_put, samples=put_samples)
        for name in ("aten.index_put.default", "aten._unsafe_index_put.default")
    ),
    Op("aten.scatter.src", lower_scatter, samples=scatter_samples),
    Op("aten.scatter.value", lower_scatter_value, samples=value_samples),
    Op("aten.scatter_add.default", lower_scatter_add, samples=add_samples),
    Op("aten.scatter.reduce", lower_scatter_combined, samples=combined_samples),
    Op("aten.scatter.value_reduce", lower_scatter_value_combined, samples=combined_value_samples),
    Op("aten.scatter_reduce.two", lower_scatter_reduce, samples=reduce_samples),
    Op("aten.masked_scatter.default", lower_masked_scatter, samples=masked_samples),
    Op("aten.slice_scatter.default", lower_slice_scatter, samples=slice_samples),
    Op(
        "aten.select_scatter.default",
        lower_select_scatter,
        samples=each(
            Sample((X(*ODD), X(2, 5, 7), 1, 1)),
            Sample((X(*ODD), X(2, 3, 5), -1, -1), name="negative"),
            Sample((X(4), X(), 0, 2), name="1-d"),
            Sample((bools(4, 5), bools(5), 0, 0), name="bool"),
        ),
    ),
]
