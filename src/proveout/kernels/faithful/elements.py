"""Element-wise kernels of two operands: which of them the matrix unit runs and which the vector unit."""

from __future__ import annotations

from typing import Any

import torch

from proveout.kernels.arithmetic import formats, products, vector
from proveout.kernels.faithful.settings import Compute, dtypes_of

Tensor = torch.Tensor


def binary(name: str, compute: Compute, input_tensor_a: Any, dtype: torch.dtype | None = None, **other: Any) -> Tensor:
    """add, subtract, rsub: the matrix unit, unless both are float32. multiply: the vector unit, whose float32 product
    is rounded to nearest even (tt-metal#35077)."""
    b = next(iter(other.values()))
    tensors = [t for t in (input_tensor_a, b) if isinstance(t, Tensor)]
    kept = dtypes_of(tensors)
    a, b = (t if isinstance(t, Tensor) else torch.tensor(t, dtype=kept) for t in (input_tensor_a, b))
    if name == "ttnn.rsub":
        a, b = b, a
    if name == "ttnn.multiply":
        return _vector_product(a, b, compute, dtype or kept)
    if a.dtype == b.dtype == torch.float32:
        negative = b if name == "ttnn.add" else -b
        return _kept(vector.add(a, negative, compute.arch), dtype or kept)
    return compute.pack(products.add(a, b, compute.unit, subtract=name != "ttnn.add"), dtype or kept)


def _vector_product(a: Tensor, b: Tensor, compute: Compute, dtype: torch.dtype) -> Tensor:
    """0 times anything is 0 where an operand is not float32."""
    product = vector.multiply(a.float(), b.float(), compute.arch)
    if a.dtype == b.dtype == torch.float32:
        return _kept(product, dtype)
    product = torch.where((a == 0) | (b == 0), 0.0, product)
    return _kept(nearest_even(product), dtype)


def nearest_even(x: Tensor) -> Tensor:
    """float32 as the vector unit's kernels round it to bfloat16: to nearest even, by adding to the pattern."""
    pattern = x.contiguous().view(torch.int32)
    near = pattern + 0x7FFF + (pattern >> 16 & 1) & -0x10000
    return near.view(torch.float32)


def _kept(x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.float32:
        return vector.store_float32(x)
    return formats.pack_bfloat16(x, fp32_dest=True).to(dtype)
