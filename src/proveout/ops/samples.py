"""Small seeded tensors for the op table's samples."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import torch

from proveout.ops.table import Sample

Tensor = torch.Tensor


def randn(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return (torch.randn(shape, generator=_generator(f"n{shape}")) * scale).to(dtype)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.rand(shape, generator=_generator(f"u{shape}")) * (high - low) + low).to(dtype)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, shape, generator=_generator(f"i{shape}")).to(dtype)


def bools(*shape: int) -> Tensor:
    return torch.rand(shape, generator=_generator(f"b{shape}")) > 0.5


def _generator(key: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(key.encode()))


def each(*samples: Sample) -> Callable[[], Iterator[Sample]]:
    """Samples already made, as a row takes them."""
    return lambda: iter(samples)


ODD = (2, 3, 5, 7)
"""A shape that fills no tile."""
