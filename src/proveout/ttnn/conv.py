"""Convolutions as ttnn calls them: weights prepared on the device, output sizes told, configs heeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proveout.kernels.blockfloat import FORMATS, quantise
from proveout.kernels.conv import window_of
from proveout.kernels.table import kernels
from proveout.kernels.windows import conv_shards, out_shards
from proveout.ttnn.buffers import Buffer
from proveout.ttnn.calls import run, serves
from proveout.ttnn.configs import Config
from proveout.ttnn.device import Device
from proveout.ttnn.functions import deallocate
from proveout.ttnn.memory import DRAM_MEMORY_CONFIG, CoreGrid, CoreRangeSet, MemoryConfig, config_of
from proveout.ttnn.tensor import Tensor
from proveout.types import DRAM, HOST, Memory, Sharding


def prepare(weight: Tensor, device: Device, kernel: str = "ttnn.conv2d", dtype: str | None = None) -> Tensor:
    """A weight or bias on the device, in the format of the config. Its shape stays torch's here, where ttnn's becomes a
    matrix of tiles."""
    if weight.device() is not None:
        return weight
    device.refuse_in_capture("Writes are not supported during trace capture: prepare weights before it.")
    host = packed(weight, kernel, dtype)
    spec = replace(host.spec, memory=DRAM)
    buffer = device.memories.allocate(spec)
    buffer.write(host.data)
    buffer.alias = (host.buffer, host.spec)
    return Tensor(spec, buffer, device)


def packed(weight: Tensor, kernel: str, dtype: str | None) -> Tensor:
    """The weight on the host as its format holds it; block floats share exponents along the channels out."""
    if dtype not in FORMATS or weight.spec.memory != HOST:
        return weight
    held_as = kernels()[kernel].weight
    assert held_as is not None
    order = held_as.order
    matrix = weight.data.permute(order)
    held = quantise(matrix.reshape(-1, matrix.shape[-1]), dtype, "host").reshape(matrix.shape)
    back = [order.index(i) for i in range(4)]
    return Tensor(weight.spec, Buffer(held.permute(back).contiguous().to(weight.data.dtype)))


def _convolution(kernel: str) -> Callable[..., Any]:
    def convolve(
        return_output_dim: bool = False, return_weights_and_bias: bool = False, **bound: Any
    ) -> Tensor | tuple[Any, ...]:
        config = bound.get("conv_config")
        fields = config.fields if isinstance(config, Config) else {}
        dtype = fields["weights_dtype"].text.removeprefix("ttnn.") if fields.get("weights_dtype") else None
        keep: dict[str, Tensor] = {n: t for n, t in bound.items() if n in ("weight_tensor", "bias_tensor")}
        if return_weights_and_bias:
            formats = {"weight_tensor": dtype}
            keep = {name: prepare(t, bound["device"], kernel, formats.get(name)) for name, t in keep.items()}
        else:
            keep["weight_tensor"] = packed(keep["weight_tensor"], kernel, dtype)
        if isinstance(config, Config):
            bound["conv_config"] = config.without("deallocate_activation")
        placed = left_in(kernel, bound, fields)
        if placed is not None:
            bound["memory_config"] = placed
        bound.pop("mirror_kernel", None)
        result = run(kernel, {**bound, **keep})
        if fields.get("deallocate_activation"):
            deallocate(bound["input_tensor"])
        more: list[Any] = [output_size(kernel, bound)] if return_output_dim else []
        if return_weights_and_bias:
            more.append((keep["weight_tensor"], keep.get("bias_tensor")))
        return (result, *more) if more else result

    return convolve


def left_in(kernel: str, bound: dict[str, Any], fields: dict[str, Any]) -> MemoryConfig | None:
    """The shards that a convolution leaves its result in. From DRAM or the host it comes back to DRAM, but for a 1 × 1
    window of asked-for shards; from L1 it stays in shards: in the input's kind, and on its cores, unless the config may
    reshard it; else in the config's kind, or in what takes less L1."""
    source: Tensor = bound["input_tensor"]
    if "memory_config" in bound:
        return None
    layout = _LAYOUTS.get(getattr(fields.get("shard_layout"), "name", ""))
    one = tuple(bound["kernel_size"]) == tuple(bound.get("stride", (1, 1))) == (1, 1)
    pixel = one and not any(bound.get("padding", (0, 0))) and kernel == "ttnn.conv2d"
    memory = source.spec.memory
    if memory.buffer != "l1" and not (pixel and layout in ("height", "block")):
        return None
    chip = bound["device"].spec
    window = window_of(bound, "input_height", "input_width", "in_channels", bound["out_channels"])
    resharding = fields.get("reshard_if_not_optimal") or fields.get("override_sharding_config")
    kind, cores = layout, _cores(fields.get("core_grid"))
    if memory.is_sharded and not (resharding and layout):
        kind = memory.sharding
        cores = memory.shard.grid if memory.shard is not None else None
    elif kind is None:
        if pixel:
            return DRAM_MEMORY_CONFIG
        kind = "block" if conv_shards(window, source.spec.dtype, chip).kind == "block" else "height"
    shard = out_shards(window, kind, chip, cores)
    if memory.shard is not None and cores == memory.shard.grid:
        shard = replace(shard, grid=cores)  # the input's cores, though some may have nothing left to do
    return config_of(Memory("l1", kind, shard))


def _cores(grid: CoreRangeSet | None) -> tuple[int, int] | None:
    if grid is None:
        return None
    if isinstance(grid, CoreGrid):
        return grid.x, grid.y
    box = grid.bounding_box()
    return box.end.x - box.start.x + 1, box.end.y - box.start.y + 1


_LAYOUTS: dict[str, Sharding] = {"HEIGHT_SHARDED": "height", "BLOCK_SHARDED": "block", "WIDTH_SHARDED": "width"}

for _row in kernels().values():
    if _row.kind == "convolution":
        serves(_row.name)(_convolution(_row.name))


def output_size(kernel: str, bound: dict[str, Any]) -> tuple[int, int]:
    """Height and width of the result."""
    padding = tuple(bound.get("padding", (0, 0)))
    if len(padding) == 2:
        padding = (padding[0], padding[0], padding[1], padding[1])
    sizes = []
    for axis, size in enumerate((bound["input_height"], bound["input_width"])):
        window, edge = bound["kernel_size"][axis], padding[2 * axis] + padding[2 * axis + 1]
        stride, gap = bound.get("stride", (1, 1))[axis], bound.get("dilation", (1, 1))[axis]
        reach = gap * (window - 1)
        if kernel == "ttnn.conv_transpose2d":
            sizes.append((size - 1) * stride - edge + reach + bound.get("output_padding", (0, 0))[axis] + 1)
        else:
            sizes.append((size + edge - reach - 1) // stride + 1)
    return sizes[0], sizes[1]


def prepare_conv_weights(*, weight_tensor: Tensor, device: Device, **described: Any) -> Tensor:
    """A convolution's weight on the device, for calls that are to be captured; the rest is what the call will say."""
    config = described.get("conv_config")
    dtype = config.fields.get("weights_dtype") if isinstance(config, Config) else None
    return prepare(weight_tensor, device, "ttnn.conv2d", dtype.text.removeprefix("ttnn.") if dtype else None)


def prepare_conv_bias(*, bias_tensor: Tensor, device: Device, **described: Any) -> Tensor:
    return prepare(bias_tensor, device)
