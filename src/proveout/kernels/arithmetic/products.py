"""Matrix products by the matrix unit's rules, fast: the quickest way there is to compute them, all with the same bits.

In torch alone it is float32 arithmetic that rounds where the chip does. A product of a 5-bit and a 7-bit part has 12
bits. One factor is scaled by 1 + 2^-13, which breaks ties away from zero and changes nothing else, fused or not; added
to 1.5·2^23 units of its group, each product is rounded by itself to whole units, for these are all that float32 keeps
there. Sums and destination are then scaled by powers of 2 to the units of the step and rounded: `floor(x + 1/2)` is
"halves up", and the 2^-14 more stands for the chip's second rounding (to 13 bits after the unit first, then to the
unit).

This holds while exponents stay away from both ends of their range. Where they do not, `matrix.matmul` computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from proveout.kernels.arithmetic import compiled, errata, gpu, matrix
from proveout.kernels.arithmetic.bits import HIDDEN, INFINITY, SIGN, Arch, Tensor, bits, exponent
from proveout.kernels.arithmetic.formats import to_source
from proveout.kernels.arithmetic.matrix import GROUP, OFFSETS, STEP, TILE, Unit

CHUNK = 1 << 16
"""Elements of the destination worked on at a time: what a core's cache holds."""
EXACT_CHUNK = 1 << 12
LOWEST, HIGHEST = 60, 200
"""Exponent fields of a group between which float32 arithmetic is exact."""
DEAD = 10
"""The exponent field that a group of zeros has here: below any that lives, so that it changes nothing."""
NONE = -10_000
"""The exponent of 0, in sums of exponents."""


def matmul(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """The destination after `in0 [B, M, K] @ in1 [B, K, N]`; one of the two may have a batch of 1. The same bits as
    `matrix.matmul`, by the quickest way there is: a GPU for large ones, compiled code for many, torch."""
    shape = (max(in0.shape[0], in1.shape[0]), in0.shape[1], in1.shape[2])
    if not math.prod(shape) or not in0.shape[-1]:
        return torch.zeros(shape) if start is None else start.expand(shape).clone()
    there = gpu.if_large(in0, in1, unit, start)
    if there is not None:
        return there
    worthwhile = compiled.is_worthwhile(math.prod(shape) * in0.shape[-1])
    return (compiled.matmul if worthwhile else in_torch)(in0, in1, unit, start)


def in_torch(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """`matmul` of operands that are not empty, by torch alone."""
    batch, rows, columns = max(in0.shape[0], in1.shape[0]), in0.shape[1], in1.shape[2]
    out = torch.empty(batch, rows, columns)
    parts = None if unit.half else _prepare(in0, in1, unit, start)
    per_batch = max(1, CHUNK // (rows * columns))
    per_rows = max(1, CHUNK // columns)
    for first in range(0, batch, per_batch):
        at = slice(first, first + per_batch)
        for top in range(0, rows, per_rows):
            here = slice(top, top + per_rows)
            begin = None if start is None else start.expand(out.shape)[at, here]
            done = parts is not None and parts.run(out[at, here], at, here, begin)
            if not done:
                a = in0[at if in0.shape[0] > 1 else slice(None), here]
                b = in1[at if in1.shape[0] > 1 else slice(None)]
                out[at, here] = _exact(a, b, unit, begin)
    return out


def multiply(a: Tensor, b: Tensor, unit: Unit) -> Tensor:
    """`matrix.multiply`: a product of depth 1 for each element."""
    a, b = torch.broadcast_tensors(a, b)
    flat = [x.reshape(-1) for x in (a, b)]
    if not flat[0].numel() or unit.half:
        return matrix.multiply(a, b, unit)
    raw_a, raw_b = (bits(_read(x, unit)) for x in flat)
    own = exponent(raw_a) + exponent(raw_b) - 127
    dead = (exponent(raw_a) == 0) | (exponent(raw_b) == 0)
    if bool((~dead & ((own < LOWEST) | (own > HIGHEST))).any()) or _has_largest(raw_a, raw_b):
        return matrix.multiply(a, b, unit)
    tops = torch.where(dead, DEAD, own).to(torch.int32) << 23
    parts_a, parts_b = _parts(raw_a, 5, 10, 1 + 2.0**-13), _parts(raw_b, 7, 11)
    out = torch.empty(flat[0].shape)
    for first in range(0, out.numel(), CHUNK):
        at = slice(first, first + CHUNK)
        work = _Work(out[at].shape, unit)
        both = [tops[at], torch.full_like(tops[at], DEAD << 23)]
        for p in range(unit.phases):
            work.step(parts_a[p & 1][None, at], parts_b[p >> 1][None, at], 0, 1, both, OFFSETS[p])
        out[at] = work.dest
        errata.note(work.hits)
    return out.reshape(a.shape)


def add(a: Tensor, b: Tensor, unit: Unit, subtract: bool = False) -> Tensor:
    """`matrix.add`, in float32. An infinity, as a mask has it, swallows any ordinary number."""
    if unit.half:
        return matrix.add(a, b, unit, subtract)
    raw = [bits(_read(x, unit)) for x in (a, b)]
    infinite = [pattern & ~SIGN == INFINITY for pattern in raw]
    masked = bool(infinite[0].any() or infinite[1].any())
    if masked:
        if bool((infinite[0] & infinite[1]).any()):
            return matrix.add(a, b, unit, subtract)
        kept = [torch.where(is_infinite, 0, pattern) for is_infinite, pattern in zip(infinite, raw)]
    else:
        kept = raw
    for pattern in kept:
        field = exponent(pattern)
        if bool(((field > 0) & (field < 30) | (field > 220)).any()):
            return matrix.add(a, b, unit, subtract)
    total = _sum(kept[0], kept[1], unit, subtract)
    if masked:
        flip = SIGN if subtract else 0
        total = torch.where(infinite[0], raw[0].view(torch.float32), total)
        total = torch.where(infinite[1], (raw[1] ^ flip).view(torch.float32), total)
    return total


def _sum(raw_a: Tensor, raw_b: Tensor, unit: Unit, subtract: bool) -> Tensor:
    first, second = (torch.where(p & INFINITY == 0, 0, p).view(torch.float32) for p in (raw_a, raw_b))
    top = bits(torch.maximum(first.abs(), second.abs())) & INFINITY
    top = top.clamp_(min=DEAD << 23) - (DEAD << 23)
    inverse = ((254 << 23) - top).view(torch.float32)
    aligned = [(x * inverse).mul_(1 + 2.0**-12).round_() for x in (first, second)]
    total = (aligned[0] - aligned[1] if subtract else aligned[0] + aligned[1]) + 0.0
    if not unit.fp32_dest:
        total.view(torch.int32).add_(0x8000).bitwise_and_(-0x10000)
    return total.mul_(top.view(torch.float32))


def _has_largest(*patterns: Tensor) -> bool:
    return any(bool((exponent(p) == 255).any()) for p in patterns)


def _exact(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None) -> Tensor:
    """`matrix.matmul` in pieces that fit in a cache."""
    batch = max(in0.shape[0], in1.shape[0])
    rows = max(1, EXACT_CHUNK // in1.shape[2])
    out = torch.empty(batch, in0.shape[1], in1.shape[2])
    for i in range(batch):
        a, b = (t[i : i + 1] if t.shape[0] > 1 else t for t in (in0, in1))
        for top in range(0, in0.shape[1], rows):
            here = slice(top, top + rows)
            begin = None if start is None else start[i : i + 1, here]
            out[i : i + 1, here] = matrix.matmul(a[:, here], b, unit, begin)
    return out


def _prepare(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None) -> _Plain | None:
    """The operands' parts, or None where an exponent is out of range whatever meets what."""
    b, a = (bits(_read(x, unit)) for x in (in0, in1))
    fields = [exponent(b), exponent(a)]
    most = [int(f.max()) for f in fields]
    if max(most) == 255 or most[0] + most[1] - 127 + math.ceil(math.log2(in0.shape[-1] + 1)) > HIGHEST:
        return None
    if start is not None:
        held = exponent(bits(start))
        if bool(((held > 0) & (held < LOWEST - 12)).any()) or int(held.max()) > HIGHEST:
            return None
    least = [int(torch.where(f > 0, f, 255).min()) for f in fields]
    zeros = any(bool((f == 0).any()) for f in fields) or in0.shape[-1] % TILE != 0
    short = [torch.where(f > 0, f, NONE).to(torch.int16) for f in fields]
    # [K, B, rows, 1] and [K, B, 1, columns]: a step's operands lie together
    src_b = [_rows_last(p) for p in _parts(b, 7, 11)]
    src_a = [p.transpose(0, 1).contiguous().unsqueeze(-2) for p in _parts(a, 5, 10, 1 + 2.0**-13)]
    depth = in0.shape[-1]
    return _Plain(
        unit=unit,
        depth=depth,
        src_a=src_a,
        src_b=src_b,
        exponent_a=short[1].transpose(0, 1).contiguous().unsqueeze(-2),
        exponent_b=_rows_last(short[0]) - 127,
        zeros=zeros,
        watch=least[0] + least[1] - 127 < LOWEST,
    )


def _read(x: Tensor, unit: Unit) -> Tensor:
    return to_source(x, unit.fp32_dest) if x.dtype == torch.float32 else x


def _rows_last(x: Tensor) -> Tensor:
    return x.permute(2, 0, 1).contiguous().unsqueeze(-1)


def _parts(pattern: Tensor, top: int, whole: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The values of the top bits of a significand, and of those after them up to `whole`."""
    pattern = torch.where(pattern & INFINITY == 0, 0, pattern)
    high = (pattern & -(HIDDEN >> top - 1)).view(torch.float32)
    kept = (pattern & -(HIDDEN >> whole - 1)).view(torch.float32)
    low = kept - high
    return (high, low) if scale == 1.0 else (high * scale, low * scale)


@dataclass(frozen=True)
class _Plain:
    """Operands whose exponents allow for float32 arithmetic, cut into the parts that meet in the phases."""

    unit: Unit
    depth: int
    src_a: Sequence[Tensor]
    src_b: Sequence[Tensor]
    exponent_a: Tensor
    exponent_b: Tensor
    zeros: bool
    """Whether a group may consist of zeros."""
    watch: bool
    """Whether a group's exponent may be too low."""

    def run(self, out: Tensor, batch: slice, rows: slice, start: Tensor | None) -> bool:
        """Fill a piece of the destination; False where an exponent turned out too low."""
        every = slice(None)
        a_at = batch if self.exponent_a.shape[1] > 1 else every
        b_at = batch if self.exponent_b.shape[1] > 1 else every
        exponent_a, exponent_b = self.exponent_a[:, a_at], self.exponent_b[:, b_at, rows]
        phases = [
            (self.src_a[p & 1][:, a_at], self.src_b[p >> 1][:, b_at, rows], OFFSETS[p]) for p in range(self.unit.phases)
        ]
        work = _Work(out.shape, self.unit)
        if start is not None:
            work.dest.copy_(start)
        for tile in range(0, self.depth, TILE):
            tops = []
            for k in range(tile, tile + TILE, GROUP):
                top = self._top(exponent_a, exponent_b, k, work)
                if top is None:
                    return False
                tops.append(top)
            for src_a, src_b, offset in phases:
                for half in range(2):
                    work.step(src_a, src_b, tile + half * STEP, self.depth, tops[2 * half : 2 * half + 2], offset)
        out.copy_(work.dest)
        errata.note(work.hits)
        return True

    def _top(self, exponent_a: Tensor, exponent_b: Tensor, first: int, work: _Work) -> Tensor | None:
        """The largest exponent of a group's products, in its place in a float32; None where it is too low."""
        top = torch.full(work.shape, NONE, dtype=torch.int16)
        for k in range(first, min(first + GROUP, self.depth)):
            torch.add(exponent_a[k], exponent_b[k], out=work.short)
            torch.maximum(top, work.short, out=top)
        if self.watch and bool(((top < LOWEST) & (top > NONE // 2)).any()):
            return None
        if self.zeros:
            top.clamp_(min=DEAD)
        return top.to(torch.int32).bitwise_left_shift_(23)


class _Work:
    """The destination and the space that its steps need."""

    def __init__(self, shape: Sequence[int], unit: Unit) -> None:
        self.shape = tuple(shape)
        self.unit = unit
        self.dest = torch.zeros(self.shape)
        self.short = torch.empty(self.shape, dtype=torch.int16)
        self.sums = [torch.empty(self.shape) for _ in range(2)]
        self.starts = [torch.empty(self.shape, dtype=torch.int32) for _ in range(2)]
        self.top = torch.empty(self.shape, dtype=torch.int32)
        self.field = torch.empty(self.shape, dtype=torch.int32)
        self.hits = 0

    def step(self, src_a: Tensor, src_b: Tensor, first: int, depth: int, tops: Sequence[Tensor], offset: int) -> None:
        """16 products from `first` on, added to the destination."""
        top, field = self.top, self.field
        torch.bitwise_and(self.dest.view(torch.int32), INFINITY, out=top)
        for group, (total, start, own) in enumerate(zip(self.sums, self.starts, tops)):
            if offset:
                own = torch.sub(own, offset << 23, out=start)
                own.clamp_(min=DEAD << 23)
            torch.maximum(top, own, out=top)
            torch.add(own, 13 << 23 | 0x400000, out=start)
            zero = start.view(torch.float32)
            ks = range(first + group * GROUP, min(first + (group + 1) * GROUP, depth))
            if not ks:
                total.zero_()
                continue
            torch.addcmul(zero, src_a[ks[0]], src_b[ks[0]], out=total)
            for k in ks[1:]:
                total.addcmul_(src_a[k], src_b[k])
            total -= zero
        top.clamp_(min=DEAD << 23)
        top -= DEAD << 23
        torch.neg(top, out=field).add_(254 << 23)
        unit, inverse = top.view(torch.float32), field.view(torch.float32)
        if self.unit.fp32_dest:
            self._wide(unit, inverse)
        else:
            self._narrow(unit, inverse)

    def _narrow(self, unit: Tensor, inverse: Tensor) -> None:
        """The three in units of 2^-10, their sum rounded to 8 bits, halves away from zero."""
        dest = self.dest
        dest.mul_(inverse).mul_(1 + 2.0**-12).round_()
        for total in self.sums:
            dest += total.mul_(inverse).add_(0.5 + 2.0**-14).floor_()
        dest.view(torch.int32).add_(0x8000).bitwise_and_(-0x10000)
        dest *= unit

    def _wide(self, unit: Tensor, inverse: Tensor) -> None:
        """The three in units of 2^-23, in float64, their sum rounded to 24 bits, halves away from zero."""
        whole = self.dest.mul_(inverse).double().mul_(8192 * (1 + 2.0**-25)).round_()
        for total in self.sums:
            whole += total.mul_(inverse).double().mul_(8192).add_(0.5).floor_()
        if self.unit.arch == "wormhole":
            spoilt = whole == -1
            num = int(spoilt.sum())
            if num:
                self.hits += num
                whole[spoilt] = -(2.0**27)
        whole.view(torch.int64).add_(1 << 28).bitwise_and_(-(1 << 29))
        self.dest.copy_(whole)
        self.dest.mul_(2.0**-13).mul_(unit)


def arch_of(arch: str) -> Arch:
    return "wormhole" if arch.startswith("wormhole") else "blackhole"
