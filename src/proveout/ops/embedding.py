"""Looking rows up in a table, one by one or summed up in bags."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import torch

from proveout.ops.indexing import lookup
from proveout.ops.samples import ints, randn
from proveout.ops.shape import cut
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.reasons import NO_ELEMENTS, SCATTER, Kind

KEPT_FOR_GRADIENT = Kind("bag-gradient", "what an embedding bag keeps for its gradient differs between eager's paths")


def lower_embedding(
    b: Builder,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """The last three arguments matter to the backward alone. An index outside the table is an error, as in eager."""
    rows = b.reshape(b.as_indices(indices), (math.prod(indices.shape),))
    return b.reshape(lookup(b, b.reshape(weight, (1, *weight.shape)), rows), b.out.shape)


SUM, MEAN, MAX = range(3)


def lower_embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value | None, ...]:
    """Rows are added up at the number of their bag: how many bags begin at or before a row, less one. In float32, as
    eager has it inside."""
    if any(b.used(i) for i in (1, 2, 3)):
        raise Refused(KEPT_FOR_GRADIENT())
    if mode == MAX:
        raise Refused(SCATTER(reduce="max"))
    (num,), width, num_bags = indices.shape, weight.shape[1], b.out.shape[0]
    if not num or not num_bags:
        raise Refused(NO_ELEMENTS())
    rows = b.as_indices(indices)
    vectors = b.cast(lookup(b, b.reshape(weight, (1, *weight.shape)), rows), WIDE)
    vectors = b.reshape(vectors, (num, width))
    starts = dataclasses.replace(offsets, range=(0, num))
    starts = b.reshape(cut(b, starts, 0, 0, num_bags) if include_last_offset else starts, (num_bags, 1))
    place = b.constant(torch.arange(num, dtype=getattr(torch, offsets.dtype)).reshape(1, num))
    begun = b.call("ttnn.le", input_tensor_a=starts, input_tensor_b=place, dtype=b.dtype("bool"), gives="bool")
    begun = b.cast(begun, "int32")
    begun = b.call("ttnn.sum", input_tensor=begun, dim=(0,), keepdim=False, range=(1, num_bags))
    bag = b.call("ttnn.subtract", input_tensor_a=begun, input_tensor_b=1, range=(0, num_bags - 1))
    factor = None if per_sample_weights is None else b.reshape(b.cast(per_sample_weights, WIDE), (num, 1))
    if factor is not None:
        vectors = b.call("ttnn.multiply", input_tensor_a=vectors, input_tensor_b=factor)
    counted = b.expand(b.cast(b.constant(torch.ones(())), WIDE), (num, 1))
    if padding_idx >= 0:
        bounded = dataclasses.replace(indices, range=(0, weight.shape[0] - 1))
        skipped = b.call(
            "ttnn.eq", input_tensor_a=bounded, input_tensor_b=padding_idx, dtype=b.dtype("bool"), gives="bool"
        )
        skipped = b.reshape(skipped, (num, 1))
        vectors, counted = (
            b.call("ttnn.where", predicate=skipped, true_value=0.0, false_value=v, gives=v.dtype)
            for v in (vectors, counted)
        )
    out = _in_bags(b, vectors, bag, num_bags)
    if mode == MEAN:
        sizes = b.call("ttnn.clamp", input_tensor=_in_bags(b, counted, bag, num_bags), min=1.0)
        out = b.call("ttnn.div", input_tensor_a=out, input_tensor_b=sizes)
    return b.cast(out, b.out.dtype), None, None, None


def _in_bags(b: Builder, rows: Value, bag: Value, num_bags: int) -> Value:
    num, width = rows.shape
    empty = b.expand(b.cast(b.constant(torch.zeros(())), WIDE), (num_bags, width))
    index = b.as_indices(b.expand(b.reshape(bag, (num, 1)), (num, width)))
    return b.call("ttnn.scatter_add", input=empty, dim=0, index=index, src=rows)


def samples() -> Iterator[Sample]:
    yield Sample((randn(20, 33), ints(2, 7, low=0, high=20)))
    yield Sample((randn(20, 33, dtype=torch.bfloat16), ints(2, 7, low=0, high=20)), name="bfloat16")
    yield Sample((randn(20, 32, dtype=torch.bfloat16), ints(5, low=0, high=20), 3), name="1-d, padding_idx")
    yield Sample(
        (randn(20, 8, dtype=torch.bfloat16), ints(2, 3, 4, low=0, high=20, dtype=torch.int32)),
        name="3-d int32",
    )
    yield Sample((randn(20, 8, dtype=torch.bfloat16), torch.tensor(4)), name="0-d")


def bag_samples() -> Iterator[Sample]:
    def case(name: str, mode: int, **options: Any) -> Sample:
        starts = options.pop("starts", [0, 3, 3, 7])
        table = options.pop("table", randn(20, 6))
        args = (table, ints(9, low=0, high=20), torch.tensor(starts), False, mode, False)
        rest = (options.get("weights"), options.get("last", False), options.get("padding", -1))
        return Sample((*args, *rest), name=name)

    yield case("sum, an empty bag", SUM)
    yield case("mean", MEAN)
    yield case("max", MAX)
    yield case("weighted", SUM, weights=randn(9))
    yield case("last offset", MEAN, starts=[0, 2, 9], last=True)
    yield case("padding", MEAN, padding=int(ints(9, low=0, high=20)[0]))
    yield case("bfloat16", SUM, table=randn(20, 6, dtype=torch.bfloat16))
    special = randn(20, 6)
    special[int(ints(9, low=0, high=20)[0])] = math.inf
    yield case("an infinite row stays in its bag", SUM, table=special)


OPS = [
    Op("aten.embedding.default", lower_embedding, samples=samples),
    Op("aten._embedding_bag.default", lower_embedding_bag, samples=bag_samples),
    Op("aten._embedding_bag_forward_only.default", lower_embedding_bag, samples=bag_samples),
]
