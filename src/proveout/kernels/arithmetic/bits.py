"""Numbers as bit patterns: float32 tensors and the integers that they are made of."""

from __future__ import annotations

from typing import Literal

import torch

Tensor = torch.Tensor
Arch = Literal["wormhole", "blackhole"]

SIGN, INFINITY, MANTISSA, HIDDEN = -(1 << 31), 0x7F800000, 0x7FFFFF, 1 << 23
"""Of a float32, as int32: its sign, its infinity (all of the exponent), the bits after the point, the implied one."""


def bits(x: Tensor) -> Tensor:
    """The int32 pattern of each float32; bfloat16 has zeros below."""
    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).to(torch.int32) << 16
    return x.float().contiguous().view(torch.int32)


def floats(pattern: Tensor) -> Tensor:
    """float32 from int32 patterns."""
    return pattern.to(torch.int32).contiguous().view(torch.float32)


def exponent(pattern: Tensor) -> Tensor:
    return pattern >> 23 & 255


def is_nan(pattern: Tensor) -> Tensor:
    return (pattern & 0x7FFFFFFF) > INFINITY


def nan_to_infinity(pattern: Tensor) -> Tensor:
    return torch.where(is_nan(pattern), pattern & SIGN | INFINITY, pattern)


def flush(pattern: Tensor, signed: bool = False) -> Tensor:
    """Denormals as 0: as +0, or with their sign."""
    return torch.where(pattern & INFINITY == 0, pattern & SIGN if signed else 0, pattern)
