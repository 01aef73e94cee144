"""How wrong a function is: units in the last place against float64, as Tenstorrent's accuracy report counts them.

The float64 result is rounded to the format; |found - that| is divided by the distance from it to the next number away
from zero. Denormals count as 0 on both sides; left out are infinities, NaN, results of 0 where the exact one is
not, and errors that float32 cannot hold. bfloat16 is swept whole, float32 by 128 numbers an exponent and sign: its
maximum is a lower bound.
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


def measure(function: Callable[[Tensor], Tensor], exact: Callable[[Tensor], Tensor], dtype: str) -> Wrong:
    """`function` of float32 values (bfloat16 among them) against `exact` of float64 ones."""
    x = numbers(dtype)
    found = _flushed(function(x).double())
    with torch.no_grad():
        wanted = exact(x.double())
    near = _flushed(_rounded(wanted, dtype))
    last = _last_place(near, dtype)
    known = torch.isfinite(near) & torch.isfinite(found) & torch.isfinite(wanted)
    known &= (found != 0) | (near == 0)
    error = torch.where(known, (found - near).abs() / last, 0.0)
    error = torch.where(error < torch.finfo(torch.float32).max, error, 0.0)  # the report keeps errors in float32
    worst = int(error.argmax())
    inexact = error[error > 0]
    mean = float(inexact.mean()) if inexact.numel() else None
    return Wrong(float(error[worst]), mean, float(x[worst]))


@functools.cache
def numbers(dtype: str) -> Tensor:
    """Every normal bfloat16, or the same exponents with drawn bits after the point."""
    short = torch.arange(1 << 16, dtype=torch.int32) << 16
    if dtype == "float32":
        drawn = torch.randint(0, 1 << 16, (1, 1 << 16), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
        short = (short | drawn).reshape(-1)
    x = floats(short)
    return x[torch.isfinite(x) & (x.abs() >= SMALLEST) | (x == 0)]


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
