"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.samples import ints, randn
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.reasons import Kind

INEXACT_PRODUCT = Kind("matrix-product-dtype", "a matrix product of {dtype} has no exact kernel")


def _product(b: Builder, a: Value, c: Value) -> Value:
    if not a.is_float:
        raise Refused(INEXACT_PRODUCT(dtype=a.dtype))
    return b.call("ttnn.matmul", input_tensor_a=a, input_tensor_b=c)


def _wide_product(b: Builder, a: Value, c: Value) -> Value:
    """In float32, so that what is added to it is rounded once, as in eager."""
    if not a.is_float:
        raise Refused(INEXACT_PRODUCT(dtype=a.dtype))
    return b.call("ttnn.matmul", input_tensor_a=a, input_tensor_b=c, dtype=b.dtype(WIDE), gives=WIDE)


def lower_mm(b: Builder, self: Value, mat2: Value) -> Value:
    return _product(b, self, mat2)


def lower_mv(b: Builder, self: Value, vec: Value) -> Value:
    return b.reshape(_product(b, self, b.reshape(vec, (*vec.shape, 1))), b.out.shape)


def lower_dot(b: Builder, self: Value, tensor: Value) -> Value:
    row, column = b.reshape(self, (1, *self.shape)), b.reshape(tensor, (*tensor.shape, 1))
    return b.reshape(_product(b, row, column), ())


def lower_addmm(b: Builder, self: Value, mat1: Value, mat2: Value, beta: float = 1, alpha: float = 1) -> Value:
    if not mat1.is_float:
        raise Refused(INEXACT_PRODUCT(dtype=mat1.dtype))
    if alpha == 1 and beta == 1 and self.rank == 1:
        return b.call("ttnn.linear", input_tensor_a=mat1, input_tensor_b=mat2, bias=self)
    return _add_scaled(b, _wide_product(b, mat1, mat2), self, beta, alpha)


def lower_baddbmm(b: Builder, self: Value, batch1: Value, batch2: Value, beta: float = 1, alpha: float = 1) -> Value:
    return _add_scaled(b, _wide_product(b, batch1, batch2), self, beta, alpha)


def _add_scaled(b: Builder, product: Value, x: Value, beta: float, alpha: float) -> Value:
    """alpha · product + beta · x; with beta 0, x is ignored even where it is NaN."""
    if alpha != 1:
        product = b.call("ttnn.multiply", input_tensor_a=product, input_tensor_b=float(alpha))
    if beta != 0:
        wide = b.cast(x, WIDE)
        if beta != 1:
            wide = b.call("ttnn.multiply", input_tensor_a=wide, input_tensor_b=float(beta))
        product = b.call("ttnn.add", input_tensor_a=product, input_tensor_b=wide)
    return b.cast(product, b.out.dtype)


def mm_cases() -> Iterator[Sample]:
    yield Sample((randn(33, 50), randn(50, 7)))
    yield Sample((randn(50, 33).t(), randn(7, 50).t()), name="transposed")
    yield Sample((randn(4, 64, dtype=torch.bfloat16), randn(64, 32, dtype=torch.bfloat16)), name="bfloat16")
    yield Sample((ints(4, 5), ints(5, 6)), name="int64")
    yield Sample((randn(0, 5), randn(5, 6)), name="no row")


def addmm_cases() -> Iterator[Sample]:
    yield Sample((randn(7), randn(33, 50), randn(50, 7)))
    yield Sample((randn(33, 7), randn(33, 50), randn(50, 7)), name="full bias")
    yield Sample((randn(7), randn(33, 50), randn(50, 7)), {"beta": 0.5, "alpha": 2.0}, "scaled")
    nan = torch.full((7,), math.nan)
    yield Sample((nan, randn(33, 50), randn(50, 7)), {"beta": 0}, "beta 0 ignores NaN")
    yield Sample((randn(7), randn(50, 33).t(), randn(7, 50).t()), name="transposed")


def bmm_cases() -> Iterator[Sample]:
    yield Sample((randn(3, 5, 6), randn(3, 6, 7)))
    yield Sample((randn(3, 6, 5).transpose(1, 2), randn(3, 7, 6).transpose(1, 2)), name="transposed")


OPS = [
    Op("aten.mm.default", lower_mm, samples=mm_cases),
    Op("aten.bmm.default", lower_mm, samples=bmm_cases),
    Op("aten.mv.default", lower_mv, samples=lambda: iter([Sample((randn(33, 50), randn(50)))])),
    Op("aten.dot.default", lower_dot, samples=lambda: iter([Sample((randn(50), randn(50)))])),
    Op("aten.addmm.default", lower_addmm, samples=addmm_cases),
    Op(
        "aten.baddbmm.default",
        lower_baddbmm,
        samples=lambda: iter(
            [
                Sample((randn(3, 5, 7), randn(3, 5, 6), randn(3, 6, 7))),
                Sample(
                    (randn(1, 1, 7), randn(3, 5, 6), randn(3, 6, 7)),
                    {"beta": 0.5, "alpha": 2},
                    "scaled, broadcast",
                ),
            ]
        ),
    ),
]
