"""Element-wise kernels of two operands: which of them the matrix unit runs and which the vector unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from proveout.kernels.activations import listed
from proveout.kernels.arithmetic import formats, products, vector
from proveout.kernels.arithmetic.functions import Sfpu
from proveout.kernels.arithmetic.pairs import nearest_even
from proveout.kernels.arithmetic.table import PAIRS
from proveout.kernels.faithful.functions import unary
from proveout.kernels.faithful.settings import Compute, dtypes_of
from proveout.types import TensorSpec

Tensor = torch.Tensor


def binary(
    name: str,
    compute: Compute,
    input_tensor_a: Any,
    dtype: torch.dtype | None = None,
    input_tensor_a_activations: Sequence[Any] = (),
    input_tensor_b_activations: Sequence[Any] = (),
    activations: Sequence[Any] = (),
    **other: Any,
) -> Tensor:
    """Its arithmetic, with the activations that run before and after it inside the kernel."""
    a = _activated(input_tensor_a, input_tensor_a_activations, compute)
    b = _activated(next(iter(other.values())), input_tensor_b_activations, compute)
    return _activated(_binary(name, compute, a, b, dtype), activations, compute)


def _activated(value: Any, activations: Sequence[Any], compute: Compute) -> Any:
    for name in listed(activations):
        value = unary(f"ttnn.{name}", compute, value)
    return value


def _binary(name: str, compute: Compute, input_tensor_a: Any, b: Any, dtype: torch.dtype | None) -> Tensor:
    """add, subtract, rsub: the matrix unit, unless both are float32. All others: the vector unit, where products and
    quotients are rounded to nearest even (tt-metal#35077)."""
    tensors = [t for t in (input_tensor_a, b) if isinstance(t, Tensor)]
    kept = dtypes_of(tensors)
    a, b = (t if isinstance(t, Tensor) else torch.tensor(t, dtype=kept) for t in (input_tensor_a, b))
    if name == "ttnn.rsub":
        a, b = b, a
    if name.removeprefix("ttnn.") in VECTOR:
        return _on_vector_unit(name.removeprefix("ttnn."), a, b, compute, dtype or kept)
    if name == "ttnn.multiply":
        return _vector_product(a, b, compute, dtype or kept)
    if a.dtype == b.dtype == torch.float32:
        negative = b if name == "ttnn.add" else -b
        return _kept(vector.add(a, negative, compute.arch), dtype or kept)
    return compute.pack(products.add(a, b, compute.unit, subtract=name != "ttnn.add"), dtype or kept)


def unless_float32(specs: Mapping[str, Any]) -> bool:
    """Whether the matrix unit reads the operands of a sum or difference: unless both are float32."""
    return {s.dtype for s in specs.values() if isinstance(s, TensorSpec)} != {"float32"}


VECTOR = ("div", "maximum", "minimum", "atan2", "pow", "remainder", "fmod")
CHUNK = 1 << 16
"""Values computed at a time."""


def power(name: str, compute: Compute, input_tensor: Any, exponent: Any) -> Tensor:
    """A number from 0 to 3 multiplies again and again; any other goes the way of a tensor."""
    kept = dtypes_of([t for t in (input_tensor, exponent) if isinstance(t, Tensor)])
    if not isinstance(exponent, Tensor) and exponent in (0, 1, 2, 3):
        out = torch.ones_like(input_tensor, dtype=torch.float32)
        for _ in range(int(exponent)):
            out = vector.multiply(out, input_tensor.float(), compute.arch)
        sfpu = Sfpu(compute.arch, compute.fp32_dest)
        return _kept(sfpu.stored(out), kept)
    a, b = (t if isinstance(t, Tensor) else torch.tensor(t, dtype=kept) for t in (input_tensor, exponent))
    return _on_vector_unit("pow", a, b, compute, kept)


def _on_vector_unit(name: str, a: Tensor, b: Tensor, compute: Compute, dtype: torch.dtype) -> Tensor:
    sfpu = Sfpu(compute.arch, compute.fp32_dest)
    a, b = torch.broadcast_tensors(a.float(), b.float())
    pieces = zip(a.reshape(-1).split(CHUNK), b.reshape(-1).split(CHUNK))
    results = [PAIRS[name](sfpu, *piece) for piece in pieces]
    return _kept(torch.cat(results).reshape(a.shape) if results else a.clone(), dtype)


def _vector_product(a: Tensor, b: Tensor, compute: Compute, dtype: torch.dtype) -> Tensor:
    """0 times anything is 0 where an operand is not float32."""
    product = vector.multiply(a.float(), b.float(), compute.arch)
    if a.dtype == b.dtype == torch.float32:
        return _kept(product, dtype)
    product = torch.where((a == 0) | (b == 0), 0.0, product)
    return _kept(nearest_even(product), dtype)


def _kept(x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.float32:
        return vector.store_float32(x)
    return formats.pack_bfloat16(x, fp32_dest=True).to(dtype)
