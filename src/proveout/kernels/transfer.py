"""Crossing between torch and ttnn, and changes of layout, memory and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from proveout.kernels.blockfloat import FORMATS
from proveout.kernels.pieces import WHOLE, MeshArgument, Pieces
from proveout.kernels.table import Kernel, Specs, resolve
from proveout.program import Name
from proveout.types import HOST


def from_torch(tensor: torch.Tensor, dtype: torch.dtype | None = None, layout: str | None = None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None else tensor


def to_torch(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Contiguous, as what comes off a device is."""
    return (tensor.to(dtype) if dtype is not None else tensor).contiguous()


def from_torch_across(
    on_one: Callable[..., torch.Tensor], chips: int, tensor: torch.Tensor, mesh_mapper: MeshArgument = WHOLE, **how: Any
) -> Pieces:
    """Converted as a whole, then cut: what every chip has whole is one tensor."""
    whole = on_one(tensor=tensor, **how)
    return Pieces([whole] * chips if mesh_mapper.dim is None else whole.chunk(chips, mesh_mapper.dim))


def to_torch_across(
    tensor: Pieces | torch.Tensor, mesh_composer: MeshArgument | None = None, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """All chips' pieces joined; or one chip's own, which `ttnn.get_device_tensors` gave."""
    if isinstance(tensor, torch.Tensor):
        return to_torch(tensor, dtype)
    assert mesh_composer is not None
    assert mesh_composer.dim is not None
    return to_torch(torch.cat(tensor, mesh_composer.dim), dtype)


def to_layout(tensor: torch.Tensor, layout: str, dtype: torch.dtype | None = None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None else tensor


def to_memory_config(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None else tensor


def cross(tensor: torch.Tensor) -> torch.Tensor:
    """Between the chip and the host's memory, as it is: dtype and layout stay."""
    return tensor


def typecast(input_tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not dtype.is_floating_point and input_tensor.is_floating_point():
        return input_tensor.trunc().to(dtype)
    return input_tensor.to(dtype)


def clone(input: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    return input.to(dtype) if dtype is not None else input


def to_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """On the host: what a cast means on the device is `typecast`'s business."""
    return tensor.to(dtype)


def _on_host(specs: Specs) -> str | None:
    return None if specs["tensor"].memory == HOST else "ttnn.to_dtype takes tensors on the host; use ttnn.typecast"


def deallocate(tensor: torch.Tensor, force: bool = True) -> Any:
    return None


def _needs_tiles(specs: Specs) -> str | None:
    dtype = specs.get("dtype")
    name = dtype.text.removeprefix("ttnn.") if isinstance(dtype, Name) else ""
    if name in FORMATS and resolve(specs.get("layout")) != "tile":
        return "Layout must be Layout::TILE for bfloat8_b or bfloat4_b!"
    return None


KERNELS = [
    Kernel("ttnn.from_torch", from_torch, layout=None, refuse=_needs_tiles, view=True, across=from_torch_across),
    Kernel("ttnn.to_torch", to_torch, layout=None, view=True, across=to_torch_across),
    Kernel("ttnn.from_device", cross, layout=None, view=True),
    Kernel("ttnn.to_device", cross, layout=None, view=True),
    Kernel("ttnn.to_layout", to_layout, layout=None, view=True),
    Kernel("ttnn.to_memory_config", to_memory_config, layout=None, view=True),
    Kernel("ttnn.typecast", typecast, view=True),
    Kernel("ttnn.clone", clone, layout=None, view=True),
    Kernel("ttnn.reallocate", cross, layout=None, view=True),
    Kernel("ttnn.to_dtype", to_dtype, layout=None, refuse=_on_host, view=True),
    Kernel("ttnn.deallocate", deallocate, layout=None),
]
