"""Reading by index. Eager's indices count from the end where negative; the chip's are uint32."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import torch

from proveout.ops.samples import ODD, bools, each, ints, randn
from proveout.ops.shape import cut
from proveout.ops.table import Builder, Op, Range, Refused, Sample, Value, normal_dim
from proveout.program import Name
from proveout.reasons import NO_ELEMENTS, SHAPE_FIX, Kind

NO_INDEX = Kind("index-none", "an index of nothing but None")
MASK_INDEX = Kind("index-mask", "a {dtype} mask gives as many rows as it has ones, known only when it runs", SHAPE_FIX)
INDEX_INTO_NOTHING = Kind("index-into-nothing", "an index into a dimension of no element", NO_ELEMENTS.fix)
INDEX_OUTSIDE = Kind("index-outside", "an index outside a dimension of {size}")

MOST_SLICES = 2
"""That are put together instead of looked up row by row."""

Ints = Sequence[int]
Indices = Sequence[Value | None]


def lower_index(b: Builder, self: Value, indices: Indices) -> Value:
    """The indexed dimensions become one, and the indices one number each: a lookup along a single dimension."""
    indexed = [(d, index) for d, index in enumerate(indices) if index is not None]
    if len(indexed) == 1 and self.shape[indexed[0][0]] and _known_line(indexed[0][1]):
        dim, index = indexed[0]
        return take(b, self, dim, from_front(b, index, self.shape[dim]).constant.tolist())
    place = place_of(b, self, indices)
    x = b.reshape(b.permute(self, place.order), place.flat)
    picked = b.reshape(lookup(b, x, place.index), (*place.lead, *place.index_shape, *place.trail))
    return b.reshape(picked, b.out.shape)


def lower_index_select(b: Builder, self: Value, dim: int, index: Value) -> Value:
    """A negative index is an error here, as in eager."""
    x = b.reshape(self, (1,)) if self.rank == 0 else self
    dim = normal_dim(dim, x.rank)
    if _known_line(index) and int(index.constant.min()) >= 0:
        return b.reshape(take(b, x, dim, index.constant.tolist()), b.out.shape)
    flat = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    rows = b.reshape(bounded(index, (0, x.shape[dim] - 1)), (math.prod(index.shape),))
    return b.reshape(lookup(b, b.reshape(x, flat), rows), b.out.shape)


def lower_gather(b: Builder, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if 0 in index.shape:
        raise Refused(NO_ELEMENTS())
    row = (1,) * (2 - self.rank)  # ttnn.gather takes two dimensions or more
    shape = (*row, *index.shape)
    x = b.reshape(self, (*row, *self.shape))
    dim = normal_dim(dim, self.rank) + len(row) if self.rank else 1
    places = b.as_indices(b.reshape(bounded(index, (0, x.shape[dim] - 1)), shape))
    out = b.call("ttnn.gather", input=x, dim=dim, index=places, range=self.range)
    return b.reshape(out, b.out.shape)


def lower_flip(b: Builder, self: Value, dims: Ints) -> Value:
    x = self
    for dim in {normal_dim(d, self.rank) for d in dims} if self.rank else ():
        x = take(b, x, dim, range(x.shape[dim])[::-1])
    return x


def lower_diagonal(b: Builder, self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Of the matrices in two dimensions, each flattened: a strided slice."""
    i, j = normal_dim(dim1, self.rank), normal_dim(dim2, self.rank)
    rest = [d for d in range(self.rank) if d not in (i, j)]
    columns, num = self.shape[j], b.out.shape[-1]
    start = offset if offset >= 0 else -offset * columns
    lead = tuple(self.shape[d] for d in rest)
    x = b.reshape(b.permute(self, (*rest, i, j)), (*lead, self.shape[i] * columns))
    if num == 0:
        return cut(b, x, len(lead), 0, 0)
    return cut(b, x, len(lead), start, start + (num - 1) * (columns + 1) + 1, columns + 1)


def lower_unfold(b: Builder, self: Value, dimension: int, size: int, step: int) -> Value:
    """Windows side by side, then each in a dimension of its own, which eager puts last."""
    x = b.reshape(self, self.shape or (1,))
    dim = normal_dim(dimension, x.rank)
    num = b.out.shape[dim] if self.rank else 1
    x = take(b, x, dim, [w * step + i for w in range(num) for i in range(size)])
    split = b.reshape(x, (*x.shape[:dim], num, size, *x.shape[dim + 1 :]))
    order = [d for d in range(split.rank) if d != dim + 1]
    return b.reshape(b.permute(split, (*order, dim + 1)), b.out.shape)


def lookup(b: Builder, x: Value, index: Value) -> Value:
    """x[:, index, :]. A bfloat16 table is looked up whole rows at a time; otherwise each element has its own index."""
    lead, _, trail = x.shape
    num = index.shape[0]
    index = b.reshape(index, (1, num))
    rows = index if index.dtype == "uint32" else b.as_indices(index)
    if lead == 1:
        table = b.reshape(x, x.shape[1:])
        if b.refuses("ttnn.embedding", input_tensor=rows, weight=table) is None:
            tile = Name("ttnn.TILE_LAYOUT")
            return b.call("ttnn.embedding", input_tensor=rows, weight=table, layout=tile, gives=x.dtype, range=x.range)
    places = b.expand(b.reshape(rows, (1, num, 1)), (lead, num, trail))
    return b.call("ttnn.gather", input=x, dim=1, index=places, range=x.range)


def take(b: Builder, x: Value, dim: int, positions: Ints) -> Value:
    """x at positions along one dimension that are known now: a slice or two put together (`torch.roll`), a
    repetition, or a lookup."""
    where, size = list(positions), x.shape[dim]
    num = len(where)
    step = where[1] - where[0] if num > 1 else 1
    if num and step > 0 and where == list(range(where[0], where[-1] + 1, step)):
        return cut(b, x, dim, where[0], where[-1] + 1, step)
    shape = (*x.shape[:dim], num, *x.shape[dim + 1 :])
    times = num // size if size else 0
    if num and where == [i // times for i in range(size * times)]:
        apart = b.reshape(x, (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]))
        return b.reshape(b.expand(apart, (*x.shape[: dim + 1], times, *x.shape[dim + 1 :])), shape)
    starts = [i for i in range(num) if i == 0 or where[i] != where[i - 1] + 1]
    if x.is_float and 0 < len(starts) <= MOST_SLICES:
        ends = [where[i - 1] + 1 for i in [*starts[1:], num]]
        slices = tuple(cut(b, x, dim, where[i], end) for i, end in zip(starts, ends))
        return b.call("ttnn.concat", tensors=slices, dim=dim, range=x.range)
    flat = b.reshape(x, (math.prod(x.shape[:dim]), size, math.prod(x.shape[dim + 1 :])))
    return b.reshape(lookup(b, flat, b.constant(torch.tensor(where))), shape)


# ---- where indices point -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class IndexPlace:
    """An advanced index as one index along one dimension of a [lead, size, trail] tensor."""

    order: tuple[int, ...]
    """The permutation that brings the indexed dimensions together."""
    flat: tuple[int, int, int]
    lead: tuple[int, ...]
    trail: tuple[int, ...]
    index: Value
    """1-d, each element from 0 to the size."""
    index_shape: tuple[int, ...]


def place_of(b: Builder, x: Value, indices: Indices) -> IndexPlace:
    indexed = {d: index for d, index in enumerate(indices) if index is not None}
    if not indexed:
        raise Refused(NO_INDEX())
    for index in indexed.values():
        if index.dtype in ("bool", "uint8"):
            raise Refused(MASK_INDEX(dtype=index.dtype))
    dims = list(indexed)
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    first = dims[0] if adjacent else 0
    others = [d for d in range(x.rank) if d not in indexed]
    order = (*others[:first], *dims, *others[first:])
    lead, trail = (tuple(x.shape[d] for d in part) for part in (others[:first], others[first:]))
    shape = torch.broadcast_shapes(*(index.shape for index in indexed.values()))
    size = math.prod(x.shape[d] for d in dims)
    linear: Value | None = None
    stride = size
    for dim, index in indexed.items():
        if x.shape[dim] == 0:
            raise Refused(INDEX_INTO_NOTHING())
        stride //= x.shape[dim]
        term = _scaled(b, from_front(b, index, x.shape[dim]), stride)
        linear = term if linear is None else _added(b, linear, term)
    assert linear is not None
    number = b.reshape(b.expand(linear, shape), (math.prod(shape),))
    return IndexPlace(order, (math.prod(lead), size, math.prod(trail)), lead, trail, number, tuple(shape))


def from_front(b: Builder, index: Value, size: int) -> Value:
    """Indices counted from the front. Eager raises for one outside [-size, size), so that they lie inside is known."""
    if index.constant is not None:
        known = index.constant.to(torch.int64)
        known = torch.where(known < 0, known + size, known)
        if known.numel() and not (int(known.min()) >= 0 and int(known.max()) < size):
            raise Refused(INDEX_OUTSIDE(size=size))
        return b.constant(known)
    if index.range is not None and index.range[0] >= 0:
        return bounded(index, (0, size - 1))
    bounded_index = bounded(index, (-size, size - 1))
    negative = b.call("ttnn.lt", input_tensor_a=bounded_index, input_tensor_b=0, dtype=b.dtype("bool"), gives="bool")
    wrapped = b.call("ttnn.add", input_tensor_a=bounded_index, input_tensor_b=size, range=(0, 2 * size - 1))
    return b.call(
        "ttnn.where",
        predicate=negative,
        true_value=wrapped,
        false_value=bounded_index,
        gives=index.dtype,
        range=(0, size - 1),
    )


def bounded(index: Value, bounds: Range) -> Value:
    """The same value with the bounds that the lookup itself enforces."""
    return index if index.constant is not None else dataclasses.replace(index, range=bounds)


def _known_line(index: Value) -> bool:
    known = index.constant
    return known is not None and index.rank == 1 and known.numel() > 0 and known.dtype in (torch.int64, torch.int32)


def _scaled(b: Builder, index: Value, stride: int) -> Value:
    if stride == 1:
        return index
    if index.constant is not None:
        return b.constant(index.constant * stride)
    assert index.range is not None
    bounds = (0, index.range[1] * stride)
    return b.call("ttnn.multiply", input_tensor_a=index, input_tensor_b=stride, range=bounds)


def _added(b: Builder, x: Value, y: Value) -> Value:
    if x.constant is not None and y.constant is not None:
        return b.constant(x.constant + y.constant)
    x, y = (b.cast(v, "int32") if x.dtype != y.dtype else v for v in (x, y))
    assert x.range is not None
    assert y.range is not None
    bounds = (0, x.range[1] + y.range[1])
    return b.call("ttnn.add", input_tensor_a=x, input_tensor_b=y, range=bounds)


# ---- samples -----------------------------------------------------------------------------------------------------


X = randn
BF16 = torch.bfloat16


def at(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def index_samples() -> Iterator[Sample]:
    yield Sample((X(*ODD), [at(1, 0, 1)]))
    yield Sample((X(*ODD), [None, at(2, 0, 1, 1)]), name="inner")
    yield Sample((X(*ODD), [None, None, None, at(-1, 3, -7)]), name="negative")
    yield Sample((X(*ODD), [None, at(0, 2), at(4, -1)]), name="two adjacent")
    yield Sample((X(*ODD), [at(0, 1), None, at(4, 1)]), name="two apart")
    yield Sample((X(*ODD), [at(0, 1).view(2, 1), at(0, 1, 2)]), name="broadcast")
    yield Sample((X(*ODD), [None, torch.tensor(2)]), name="0-d")
    yield Sample((X(9, 5), [ints(3, 4, low=0, high=9)]), name="2-d")
    yield Sample((X(9, 5), [at(3, -2).int()]), name="int32")
    yield Sample((X(9, 5, dtype=BF16), [at(3, 8, 3)]), name="bfloat16")
    yield Sample((bools(4, 5), [at(3, 0)]), name="bool")
    yield Sample((ints(4, 5), [at(3, 0)]), name="int64")
    yield Sample((X(4, 5), [torch.zeros(0, dtype=torch.int64)]), name="no element")
    yield Sample((torch.tensor([[1.0, math.nan], [-math.inf, 2.0]]), [at(1, 0)]), name="special")


def select_samples() -> Iterator[Sample]:
    yield Sample((X(*ODD), 1, at(2, 0, 2)))
    yield Sample((X(*ODD), -1, at(6, 5)), name="negative dim")
    yield Sample((X(*ODD), -1, at(*range(5, 7), *range(5))), name="rolled")
    yield Sample((X(9, 4, dtype=BF16), 0, at(8, 1, 1)), name="bfloat16")
    yield Sample((X(), 0, at(0)), name="0-d")
    yield Sample((X(5), 0, torch.tensor(3)), name="0-d index")
    yield Sample((bools(4, 5), 1, at(3, 0).int()), name="bool, int32 index")


def gather_samples() -> Iterator[Sample]:
    yield Sample((X(4, 5), 1, ints(4, 9, low=0, high=5)))
    yield Sample((X(4, 5), -2, ints(2, 3, low=0, high=4)), name="smaller index")
    yield Sample((X(4, 5, dtype=BF16), 0, ints(6, 5, low=0, high=4)), name="bfloat16")
    yield Sample((X(), 0, torch.tensor(0)), name="0-d")
    yield Sample((X(2, 3, 4, 5), 2, ints(2, 3, 2, 5, low=0, high=4)), name="4-d")
    yield Sample((X(4, 5), 1, torch.zeros(4, 0, dtype=torch.int64)), name="no element")
    yield Sample((bools(4, 5), 1, ints(4, 2, low=0, high=5)), name="bool")


OPS = [
    *(Op(name, lower_index, samples=index_samples) for name in ("aten.index.Tensor", "aten._unsafe_index.Tensor")),
    Op("aten.index_select.default", lower_index_select, samples=select_samples),
    Op("aten.gather.default", lower_gather, samples=gather_samples),
    Op(
        "aten.flip.default",
        lower_flip,
        samples=each(
            Sample((X(*ODD), [0, -1])),
            Sample((X(5, dtype=BF16), [0]), name="1-d bfloat16"),
            Sample((X(), []), name="0-d"),
            Sample((bools(4, 5), [1]), name="bool"),
            Sample((X(4, 1), [1]), name="one column"),
        ),
    ),
    Op(
        "aten.diagonal.default",
        lower_diagonal,
        samples=each(
            Sample((X(5, 7),)),
            Sample((X(*ODD), 1, 1, -1), name="offset"),
            Sample((X(*ODD), -2, 3, 2), name="below, swapped"),
            Sample((X(4, 5), 5), name="no element"),
            Sample((X(1, 5), 3), name="one"),
        ),
    ),
    Op(
        "aten.unfold.default",
        lower_unfold,
        samples=each(
            Sample((X(3, 8), 1, 4, 2)),
            Sample((X(3, 8, 2), -2, 3, 3), name="apart"),
            Sample((X(3, 8), 0, 2, 1), name="overlapping"),
            Sample((X(), 0, 1, 1), name="0-d"),
        ),
    ),
]
