"""Looking rows up in a table."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.indexing import lookup
from proveout.ops.samples import ints, randn
from proveout.ops.table import Builder, Op, Sample, Value


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


def samples() -> Iterator[Sample]:
    yield Sample((randn(20, 33), ints(2, 7, low=0, high=20)))
    yield Sample((randn(20, 33, dtype=torch.bfloat16), ints(2, 7, low=0, high=20)), name="bfloat16")
    yield Sample((randn(20, 32, dtype=torch.bfloat16), ints(5, low=0, high=20), 3), name="1-d, padding_idx")
    yield Sample(
        (randn(20, 8, dtype=torch.bfloat16), ints(2, 3, 4, low=0, high=20, dtype=torch.int32)),
        name="3-d int32",
    )
    yield Sample((randn(20, 8, dtype=torch.bfloat16), torch.tensor(4)), name="0-d")


OPS = [Op("aten.embedding.default", lower_embedding, samples=samples)]
