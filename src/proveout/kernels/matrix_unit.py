"""The matrix unit's arithmetic, bit by bit: fidelity phases, accumulation in the destination, element-wise, reduce.

Operands are read as TF32: 11 bits of significand, the rest cut off, denormals as 0 (bfloat16 and block floats fit
whole). The multiplier takes 5 bits of SrcA and 7 of SrcB at a time:

| phase | SrcA | SrcB | |
|---|---|---|---|
| 0 | top 5 | top 7 | LoFi |
| 1 | next 5 | top 7 | HiFi2 adds this one |
| 2 | top 5 | low 4 | HiFi3 |
| 3 | next 5 | low 4 | HiFi4 |

A matrix product is made of steps of 16 along K. Their order for one element of the result: for each tile of K (32), for
each phase, for each half of the tile: the 16 products are added in float32 one after another, starting from 0, and
the sum is added to the destination, which is bfloat16 (rounded to nearest even at every step) or float32. Padding adds
zeros and changes nothing. No denormal is ever produced: 0 takes its place.

What public documents leave open, and what stands here for it: the order inside a step of 16 and the destination's
rounding (nearest even; ties away gives the same anchors). Infinities and NaN are IEEE's, and in phase 0 alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from proveout.chip.fidelity import PHASES
from proveout.types import TILE

Tensor = torch.Tensor

STEP = 16
SRC_A_FIRST = ((0, 0), (1, 0), (0, 1), (1, 1))
"""Per phase, which part of SrcA meets which part of SrcB."""
CHUNK = 1 << 17
"""Elements of the destination worked on at a time: what a core's cache holds."""
SMALLEST = 2.0**-126


def matmul(
    in0: Tensor,
    in1: Tensor,
    fidelity: str,
    fp32_dest: bool = False,
    block_tiles: int | None = None,
) -> Tensor:
    """The destination after `in0 @ in1`, in float32: in0 goes through SrcB, in1 (the weights) through SrcA.

    With `block_tiles`, the packer adds the destination to a partial result in L1 after every so many tiles of K
    (`packer_l1_acc`) and the destination starts from 0 again. Without, partial results are read back unchanged.
    """
    batch = torch.broadcast_shapes(in0.shape[:-2], in1.shape[:-2])
    rows, depth, columns = in0.shape[-2], in0.shape[-1], in1.shape[-1]
    if math.prod(in1.shape[:-2]) == 1:  # one matrix of weights for all
        a, b = in0.reshape(1, -1, depth), in1.reshape(1, depth, columns)
        return _matmul(a, b, fidelity, fp32_dest, block_tiles).reshape(*batch, rows, columns)
    a = in0.expand(*batch, rows, depth).reshape(-1, rows, depth)
    b = in1.expand(*batch, depth, columns).reshape(-1, depth, columns)
    return _matmul(a, b, fidelity, fp32_dest, block_tiles).reshape(*batch, rows, columns)


def multiply(a: Tensor, b: Tensor, fidelity: str, fp32_dest: bool = False) -> Tensor:
    """Element by element, the first operand through SrcA: each phase's product is added to the destination."""
    parts_a, parts_b = split(a, 5, 10), split(b, 7, 11)
    dest = torch.zeros(torch.broadcast_shapes(a.shape, b.shape))
    write = _writer(fp32_dest)
    for a_part, b_part in _phases(parts_a, parts_b, fidelity):
        dest = write(dest + flush(a_part * b_part))
    return dest


def add(a: Tensor, b: Tensor, fp32_dest: bool = False) -> Tensor:
    """Element by element; no phases. Subtraction is the addition of the negative."""
    return _writer(fp32_dest)(read(a) + read(b))


def total(x: Tensor, dim: int, scale: float, fidelity: str, fp32_dest: bool = True) -> Tensor:
    """Sum over one dimension times `scale`, which is kept as one element of size 1: a matrix product with a row of
    scales, the data through SrcA."""
    data = x.movedim(dim, 0)
    row = torch.full((1, 1, data.shape[0]), scale)
    summed = _matmul(row, data.reshape(1, data.shape[0], -1), fidelity, fp32_dest, None)
    return summed.reshape(data.shape[1:]).unsqueeze(dim % x.dim())


def read(x: Tensor) -> Tensor:
    """An operand as SrcA and SrcB hold it."""
    return flush(_top(x.float(), 11))


def split(x: Tensor, top: int, whole: int) -> tuple[Tensor, Tensor]:
    """An operand's significand in two: the top bits, and those after them up to `whole`."""
    kept = _top(read(x), whole)
    high = _top(kept, top)
    return high, torch.nan_to_num(kept - high)


def flush(x: Tensor) -> Tensor:
    """Denormals as 0."""
    return torch.where(x.abs() < SMALLEST, 0.0, x)


def to_bfloat16(x: Tensor) -> Tensor:
    """A float32 destination as the packer writes it to bfloat16: to nearest, ties away from zero."""
    near = (x.view(torch.int32) + 0x8000 & -0x10000).view(torch.float32)
    return torch.where(torch.isfinite(x), near, x).to(torch.bfloat16)


def _top(x: Tensor, bits: int) -> Tensor:
    """The top bits of a float32 significand, its implied one among them."""
    cut: Tensor = (x.contiguous().view(torch.int32) & -(1 << 24 - bits)).view(torch.float32)
    return torch.where(torch.isfinite(x), cut, x)


def _phases(src_a: Sequence[Tensor], src_b: Sequence[Tensor], fidelity: str) -> list[tuple[Tensor, Tensor]]:
    """The parts that meet in each phase; what is not finite takes part in the first alone."""
    pairs = [(src_a[i], src_b[j]) for i, j in SRC_A_FIRST[: PHASES[fidelity]]]
    return [pairs[0], *((_finite(a), _finite(b)) for a, b in pairs[1:])]


def _finite(x: Tensor) -> Tensor:
    found = torch.isfinite(x)
    return x if found.all() else torch.where(found, x, 0.0)


def _writer(fp32_dest: bool) -> Callable[[Tensor], Tensor]:
    return flush if fp32_dest else lambda x: flush(x.to(torch.bfloat16).float())


def _matmul(in0: Tensor, in1: Tensor, fidelity: str, fp32_dest: bool, block_tiles: int | None) -> Tensor:
    batch, rows, depth = in0.shape
    columns = in1.shape[-1]
    # [part][K, batch, rows, 1] and [part][K, batch, 1, columns]: a step's operands lie together
    src_b = [p.permute(2, 0, 1).contiguous().unsqueeze(-1) for p in split(in0, 7, 11)]
    src_a = [p.transpose(0, 1).contiguous().unsqueeze(-2) for p in split(in1, 5, 10)]
    plain = _never_odd(src_a, src_b, depth)
    phases = _phases(src_a, src_b, fidelity)
    if plain:
        phases = [(a, b) for a, b in phases if a.any() and b.any()]
    out = torch.zeros(batch, rows, columns)
    num_batches = max(1, CHUNK // max(1, rows * columns))
    num_rows = max(1, CHUNK // max(1, columns))
    for first in range(0, batch, num_batches):
        at = slice(first, first + num_batches)
        for top in range(0, rows, num_rows):
            here = slice(top, top + num_rows)
            operands = [(b[:, at, here], a[:, at]) for a, b in phases]
            _accumulate(out[at, here], operands, depth, fp32_dest, block_tiles, plain)
    return out


def _accumulate(
    out: Tensor,
    phases: Sequence[tuple[Tensor, Tensor]],
    depth: int,
    fp32_dest: bool,
    block_tiles: int | None,
    plain: bool,
) -> None:
    dest = torch.zeros_like(out)
    step = torch.empty_like(out)
    partial: Tensor | None = None
    write = _writer(fp32_dest)
    for tile in range(0, depth, TILE):
        for x, y in phases:
            for start in range(tile, min(tile + TILE, depth), STEP):
                ks = range(start, min(start + STEP, depth))
                if plain:
                    torch.mul(x[start], y[start], out=step)
                    for k in ks[1:]:
                        step.addcmul_(x[k], y[k])
                    dest += step
                    if not fp32_dest:
                        dest.copy_(dest.to(torch.bfloat16))
                else:
                    step.zero_()
                    for k in ks:
                        step.copy_(flush(step + flush(x[k] * y[k])))
                    dest.copy_(write(dest + step))
        if block_tiles and (tile // TILE + 1) % block_tiles == 0:
            partial = dest.clone() if partial is None else write(partial + dest)
            dest.zero_()
    if partial is None:
        out.copy_(dest)
    else:
        whole = depth % (TILE * (block_tiles or 1)) == 0
        out.copy_(partial if whole else write(partial + dest))


def _never_odd(src_a: Sequence[Tensor], src_b: Sequence[Tensor], depth: int) -> bool:
    """Whether no product or sum can leave float32's normal range: then each product is exact, it does not matter
    whether it is rounded before it is added, and there is nothing to flush."""
    if not src_a[0].numel() or not src_b[0].numel():
        return True
    most = math.prod(float(max(p.abs().max() for p in parts)) for parts in (src_a, src_b))
    least = math.prod(min(_least(p) for p in parts) for parts in (src_a, src_b))
    return most * max(depth, 1) * 4 < 2.0**126 and least * 2.0**-10 >= SMALLEST


def _least(x: Tensor) -> float:
    """The smallest magnitude that is not 0."""
    return float(torch.where(x == 0, math.inf, x.abs()).min())
