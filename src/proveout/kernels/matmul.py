"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from proveout.chip.time import MATRIX, Work
from proveout.kernels.table import FLOAT, Kernel, Specs
from proveout.types import TensorSpec

Tensor = torch.Tensor
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: torch.dtype | None = None,
    activation: str | None = None,
) -> Tensor:
    a = input_tensor_a.transpose(-1, -2) if transpose_a else input_tensor_a
    b = input_tensor_b.transpose(-1, -2) if transpose_b else input_tensor_b
    if dtype == torch.float32 and a.dtype != torch.float32:
        a = a.float()  # the accumulator as it is, not rounded to the operands' dtype first
    b = b if b.dtype == a.dtype else b.to(a.dtype)  # the result has the first operand's dtype
    out = torch.matmul(a, b)
    out = ACTIVATIONS[activation](out) if activation else out
    return out.to(dtype) if dtype is not None else out


def linear(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    bias: Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: torch.dtype | None = None,
    activation: str | None = None,
) -> Tensor:
    a = input_tensor_a.transpose(-1, -2) if transpose_a else input_tensor_a
    if input_tensor_b.dtype != a.dtype:  # the result has the first operand's dtype
        input_tensor_b = input_tensor_b.to(a.dtype)
    if input_tensor_b.dim() == 2 and (bias is None or bias.dim() == 1):
        out = F.linear(a, input_tensor_b if transpose_b else input_tensor_b.t(), bias)
    else:
        out = matmul(a, input_tensor_b, transpose_b=transpose_b)
        out = out + bias if bias is not None else out
    out = ACTIVATIONS[activation](out) if activation else out
    return out.to(dtype) if dtype is not None else out


def matmul_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    a: TensorSpec = specs["input_tensor_a"]
    k = a.padded_shape[-2 if specs.get("transpose_a") else -1]
    return Work(2.0 * math.prod(outputs[0].padded_shape) * k, MATRIX, phased=True)


KERNELS = [
    Kernel("ttnn.matmul", matmul, matmul_work, dtypes=FLOAT),
    Kernel("ttnn.linear", linear, matmul_work, dtypes=FLOAT),
]
