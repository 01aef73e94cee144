"""Views, slices, joins and pads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from proveout.ops.samples import ODD, bools, each, ints, randn
from proveout.ops.table import Builder, Op, Refused, Sample, Value, normal_dim
from proveout.reasons import NO_ELEMENTS, Kind

PADDING = Kind("padding-value", "padding {dtype} with {value}")

Ints = Sequence[int]


def lower_reshaped(b: Builder, self: Value, *rest: Any, **arguments: Any) -> Value:
    """Any op that only changes the shape: eager has already worked the new one out."""
    return b.reshape(self, b.out.shape)


def lower_permute(b: Builder, self: Value, dims: Ints) -> Value:
    return b.permute(self, [normal_dim(d, self.rank) for d in dims])


def lower_transpose(b: Builder, self: Value, dim0: int, dim1: int) -> Value:
    dims = list(range(self.rank))
    if dims:
        i, j = normal_dim(dim0, self.rank), normal_dim(dim1, self.rank)
        dims[i], dims[j] = dims[j], dims[i]
    return b.permute(self, dims)


def lower_t(b: Builder, self: Value) -> Value:
    return b.permute(self, range(self.rank)[::-1])


def lower_expand(b: Builder, self: Value, size: Ints, implicit: bool = False) -> Value:
    return b.expand(self, b.out.shape)


def cut(b: Builder, x: Value, dim: int, start: int, end: int, step: int = 1) -> Value:
    """x[…, start:end:step, …] along one dimension; bounds are already inside the tensor."""
    if (start, end, step) == (0, x.shape[dim], 1):
        return x
    starts, ends, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[dim], ends[dim], steps[dim] = start, end, step
    return b.call("ttnn.slice", input_tensor=x, slice_start=starts, slice_end=ends, slice_step=steps, range=x.range)


def lower_slice(
    b: Builder, self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    dim = normal_dim(dim, self.rank)
    begin, stop, _ = slice(start, end, step).indices(self.shape[dim])
    return cut(b, self, dim, begin, max(begin, stop), step)


def lower_select(b: Builder, self: Value, dim: int, index: int) -> Value:
    dim = normal_dim(dim, self.rank)
    index %= self.shape[dim]
    return b.reshape(cut(b, self, dim, index, index + 1), b.out.shape)


def lower_split_sizes(b: Builder, self: Value, split_sizes: Ints, dim: int = 0) -> tuple[Value | None, ...]:
    dim = normal_dim(dim, self.rank)
    pieces: list[Value | None] = []
    start = 0
    for index, size in enumerate(split_sizes):
        pieces.append(cut(b, self, dim, start, start + size) if b.used(index) else None)
        start += size
    return tuple(pieces)


def lower_split(b: Builder, self: Value, split_size: int, dim: int = 0) -> tuple[Value | None, ...]:
    dim = normal_dim(dim, self.rank)
    return lower_split_sizes(b, self, [out.shape[dim] for out in b.outs if out], dim)


def lower_cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Eager skips 1-d tensors without elements, whatever the rank of the others."""
    parts = [b.cast(t, b.out.dtype) for t in tensors if t.shape != (0,)]
    if not parts:
        raise Refused(NO_ELEMENTS())
    known = [t.range for t in parts]
    bounds = (min(r[0] for r in known if r), max(r[1] for r in known if r)) if all(known) else None
    if len(parts) == 1:
        return parts[0]
    return b.call("ttnn.concat", tensors=tuple(parts), dim=normal_dim(dim, b.out.rank), range=bounds)


def lower_pad(b: Builder, self: Value, pad: Ints, value: float = 0) -> Value:
    """Negative padding cuts; what is left to add goes through ttnn.pad, in row-major where it adds at the front."""
    amounts = [(0, 0)] * (self.rank - len(pad) // 2)
    amounts += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    x = self
    for dim, (before, after) in enumerate(amounts):
        if before < 0 or after < 0:
            x = cut(b, x, dim, max(0, -before), x.shape[dim] - max(0, -after))
    padding = tuple((max(0, before), max(0, after)) for before, after in amounts)
    if not any(map(any, padding)):
        return x
    if not x.is_float and (not math.isfinite(value) or value != int(value)):
        raise Refused(PADDING(dtype=x.dtype, value=str(value)))
    bounds = (min(x.range[0], int(value)), max(x.range[1], int(value))) if x.range else None
    if any(before for before, _ in padding):
        x = b.layout(x, "row_major")
    return b.call("ttnn.pad", input_tensor=x, padding=padding, value=float(value), range=bounds)


def lower_repeat(b: Builder, self: Value, repeats: Ints) -> Value:
    x = b.reshape(self, (1,) * (len(repeats) - self.rank) + self.shape)
    if all(r == 1 for r in repeats):
        return x
    return b.call("ttnn.repeat", input_tensor=x, repeat_dims=tuple(repeats), range=x.range)


def view_samples(*shapes: Ints) -> Any:
    def make() -> Iterator[Sample]:
        for shape in shapes:
            yield Sample((randn(*ODD), list(shape)))
        yield Sample((bools(2, 3, 5, 7), list(shapes[0])), name="bool")
        yield Sample((ints(2, 3, 5, 7), list(shapes[0])), name="int64")

    return make


X = randn
OPS = [
    Op(
        "aten.view.default",
        lower_reshaped,
        samples=view_samples((6, 35), (210,), (-1, 5, 7), (2, 3, 5, 7, 1)),
    ),
    Op("aten._unsafe_view.default", lower_reshaped, samples=view_samples((6, 35))),
    Op("aten.reshape.default", lower_reshaped, samples=view_samples((6, 35))),
    Op(
        "aten.unsqueeze.default",
        lower_reshaped,
        samples=each(Sample((X(3, 4), 0)), Sample((X(3, 4), -1)), Sample((X(), 0))),
    ),
    Op("aten.squeeze.default", lower_reshaped, samples=each(Sample((X(1, 3, 1, 4),)), Sample((X(3, 4),)))),
    Op(
        "aten.squeeze.dim",
        lower_reshaped,
        samples=each(Sample((X(1, 3, 1, 4), 2)), Sample((X(1, 3, 4), 1)), Sample((X(), 0))),
    ),
    Op("aten.squeeze.dims", lower_reshaped, samples=each(Sample((X(1, 3, 1, 4), [0, -2])))),
    Op("aten.permute.default", lower_permute, samples=each(Sample((X(*ODD), [0, 2, -1, 1])), Sample((X(), [])))),
    Op(
        "aten.transpose.int",
        lower_transpose,
        samples=each(Sample((X(*ODD), 1, -1)), Sample((X(*ODD), 0, 0)), Sample((X(), 0, -1))),
    ),
    Op("aten.t.default", lower_t, samples=each(Sample((X(3, 5),)), Sample((X(5),)), Sample((X(),)))),
    Op(
        "aten.expand.default",
        lower_expand,
        samples=each(
            Sample((X(3, 1, 5), [3, 4, 5])),
            Sample((X(3, 1), [2, -1, 4])),
            Sample((X(), [2, 3])),
            Sample((bools(1, 4), [3, 4])),
        ),
    ),
    Op(
        "aten.slice.Tensor",
        lower_slice,
        samples=each(
            Sample((X(*ODD), 2, 1, 4)),
            Sample((X(*ODD), -1, -5, -1, 2), name="negative, step"),
            Sample((X(*ODD), 3, 0, 2**63 - 1), name="to the end"),
            Sample((X(*ODD),), name="all"),
            Sample((X(*ODD), 2, 4, 2), name="no element"),
            Sample((ints(4, 8), 1, 2, 6), name="int64"),
        ),
    ),
    Op(
        "aten.select.int",
        lower_select,
        samples=each(Sample((X(*ODD), 1, -1)), Sample((X(5), 0, 2)), Sample((bools(4, 5), 1, 3))),
    ),
    Op(
        "aten.split_with_sizes.default",
        lower_split_sizes,
        samples=each(Sample((X(*ODD), [2, 1, 4], -1)), Sample((X(*ODD), [5, 0], 2))),
    ),
    Op("aten.split.Tensor", lower_split, samples=each(Sample((X(*ODD), 3, -1)), Sample((X(*ODD), 2)))),
    Op(
        "aten.cat.default",
        lower_cat,
        samples=each(
            Sample(([X(*ODD), X(2, 3, 5, 4)], -1)),
            Sample(([X(2, 3), X(4, 3)],)),
            Sample(([X(2, 3), X(0)],), name="empty 1-d"),
            Sample(([X(2, 3), ints(2, 3)], 1), name="mixed dtypes"),
            Sample(([bools(2, 3), bools(2, 3)], 1), name="bool"),
        ),
    ),
    Op(
        "aten.constant_pad_nd.default",
        lower_pad,
        samples=each(
            Sample((X(*ODD), [1, 2])),
            Sample((X(*ODD), [0, 1, 0, 1], -math.inf), name="back only"),
            Sample((X(*ODD), [-1, 2, 1, -2], 3.5), name="negative"),
            Sample((X(*ODD), [-1, -1]), name="cut only"),
            Sample((bools(4, 4), [1, 1], 1), name="bool"),
        ),
    ),
    Op(
        "aten.repeat.default",
        lower_repeat,
        samples=each(Sample((X(3, 4), [2, 1, 3])), Sample((X(3, 4), [1, 1])), Sample((X(), [4]))),
    ),
]
