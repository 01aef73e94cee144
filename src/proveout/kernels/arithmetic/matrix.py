"""The matrix unit, bit by bit, in plain integers: every operand, destination and special value.

`in0` of a product goes through SrcB and `in1` (the weights) through SrcA. One element of the result is made in steps of
16 along K: for each tile of 32, for each fidelity phase, for each half of the tile. The destination starts at 0.

**A product.** Significands have 11 bits (1.m). The multiplier takes 5 bits of SrcA and 7 of SrcB:

| phase | SrcA | SrcB | exponent less | |
|---|---|---|---|---|
| 0 | top 5 | top 7 | 0 | LoFi |
| 1 | next 5 | top 7 | 5 | HiFi2 adds this one |
| 2 | top 5 | low 4, times 8 | 7 | HiFi3 |
| 3 | next 5 | low 4, times 8 | 12 | HiFi4 |

A number with exponent 0 is 0, one with exponent 255 is 1.m·2^128: no infinity and no NaN.

**A step** has two groups of 8 products. In each group all are shifted to the largest exponent (from exponents alone),
to nearest, halves away from zero, and added exactly. Both sums and the destination are then shifted to the largest of
their three exponents: the destination to nearest, halves away from zero; the sums to nearest, halves up; a 16-bit
destination rounds each once more to 10 bits after the point. The exact sum of the three is rounded to 8 or 24 bits,
halves away from zero.
A phase whose products are all 0 still acts: its exponent can round the destination.

**tt-metal#38306** (Wormhole): a sum of exactly -1 unit, which a float32 destination alone can have, becomes
-2^(exponent + 4): 1 - 1 - 2^-23 = -16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proveout.kernels.arithmetic import errata
from proveout.kernels.arithmetic.bits import (
    HIDDEN,
    INFINITY,
    MANTISSA,
    SIGN,
    Arch,
    Tensor,
    bits,
    exponent,
    floats,
)
from proveout.kernels.arithmetic.formats import to_source

STEP, GROUP, TILE = 16, 8, 32
HALF_BIAS = 127 - 15
"""From the exponent field of a float16 to that of a float32."""
OFFSETS = (0, 5, 7, 12)
"""What each phase takes off a product's exponent."""


@dataclass(frozen=True)
class Unit:
    """How a matrix unit is set: which chip's, how many phases, how wide its destination, which exponents."""

    arch: Arch = "wormhole"
    phases: int = 4
    fp32_dest: bool = False
    half: bool = False
    """Operands are float16 with 5 bits of exponent, which neither IEEE's infinity nor NaN uses."""

    @property
    def bias(self) -> int:
        """Added to the sum of two exponent fields."""
        return -127 if not self.half else 97 if self.fp32_dest else -15

    @property
    def drop(self) -> int:
        """Low bits of a 24-bit significand that the destination does not keep."""
        return 0 if self.fp32_dest else 13 if self.half else 16


@dataclass(frozen=True)
class SourceRegister:
    """Operands in a source register: sign (1 or -1, 0 for zero), exponent field, 11 bits of significand."""

    sign: Tensor
    exponent: Tensor
    significand: Tensor

    def part(self, phase: int, src_a: bool) -> Tensor:
        """What the multiplier takes of the significand, with its sign."""
        m = self.significand
        if src_a:
            part = m >> 1 & 31 if phase & 1 else m >> 6
        else:
            part = (m & 15) << 3 if phase & 2 else m >> 4
        return part * self.sign

    def at(self, index: object) -> SourceRegister:
        return SourceRegister(self.sign[index], self.exponent[index], self.significand[index])  # type: ignore[index]


def pattern_of(x: Tensor, unit: Unit) -> Tensor:
    """What a source register holds of an operand, as int32: a float32's pattern, or a float16's in the low half."""
    if unit.half:
        return x.contiguous().view(torch.int16).to(torch.int32)
    return bits(to_source(x, unit.fp32_dest) if x.dtype == torch.float32 else x)


def source(x: Tensor, unit: Unit) -> SourceRegister:
    """An operand as a source register holds it."""
    raw = pattern_of(x, unit)
    if unit.half:
        field, after_point = raw >> 10 & 31, raw & 0x3FF
    else:
        field, after_point = exponent(raw), raw >> 13 & 0x3FF
    sign = torch.where(raw < 0, -1, 1).to(torch.int32)
    return SourceRegister(torch.where(field > 0, sign, 0), field, after_point | 0x400)


def matmul(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """The destination after `in0 [B, M, K] @ in1 [B, K, N]`, before packing; `start` is what it held before.

    K is padded with zeros to whole tiles. A 16-bit destination comes as float32 whose low bits are 0."""
    src_b, src_a = source(_whole(in0, -1), unit), source(_whole(in1, -2), unit)
    dest = _start(start, (in0.shape[0], in0.shape[1], in1.shape[2]))
    for first in range(0, src_a.sign.shape[-2], TILE):
        for phase in range(unit.phases):
            for k in (first, first + STEP):
                dest = _step(src_a, src_b, k, phase, dest, unit)
    return floats(dest)


def sum_rows(x: Tensor, scaler: float | Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """GAPOOL: the sum of `x` [B, rows, columns] down its rows times `scaler`, [B, 1, columns]: 16 rows with all phases,
    then the next 16."""
    src_a = source(_whole(x, -2), unit)
    row = torch.as_tensor(scaler, dtype=torch.float32).reshape(1, 1, 1).expand(1, 1, src_a.sign.shape[-2])
    src_b = source(row.to(x.dtype), unit)
    dest = _start(start, (x.shape[0], 1, x.shape[2]))
    for k in range(0, src_a.sign.shape[-2], STEP):
        for phase in range(unit.phases):
            dest = _step(src_a, src_b, k, phase, dest, unit)
    return floats(dest)


def multiply(a: Tensor, b: Tensor, unit: Unit) -> Tensor:
    """ELWMUL: element by element, `a` through SrcA; each phase adds its product to the destination."""
    src_a, src_b = source(a, unit), source(b, unit)
    dest = torch.zeros(torch.broadcast_shapes(a.shape, b.shape), dtype=torch.int32)
    for phase in range(unit.phases):
        own = src_a.exponent + src_b.exponent + unit.bias - OFFSETS[phase]
        product = src_a.part(phase, True) * src_b.part(phase, False)
        dead = (src_a.sign * src_b.sign == 0) | (own <= 0)
        own = torch.where(dead, max(unit.bias - OFFSETS[phase], 0), own)
        dest = _accumulate([(torch.where(dead, 0, product) << 13, own)], dest, unit)
    return floats(dest)


def add(a: Tensor, b: Tensor, unit: Unit, subtract: bool = False) -> Tensor:
    """ELWADD, ELWSUB: the smaller operand is shifted to the larger one's exponent, to nearest, halves away from zero;
    10 bits after the larger one's point are all that is ever kept."""
    first, second = (source(x, unit) for x in torch.broadcast_tensors(a, b))
    second_sign = -second.sign if subtract else second.sign
    top = torch.maximum(first.exponent, second.exponent)
    total = torch.zeros_like(top)
    for operand, sign in ((first, first.sign), (second, second_sign)):
        shift = (top - operand.exponent).clamp(max=12)
        half = torch.where(shift > 0, 1 << (shift - 1).clamp(min=0), 0)
        total += torch.where(shift < 12, operand.significand + half >> shift, 0) * sign
    nothing = (first.sign == 0) & (second.sign == 0)
    if unit.half and unit.fp32_dest:  # from float16's exponents to float32's; 0 has the exponent of a product's
        own = torch.where(nothing, unit.bias, top + HALF_BIAS)
    else:
        own = torch.where(nothing, 0, top)
    return floats(_accumulate([(total << 13, own)], torch.zeros_like(total), unit))


def max_rows(x: Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """GMPOOL: the largest of `x` [B, rows, columns] down its rows, compared as sign and magnitude; denormals are +0.
    The destination starts at 0 unless `start` says otherwise, as the LLK's does with -infinity."""
    raw = bits(to_source(x, unit.fp32_dest) if x.dtype == torch.float32 else x)
    raw = torch.where(raw & INFINITY == 0, 0, raw)
    order = torch.where(raw < 0, ~(raw & ~SIGN), raw)
    largest = order.amax(dim=-2, keepdim=True)
    if start is not None:
        old = bits(start)
        largest = torch.maximum(largest, torch.where(old < 0, ~(old & ~SIGN), old))
    return floats(torch.where(largest < 0, ~largest | SIGN, largest))


# ---- one step -------------------------------------------------------------------------------------------------------


def _whole(x: Tensor, dim: int) -> Tensor:
    """Padded with zeros to whole tiles along one dimension."""
    missing = -x.shape[dim] % TILE
    if not missing:
        return x
    return torch.nn.functional.pad(x, (0, missing) if dim == -1 else (0, 0, 0, missing))


def _start(start: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(shape, dtype=torch.int32) if start is None else bits(start).expand(shape).clone()


def _step(src_a: SourceRegister, src_b: SourceRegister, first: int, phase: int, dest: Tensor, unit: Unit) -> Tensor:
    """16 products from `first` on, as two groups of 8, added to the destination."""
    sums = []
    bias = unit.bias - OFFSETS[phase]
    for k in range(first, first + STEP, GROUP):
        a, b = src_a.at((slice(None), slice(k, k + GROUP), None)), src_b.at((..., slice(k, k + GROUP)))
        # [B, GROUP, M, N]
        a_parts = a.part(phase, True)
        b_parts = b.part(phase, False).transpose(-1, -2).unsqueeze(-1)
        b_sign, b_exponent = (t.transpose(-1, -2).unsqueeze(-1) for t in (b.sign, b.exponent))
        product = a_parts * b_parts
        own = torch.where(a.sign * b_sign == 0, max(bias, 0), a.exponent + b_exponent + bias)
        top = own.amax(dim=1)
        shift = (top.unsqueeze(1) - own).clamp_(max=30)
        aligned = (product.abs() * 2 + (1 << shift)) >> shift + 1
        total = (aligned * product.sign()).sum(dim=1, dtype=torch.int32)
        dead = top <= 0
        sums.append((torch.where(dead, 0, total) << 13, torch.where(dead, 0, top)))
    return _accumulate(sums, dest, unit)


def _accumulate(sums: list[tuple[Tensor, Tensor]], dest: Tensor, unit: Unit) -> Tensor:
    """The destination's pattern after sums with their exponents are added to it."""
    dest_exponent = exponent(dest)
    top = dest_exponent
    for _, own in sums:
        top = torch.maximum(top, own)
    magnitude = torch.where(dest_exponent > 0, dest & MANTISSA | HIDDEN, 0)
    kept = _shift(magnitude, top - dest_exponent)
    if not unit.fp32_dest:
        kept = kept + 0x1000 & -0x2000
    total = torch.where(dest < 0, -kept, kept)
    for value, own in sums:
        aligned = _shift(value, top - own)
        if not unit.fp32_dest:
            aligned = aligned + 0x1000 & -0x2000
        total = total + aligned
    return torch.where(top > 0, _encode(total, top, unit), 0)


def _shift(value: Tensor, by: Tensor) -> Tensor:
    """Shifted right to nearest, halves up; by 31 or more: 0."""
    near = value + torch.where(by > 0, 1 << (by - 1).clamp(0, 30), 0) >> by.clamp(max=30)
    return torch.where(by < 31, near, 0)


def _encode(total: Tensor, top: Tensor, unit: Unit) -> Tensor:
    """A sum in units of 2^(top - 23), normalised and rounded to the destination's bits, halves away from zero."""
    magnitude = total.abs()
    # float64 holds the magnitude exactly, so its exponent is the place of the leading one
    length = (magnitude.double().view(torch.int64) >> 52).to(torch.int32) - 1023 + 1
    left = 24 - length
    if unit.arch == "wormhole":
        spoilt = total == -1  # tt-metal#38306
        left = torch.where(spoilt, -4, left)
        if errata.watched():
            errata.note(int((spoilt & (top > 0)).sum()))
    own = top - left
    left = left - unit.drop
    right = (-left).clamp(min=0)
    rounded = magnitude + torch.where(right > 0, 1 << (right - 1).clamp(min=0), 0) >> right
    kept = torch.where(left >= 0, magnitude << left.clamp(0, 30), rounded) << unit.drop
    own = own + (kept >> 24 & 1)
    sign = torch.where(total < 0, SIGN, 0)
    normal = sign | own << 23 | kept & MANTISSA
    if unit.half and not unit.fp32_dest:
        too_large, largest = 32, 31 << 23 | 0x3FF << 13
    else:
        too_large, largest = 255, INFINITY
    out = torch.where(own >= too_large, sign | largest, normal)
    return torch.where((magnitude == 0) | (own <= 0), 0, out)
