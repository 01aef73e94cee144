"""How wrong a function is: units in the last place against float64, as Tenstorrent's accuracy report counts them.

The float64 result is rounded to the format; |found - that| is divided by the distance from it to the next number away
from zero. Denormals count as 0 on both sides; left out are infinities, NaN, results of 0 where the exact one is
not, and errors that float32 cannot hold. bfloat16 is swept whole, float32 by 128 numbers an exponent and sign, more
between 1/16 and 32, and the neighbours of every bfloat16 there: its maximum is a lower bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from proveout.kernels.arithmetic.bits import Tensor, bits, floats

SMALLEST = 2.0**-126


@dataclass(frozen=True)
class Wrong:
    """Largest error, and the mean where there is one."""

    largest: float
    mean: float | None
    worst_at: float


def measure(function: Callable[..., Tensor], exact: Callable[..., Tensor], dtype: str, operands: int = 1) -> Wrong:
    """`function` of float32 values (bfloat16 among them) against `exact` of float64 ones. The mean is that of the
    first numbers; around the worst of them, where not all were taken, the maximum is looked for again and again."""
    operand_values = tuples(dtype, operands)
    error = errors(function, exact, dtype, operand_values)
    inexact = error[error > 0]
    mean = float(inexact.mean()) if inexact.numel() else None
    largest, worst_at = _worst(error, operand_values)
    if operands > 1 or dtype == "float32":
        for reach in REACHES[dtype]:
            operand_values = _around(operand_values, error, reach, dtype)
            error = errors(function, exact, dtype, operand_values)
            worst = _worst(error, operand_values)
            if worst[0] > largest:
                largest, worst_at = worst
    return Wrong(largest, mean, worst_at)


WORST, BESIDE = 128, 128
"""So many of the worst numbers, and so many beside each, are looked at in every round."""
REACHES = {"bfloat16": (32, 8, 2, 2), "float32": (1 << 20, 1 << 14, 1 << 8, 1 << 4, 4)}
"""How far from the worst numbers each round looks, in units in the last place."""


def _worst(error: Tensor, operands: tuple[Tensor, ...]) -> tuple[float, float]:
    index = int(error.argmax())
    return float(error[index]), float(operands[0][index])


def _around(operands: tuple[Tensor, ...], error: Tensor, reach: int, dtype: str) -> tuple[Tensor, ...]:
    at = error.topk(min(WORST, error.numel())).indices
    unit = 1 << 16 if dtype == "bfloat16" else 1
    generator = torch.Generator().manual_seed(reach)
    near = []
    for operand in operands:
        pattern = bits(operand[at]).repeat_interleave(BESIDE)
        moved = torch.randint(-reach, reach + 1, pattern.shape, generator=generator, dtype=torch.int32) * unit
        there = pattern + moved
        field = there & 0x7F800000
        near.append(floats(torch.where((field == 0) | (field == 0x7F800000) | (there ^ pattern < 0), pattern, there)))
    return tuple(near)


def errors(
    function: Callable[..., Tensor], exact: Callable[..., Tensor], dtype: str, operands: tuple[Tensor, ...]
) -> Tensor:
    """In units in the last place; 0 where the report leaves a number out."""
    result = _flushed(function(*operands).double())
    with torch.no_grad():
        wanted = exact(*(t.double() for t in operands))
    near = _flushed(_rounded(wanted, dtype))
    last = _last_place(near, dtype)
    known = torch.isfinite(near) & torch.isfinite(result) & torch.isfinite(wanted)
    known &= (result != 0) | (near == 0)
    error = torch.where(known, (result - near).abs() / last, 0.0)
    return torch.where(error < torch.finfo(torch.float32).max, error, 0.0)  # the report keeps errors in float32


@functools.cache
def numbers(dtype: str) -> Tensor:
    """Every normal bfloat16; or the same with drawn bits below, and between 1/16 and 32, where most functions have
    their edges, 8 more draws and the neighbours of every bfloat16."""
    short = torch.arange(1 << 16, dtype=torch.int32) << 16
    if dtype == "float32":
        generator = torch.Generator().manual_seed(0)
        field = short >> 23 & 255
        edges = short[(field >= 123) & (field < 132)]
        draws = [short, *([edges] * 8)]
        drawn = [s | torch.randint(0, 1 << 16, s.shape, generator=generator, dtype=torch.int32) for s in draws]
        short = torch.cat([*drawn, *(edges + by for by in range(-3, 4))])
    x = floats(short)
    return x[torch.isfinite(x) & (x.abs() >= SMALLEST) | (x == 0)]


DRAWS = {"bfloat16": 4, "float32": 1}
"""Of orders of further operands."""
ENDS = 1 << 14
"""So many more tuples of numbers at the ends of the range, where sums and products leave it."""


@functools.cache
def tuples(dtype: str, operands: int) -> tuple[Tensor, ...]:
    """All numbers; beside them, where there are several operands, a third of any exponent, a third near the first
    one's, and a third, first operand too, between 1/16 and 32; and some at the ends of the range."""
    x = numbers(dtype)
    if operands == 1:
        return (x,)
    generator = torch.Generator().manual_seed(1)
    draws = DRAWS[dtype]
    middle = x[(x.abs() >= 2.0**-4) & (x.abs() < 32)]

    def picked(among: Tensor, count: int) -> Tensor:
        return among[torch.randint(0, among.numel(), (count,), generator=generator)]

    first = x.repeat(draws)
    which = torch.randint(0, 3, first.shape, generator=generator)
    first = torch.where(which == 2, picked(middle, first.numel()), first)
    others = []
    for _ in range(operands - 1):
        pattern = bits(first) + torch.randint(-64, 65, first.shape, generator=generator, dtype=torch.int32) * (1 << 16)
        near = floats(torch.where(pattern & 0x7F800000 == 0, 0, pattern))
        anything = picked(x, first.numel())
        other = torch.where((which == 1) & torch.isfinite(near), near, anything)
        others.append(torch.where(which == 2, picked(middle, first.numel()), other))
    ends = x[(x.abs() >= 2.0**125) | (x != 0) & (x.abs() < 2.0**-123)]
    return tuple(torch.cat([operand, picked(ends, ENDS)]) for operand in (first, *others))


def _rounded(x: Tensor, dtype: str) -> Tensor:
    """float64 to nearest even, once."""
    if dtype == "float32":
        return x.float().double()
    pattern = x.view(torch.int64)
    kept = 52 - 7
    near = pattern + (1 << kept - 1) - 1 + (pattern >> kept & 1) & -(1 << kept)
    out = near.view(torch.float64)
    return torch.where(out.abs() >= 2.0**128, torch.copysign(torch.tensor(math.inf, dtype=torch.float64), x), out)


def _flushed(x: Tensor) -> Tensor:
    return torch.where(x.abs() < SMALLEST, 0.0, x)


def _last_place(x: Tensor, dtype: str) -> Tensor:
    """The distance to the next number away from zero; of 0, the smallest normal."""
    pattern = bits(x.float()) & 0x7F800000
    power = floats(pattern).double()
    return torch.where(x == 0, SMALLEST, power * 2.0 ** (-23 if dtype == "float32" else -7))
