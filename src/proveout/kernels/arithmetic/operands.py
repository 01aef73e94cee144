"""What compiled kernels read of a product: its operands' exponents and parts, and the rules of a unit as numbers."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from proveout.kernels.arithmetic.bits import INFINITY, SIGN, Tensor
from proveout.kernels.arithmetic.matrix import TILE, Unit, source

ZERO = -4096
"""The exponent of 0: below any sum of two others."""


@dataclass(frozen=True)
class Operand:
    """[batch, …]: exponent fields, and pairs of bfloat16: the high part of the significand above the low one."""

    exponents: Tensor
    parts: Tensor

    @property
    def batch_stride(self) -> int:
        """Elements from one matrix to the next; 0 where one serves all."""
        return math.prod(self.parts.shape[1:]) if self.parts.shape[0] > 1 else 0


class Rules(NamedTuple):
    """What a step does that depends on how the unit is set."""

    bias: int
    """Added to the sum of two exponent fields."""
    each_half: int
    each_keep: int
    """Each of the three that are added is rounded once more: `+ half & keep`."""
    last_half: int
    last_keep: int
    """Their sum to the destination's bits, likewise."""
    too_large: int
    largest: int
    """The exponent field from which on a result is `largest`."""
    spoilt: int
    """The sum that tt-metal#38306 spoils; one that never is where there is none."""


@functools.cache
def rules(unit: Unit) -> Rules:
    wide, short = unit.fp32_dest, unit.half and not unit.fp32_dest
    return Rules(
        bias=unit.bias,
        each_half=0 if wide else 0x1000,
        each_keep=-1 if wide else -0x2000,
        last_half=1 << unit.drop - 1 if unit.drop else 0,
        last_keep=-(1 << unit.drop),
        too_large=32 if short else 255,
        largest=31 << 23 | 0x3FF << 13 if short else INFINITY,
        spoilt=-1 if wide and unit.arch == "wormhole" else SIGN,
    )


def padded(x: Tensor, src_a: bool, width: int = 1) -> Tensor:
    """SrcA is [B, K, N] and SrcB [B, M, K]: with zeros to whole tiles of K, and to whole widths of N."""
    deep = -x.shape[-2 if src_a else -1] % TILE
    missing = (0, -x.shape[-1] % width, 0, deep) if src_a else (0, deep)
    return torch.nn.functional.pad(x, missing) if any(missing) else x


def operand(x: Tensor, unit: Unit, src_a: bool) -> Operand:
    """An operand, padded, on the device where it lies."""
    read = source(x, unit)
    high, low = (
        read.part(phase, src_a).to(torch.bfloat16).view(torch.int16).to(torch.int32) for phase in (0, 1 if src_a else 2)
    )
    exponents = torch.where(read.sign == 0, ZERO, read.exponent)
    return Operand(exponents.contiguous(), (high << 16 | low & 0xFFFF).contiguous())
