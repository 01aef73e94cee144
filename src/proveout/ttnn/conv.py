"""Convolutions as ttnn calls them: weights prepared on the device, output sizes told, configs heeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proveout.kernels.blockfloat import FORMATS, quantise
from proveout.kernels.table import kernels
from proveout.ttnn.buffers import Buffer
from proveout.ttnn.calls import run, serves
from proveout.ttnn.configs import Config
from proveout.ttnn.device import Device
from proveout.ttnn.functions import deallocate
from proveout.ttnn.tensor import Tensor
from proveout.types import DRAM, HOST


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
        bound.pop("mirror_kernel", None)
        result = run(kernel, {**bound, **keep})
        if fields.get("deallocate_activation"):
            deallocate(bound["input_tensor"])
        more: list[Any] = [output_size(kernel, bound)] if return_output_dim else []
        if return_weights_and_bias:
            more.append((keep["weight_tensor"], keep.get("bias_tensor")))
        return (result, *more) if more else result

    return convolve


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
