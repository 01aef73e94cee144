"""Distances between rows: of two sets (cdist), and of one set with itself (pdist)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.indexing import take
from proveout.ops.samples import randn
from proveout.ops.table import Builder, Op, Refused, Sample, Value

MANY = 25
"""From more rows than this on, eager takes Euclidean distances from products unless it is told not to."""


def lower_cdist(b: Builder, x1: Value, x2: Value, p: float, compute_mode: int | None) -> Value:
    if 0 in x1.shape or 0 in x2.shape:
        raise Refused("tensors without elements stay on the host")
    lead = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    (num1, depth), num2 = x1.shape[-2:], x2.shape[-2]
    x1, x2 = b.expand(x1, (*lead, num1, depth)), b.expand(x2, (*lead, num2, depth))
    if p == 2 and (compute_mode == 1 or (compute_mode in (None, 0) and max(num1, num2) > MANY)):
        return _from_products(b, x1, x2)
    rows, columns = b.reshape(x1, (*lead, num1, 1, depth)), b.reshape(x2, (*lead, 1, num2, depth))
    return _norm(b, b.call("ttnn.subtract", input_tensor_a=rows, input_tensor_b=columns), p)


def lower_pdist(b: Builder, self: Value, p: float = 2) -> Value:
    """Of every pair of rows, the earlier one first."""
    pairs = torch.combinations(torch.arange(self.shape[0]))
    if not pairs.numel() or not self.shape[1]:
        raise Refused("tensors without elements stay on the host")
    first, second = (take(b, self, 0, column.tolist()) for column in pairs.T)
    return _norm(b, b.call("ttnn.subtract", input_tensor_a=first, input_tensor_b=second), p)


def _norm(b: Builder, x: Value, p: float) -> Value:
    """Over the last dimension; of order 0 it counts what is not zero."""
    last = (x.rank - 1,)
    if p == 0:
        x = b.cast(b.cast(x, "bool"), x.dtype)
        return b.call("ttnn.sum", input_tensor=x, dim=last, keepdim=False)
    if p == 2:
        total = b.call("ttnn.sum", input_tensor=b.call("ttnn.square", input_tensor=x), dim=last, keepdim=False)
        return b.call("ttnn.sqrt", input_tensor=total)
    size = b.call("ttnn.abs", input_tensor=x)
    if p == math.inf:
        return b.call("ttnn.max", input_tensor=size, dim=last, keepdim=False)
    if p == 1:
        return b.call("ttnn.sum", input_tensor=size, dim=last, keepdim=False)
    powers = b.call("ttnn.pow", input_tensor=size, exponent=float(p))
    total = b.call("ttnn.sum", input_tensor=powers, dim=last, keepdim=False)
    return b.call("ttnn.pow", input_tensor=total, exponent=1.0 / p)


def _from_products(b: Builder, x1: Value, x2: Value) -> Value:
    """√(|x|² + |y|² - 2xy) as one product of rows that carry their own squares, as eager has it."""
    squares = [
        b.call("ttnn.sum", input_tensor=b.call("ttnn.square", input_tensor=x), dim=(x.rank - 1,), keepdim=True)
        for x in (x1, x2)
    ]
    ones = [b.expand(b.constant(torch.ones((), dtype=getattr(torch, s.dtype))), s.shape) for s in squares]
    twice = b.call("ttnn.multiply", input_tensor_a=x1, input_tensor_b=-2.0)
    last = x1.rank - 1
    left = b.call("ttnn.concat", tensors=(twice, squares[0], ones[0]), dim=last)
    right = b.call("ttnn.concat", tensors=(x2, ones[1], squares[1]), dim=last)
    product = b.call("ttnn.matmul", input_tensor_a=left, input_tensor_b=right, transpose_b=True)
    return b.call("ttnn.sqrt", input_tensor=b.call("ttnn.clamp", input_tensor=product, min=0.0))


def cdist_samples() -> Iterator[Sample]:
    for p in (0.0, 1.0, 2.0, 2.5, math.inf):
        yield Sample((randn(2, 5, 7), randn(2, 9, 7) + 0.5, p, None), name=f"p {p}")
    yield Sample((randn(3, 1, 5, 7), randn(2, 9, 7) + 0.5, 2.0, None), name="broadcast")
    yield Sample((randn(40, 7), randn(30, 7) + 0.5, 2.0, None), name="many")
    yield Sample((randn(40, 7), randn(30, 7) + 0.5, 2.0, 2), name="many, no products")
    yield Sample((randn(4, 7), randn(3, 7) + 0.5, 2.0, 1), name="few, products")
    yield Sample((randn(4, 0), randn(3, 0), 2.0, None), name="no element")
    equal = randn(4, 3)
    equal[0] = 1.0
    yield Sample((equal, torch.ones(2, 3), 0.0, None), name="equal rows")


def pdist_samples() -> Iterator[Sample]:
    for p in (0.0, 1.0, 2.0, 2.5, math.inf):
        yield Sample((randn(6, 7), p), name=f"p {p}")
    yield Sample((randn(1, 7),), name="one row")


OPS = [
    Op("aten._cdist_forward.default", lower_cdist, samples=cdist_samples),
    Op("aten._pdist_forward.default", lower_pdist, samples=pdist_samples),
]
