"""Crossing between torch and ttnn, and changes of layout, memory and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from proveout.chip.device_op import DeviceOp
from proveout.kernels import cuts
from proveout.kernels.blockfloat import FORMATS
from proveout.kernels.device_ops import nothing, tilize_ops
from proveout.kernels.pieces import WHOLE, MeshArgument, Pieces
from proveout.kernels.row import Call, Kernel, Specs, one_op
from proveout.kernels.table import resolve
from proveout.program import Name
from proveout.reasons import Kind, Reason
from proveout.types import HOST, Memory

TO_DTYPE_ON_HOST = Kind("to-dtype-on-host", "ttnn.to_dtype takes tensors on the host; use ttnn.typecast")
BLOCK_FLOAT_LAYOUT = Kind("block-float-layout", "Layout must be Layout::TILE for bfloat8_b or bfloat4_b!")


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
    if not (dtype.is_floating_point or dtype.is_complex) and input_tensor.is_floating_point():
        return input_tensor.trunc().to(dtype)
    return input_tensor.to(dtype)


def clone(input: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    return input.to(dtype) if dtype is not None else input


def to_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """On the host: what a cast means on the device is `typecast`'s business."""
    return tensor.to(dtype)


def _on_host(specs: Specs) -> Reason | None:
    return None if specs["tensor"].memory == HOST else TO_DTYPE_ON_HOST()


def deallocate(tensor: torch.Tensor, force: bool = True) -> Any:
    return None


def _needs_tiles(specs: Specs) -> Reason | None:
    dtype = specs.get("dtype")
    name = dtype.text.removeprefix("ttnn.") if isinstance(dtype, Name) else ""
    if name in FORMATS and resolve(specs.get("layout")) != "tile":
        return BLOCK_FLOAT_LAYOUT()
    return None


def to_layout_ops(call: Call) -> list[DeviceOp]:
    return tilize_ops(call.source, call.out)


def to_memory_config_ops(call: Call) -> list[DeviceOp]:
    if call.source.memory == call.out.memory:
        return []
    before, after = (t.memory.is_sharded for t in (call.source, call.out))
    family = {
        (False, False): "copy",
        (False, True): "interleaved to sharded",
        (True, False): "sharded to interleaved",
        (True, True): "reshard",
    }[before, after]
    return [DeviceOp(family, (call.source,), (call.out,))]


def _without_device(specs: Specs) -> Memory | None:
    return None if "device" in specs or "memory_config" in specs else HOST


KERNELS = [
    Kernel(
        "ttnn.from_torch",
        from_torch,
        kind="transfer",
        layout=None,
        fixed_memory=_without_device,
        refuse=_needs_tiles,
        takes_host=True,
        packs="host",
        view=True,
        across=from_torch_across,
    ),
    Kernel("ttnn.to_torch", to_torch, kind="transfer", layout=None, view=True, across=to_torch_across),
    Kernel("ttnn.from_device", cross, kind="transfer", layout=None, out_memory=HOST, view=True),
    Kernel("ttnn.to_device", cross, kind="transfer", layout=None, takes_host=True, view=True),
    Kernel(
        "ttnn.to_layout",
        to_layout,
        kind="layout",
        device_ops=to_layout_ops,
        layout=None,
        takes_host=True,
        view=True,
        cut=cuts.elementwise,
    ),
    Kernel(
        "ttnn.to_memory_config",
        to_memory_config,
        kind="memory",
        device_ops=to_memory_config_ops,
        layout=None,
        view=True,
        cut=cuts.elementwise,
    ),
    Kernel(
        "ttnn.typecast",
        typecast,
        kind="cast",
        device_ops=one_op("unary", "Typecast"),
        packs="device",
        view=True,
        cut=cuts.elementwise,
    ),
    Kernel("ttnn.clone", clone, kind="move", device_ops=one_op("copy", "CloneOperation"), layout=None, view=True),
    Kernel("ttnn.reallocate", cross, kind="move", device_ops=one_op("copy", "Move"), layout=None, view=True),
    Kernel(
        "ttnn.to_dtype",
        to_dtype,
        kind="cast",
        device_ops=nothing,
        layout=None,
        out_memory=HOST,
        refuse=_on_host,
        takes_host=True,
        packs="host",
        view=True,
    ),
    Kernel("ttnn.deallocate", deallocate, kind="free", layout=None),
]
