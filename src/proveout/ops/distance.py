"""Norms, and distances between rows: of two sets (cdist), and of one set with itself (pdist)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.indexing import take
from proveout.ops.reduce import Dims, reduced
from proveout.ops.samples import randn
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value, normal_dim
from proveout.reasons import NO_ELEMENTS

MANY = 25
"""From more rows than this on, eager takes Euclidean distances from products unless it is told not to."""


def lower_cdist(b: Builder, x1: Value, x2: Value, p: float, compute_mode: int | None) -> Value:
    if 0 in x1.shape or 0 in x2.shape:
        raise Refused(NO_ELEMENTS())
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
        raise Refused(NO_ELEMENTS())
    first, second = (take(b, self, 0, column.tolist()) for column in pairs.T)
    return _norm(b, b.call("ttnn.subtract", input_tensor_a=first, input_tensor_b=second), p)


def lower_vector_norm(
    b: Builder, self: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: str | None = None
) -> Value:
    """In float32, as eager has it inside."""
    return b.cast(_norm(b, b.cast(self, WIDE), ord, dim, keepdim), b.out.dtype)


def lower_renorm(b: Builder, self: Value, p: float, dim: int, maxnorm: float) -> Value:
    """Slices whose norm is too large are scaled down to it; the factor is float32 until the product, as in eager."""
    others = [d for d in range(self.rank) if d != normal_dim(dim, self.rank)]
    norm = _norm(b, b.cast(self, WIDE), p, others, True)
    safe = b.call("ttnn.add", input_tensor_a=norm, input_tensor_b=1e-7)
    share = b.call("ttnn.multiply", input_tensor_a=b.call("ttnn.reciprocal", input_tensor=safe), input_tensor_b=maxnorm)
    too_large = b.call("ttnn.gt", input_tensor_a=norm, input_tensor_b=maxnorm, dtype=b.dtype("bool"), gives="bool")
    factor = b.call("ttnn.where", predicate=too_large, true_value=share, false_value=1.0, gives=share.dtype)
    return b.call("ttnn.multiply", input_tensor_a=self, input_tensor_b=b.cast(factor, self.dtype))


def _norm(b: Builder, x: Value, p: float, dim: Dims = -1, keepdim: bool = False) -> Value:
    """Of order 0 it counts what is not zero."""
    if p == 0:
        return reduced(b, "ttnn.sum", b.cast(b.cast(x, "bool"), x.dtype), dim, keepdim)
    if p == 2:
        total = reduced(b, "ttnn.sum", b.call("ttnn.square", input_tensor=x), dim, keepdim)
        return b.call("ttnn.sqrt", input_tensor=total)
    size = b.call("ttnn.abs", input_tensor=x)
    if p in WHOLE:
        return reduced(b, WHOLE[p], size, dim, keepdim)
    powers = b.call("ttnn.pow", input_tensor=size, exponent=float(p))
    return b.call("ttnn.pow", input_tensor=reduced(b, "ttnn.sum", powers, dim, keepdim), exponent=1.0 / p)


WHOLE = {1: "ttnn.sum", math.inf: "ttnn.max", -math.inf: "ttnn.min"}
"""Orders whose norm is one reduction of the elements' sizes."""


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


def renorm_samples() -> Iterator[Sample]:
    yield Sample((randn(5, 6, 7), 2, 1, 0.5))
    yield Sample((randn(5, 6, 7), 1, -1, 20.0), name="some are small enough")
    yield Sample((randn(5, 6), math.inf, 0, 1.5), name="largest")
    yield Sample((randn(5, 6, dtype=torch.bfloat16), 2.5, 0, 2.0), name="bfloat16")


def norms() -> Iterator[Sample]:
    for order in (2, 1, 0, 3, 2.5, -1, -2, math.inf, -math.inf):
        yield Sample((randn(4, 9, 7), order, [1]), name=f"order {order}")
    yield Sample((randn(4, 9, 7), 2, [-1, 0], True), name="two dimensions, keepdim")
    yield Sample((randn(4, 9, 7),), name="all")
    yield Sample((randn(),), name="0-d")
    yield Sample((randn(4, 40, dtype=torch.bfloat16), 2, [-1]), name="bfloat16")
    yield Sample((randn(4, 40, dtype=torch.bfloat16), 1, [-1]), {"dtype": torch.float32}, "dtype")
    zeros = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, -3.0]])
    yield Sample((zeros, 0, [1]), name="zeros counted")


OPS = [
    Op("aten.linalg_vector_norm.default", lower_vector_norm, samples=norms),
    Op("aten.renorm.default", lower_renorm, samples=renorm_samples),
    Op("aten._cdist_forward.default", lower_cdist, samples=cdist_samples),
    Op("aten._pdist_forward.default", lower_pdist, samples=pdist_samples),
]
