"""Calls that ttnn makes of several kernels in one pass: what lies between stays in the destination, and is stored there
as the next kernel reads it."""

from __future__ import annotations

import torch

from proveout.kernels.arithmetic import vector
from proveout.kernels.arithmetic.activations import exp2
from proveout.kernels.arithmetic.bits import Tensor
from proveout.kernels.arithmetic.functions import Sfpu, log2, sqrt, square
from proveout.kernels.arithmetic.pairs import difference, product, quotient, total


def hypot(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    return sqrt(sfpu, total(sfpu, square(sfpu, a), square(sfpu, b)))


def ldexp(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    """In bfloat16 the power overflows and underflows by itself."""
    return product(sfpu, a, exp2(sfpu, b))


def logaddexp2(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    return log2(sfpu, total(sfpu, exp2(sfpu, a), exp2(sfpu, b)))


def squared_difference(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    return square(sfpu, difference(sfpu, a, b))


def floor_quotient(sfpu: Sfpu, a: Tensor, b: Tensor) -> Tensor:
    return torch.floor(quotient(sfpu, a, b))


SLOPES, OFFSETS = (0x37E7322B, 0x38E138F3, 0x38003852), (0xB12286D8, 0xB437B479, 0x7C00AFA4)
"""Of GELU's table: x/2 and six straight pieces of |x|, two 16-bit coefficients a word."""


def gelu_fast(sfpu: Sfpu, x: Tensor) -> Tensor:
    """Straight pieces."""
    words = [tuple(torch.tensor(w, dtype=torch.int64) for w in group) for group in (SLOPES, OFFSETS)]
    table = vector.lut_float32(x, words[0], words[1], sfpu.arch)  # type: ignore[arg-type]
    return sfpu.cut(sfpu.mad(x, 0.5, table))
