"""Convolution and pooling, in ttnn's flattened channels-last form: [1, 1, batch*height*width, channels]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from proveout.chip.device_op import MATRIX, POOL, DeviceOp, Work
from proveout.kernels import cuts
from proveout.kernels.device_ops import SHARDED, tilize_ops
from proveout.kernels.faithful.products import convolution, transposed_convolution
from proveout.kernels.faithful.settings import for_convolution
from proveout.kernels.row import FLOAT, Call, Faithful, Kernel, Params, Specs, Weight
from proveout.kernels.windows import Window
from proveout.program import Construct
from proveout.types import DRAM, L1, TensorSpec

Tensor = torch.Tensor
Ints = Sequence[int]
SHARDS = 64
"""Pieces that a halo is exchanged between: about one a core."""


def _unflatten(x: Tensor, batch: int, height: int, width: int, channels: int) -> Tensor:
    """As torch takes it, channels-last in memory: the order of sums must not follow from how a tensor came here."""
    image = x.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    return image.contiguous(memory_format=torch.channels_last)


def _flatten(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(1, 1, -1, x.shape[1])


def conv2d(
    input_tensor: Tensor,
    weight_tensor: Tensor,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Ints,
    stride: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    dtype: torch.dtype | None = None,
    bias_tensor: Tensor | None = None,
) -> Tensor:
    x = _unflatten(input_tensor, batch_size, input_height, input_width, in_channels)
    bias = bias_tensor.reshape(-1).to(x.dtype) if bias_tensor is not None else None
    if len(padding) == 4:  # (top, bottom, left, right)
        top, bottom, left, right = padding
        x, padding = F.pad(x, (left, right, top, bottom)), (0, 0)
    y = F.conv2d(x, weight_tensor.to(x.dtype), bias, tuple(stride), tuple(padding), tuple(dilation), groups)
    return _flatten(y if dtype is None else y.to(dtype))


def conv_transpose2d(
    input_tensor: Tensor,
    weight_tensor: Tensor,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Ints,
    stride: Ints = (1, 1),
    padding: Ints = (0, 0),
    output_padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    dtype: torch.dtype | None = None,
    bias_tensor: Tensor | None = None,
) -> Tensor:
    """The weight is torch's: [in_channels, out_channels / groups, height, width]."""
    x = _unflatten(input_tensor, batch_size, input_height, input_width, in_channels)
    weight = weight_tensor.to(x.dtype)
    bias = bias_tensor.reshape(-1).to(x.dtype) if bias_tensor is not None else None
    step, edge, more, gap = (tuple(v) for v in (stride, padding, output_padding, dilation))
    y = F.conv_transpose2d(x, weight, bias, step, edge, more, groups, gap)
    return _flatten(y if dtype is None else y.to(dtype))


def conv_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    kh, kw = specs["kernel_size"]
    positions, out_channels = outputs[0].shape[-2:]
    return Work(
        2.0 * specs["in_channels"] / specs.get("groups", 1) * kh * kw * positions * out_channels, MATRIX, phased=True
    )


def max_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool = False,
) -> Tensor:
    x = _unflatten(input_tensor, batch_size, input_h, input_w, channels)
    y = F.max_pool2d(x, tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation), ceil_mode)
    return _flatten(y)


def avg_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    x = _unflatten(input_tensor, batch_size, input_h, input_w, channels)
    window, step, edge = tuple(kernel_size), tuple(stride), tuple(padding)
    return _flatten(F.avg_pool2d(x, window, step, edge, ceil_mode, count_include_pad, divisor_override))


def pool_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    kh, kw = specs["kernel_size"]
    return Work(float(kh * kw * outputs[0].numel), POOL)


def conv_ops(call: Call) -> list[DeviceOp]:
    """To shards, halo, convolution, back; a 1 × 1 window over all pixels is a tilise and a matrix product, and from or
    to L1 its bias is added after that. Groups cost as much as none: ttnn fills their weights up with zeros."""
    specs, out = call.specs, call.out
    source: TensorSpec = specs["input_tensor"]
    window, stride = tuple(specs["kernel_size"]), tuple(specs.get("stride", (1, 1)))
    depth = math.prod(window) * source.shape[-1]
    weight = TensorSpec((depth, out.shape[-1]), out.dtype, "tile", DRAM)
    if window == stride == (1, 1) and not any(specs.get("padding", (0, 0))):
        tiled = replace(source, layout="tile")
        product = replace(call.work, ops=2.0 * math.prod(out.padded_shape) * tiled.padded_shape[-1])
        weight = replace(weight, dtype=_weights_dtype(specs))
        if _bias(specs) and "l1" in (tiled.memory.buffer, out.memory.buffer):
            plain, bias = replace(out, memory=DRAM), replace(weight, shape=(1, out.shape[-1]))
            matmul = DeviceOp("matmul", (tiled, weight), (plain,), product, call.fidelity)
            return [*tilize_ops(source, tiled), matmul, DeviceOp("binary", (plain, bias), call.outputs)]
        matmul = DeviceOp("matmul", (tiled, weight), call.outputs, product, call.fidelity, params=_bias(specs))
        return [*tilize_ops(source, tiled), matmul]
    dense = replace(call.work, ops=2.0 * depth * out.numel)
    slides = _window(specs, "input_height", "input_width", "in_channels", out.shape[-1])
    params = (("window", slides), ("weights", _weights_dtype(specs)), *_bias(specs), *_shards(specs))
    haloed, ops = _haloed(source, slides, params)
    made = replace(out, memory=SHARDED)
    return [
        *ops,
        DeviceOp("conv", (haloed, weight), (made,), dense, call.fidelity, params=params),
        DeviceOp("sharded to interleaved", (made,), (out,)),
    ]


def _weights_dtype(specs: Specs) -> str:
    config = specs.get("conv_config")
    asked = config.by_name.get("weights_dtype") if isinstance(config, Construct) else None
    return str(asked).removeprefix("ttnn.") if asked is not None else str(specs["weight_tensor"].dtype)


def _shards(specs: Specs) -> Params:
    """How a Conv2dConfig asks for the shards, and on how many cores: what the time depends on."""
    config = specs.get("conv_config")
    if not isinstance(config, Construct):
        return ()
    asked = str(config.by_name.get("shard_layout") or "")
    found: list[tuple[str, Any]] = []
    found += [("shards", word.lower()) for word in ("HEIGHT", "BLOCK", "WIDTH") if word in asked]
    grid = config.by_name.get("core_grid")
    if isinstance(grid, Construct):
        corners = [[int(str(n)) for n in c.by_place] for c in grid.inside("ttnn.CoreCoord")]
        sides = [int(str(n)) for n in grid.by_name.values()] if not corners else []
        cores = math.prod(sides) if sides else 0
        for (left, top), (right, bottom) in zip(corners[::2], corners[1::2]):
            cores += (right - left + 1) * (bottom - top + 1)
        found += [("on_cores", cores)] if cores > 0 else []
    return tuple(found)


def _bias(specs: Specs) -> Params:
    return (("bias", _weights_dtype(specs)),) if specs.get("bias_tensor") is not None else ()


def _window(specs: Specs, height: str, width: str, channels: str, out_channels: int) -> Window:
    padding = tuple(specs.get("padding", (0, 0)))
    down, across = (padding * 2)[:2] if len(padding) == 2 else (0, 0)
    return Window(
        specs["batch_size"],
        specs[height],
        specs[width],
        specs[channels],
        out_channels,
        tuple(specs["kernel_size"]),
        tuple(specs.get("stride", (1, 1))),
        (down, down, across, across) if len(padding) == 2 else padding,
        tuple(specs.get("dilation", (1, 1))),
        pools=height == "input_h",
    )


def pool_ops(call: Call) -> list[DeviceOp]:
    slides = _window(call.specs, "input_h", "input_w", "channels", call.source.shape[-1])
    params = (("window", slides),)
    haloed, ops = _haloed(call.source, slides, params)
    made = replace(call.out, memory=SHARDED)
    return [*ops, DeviceOp("pool", (haloed,), (made,), call.work, call.fidelity, params=params)]


def _haloed(source: TensorSpec, window: Window, params: Params) -> tuple[TensorSpec, list[DeviceOp]]:
    """The input in height shards, each with the rows of its neighbours that its windows reach into."""
    pixels = math.prod(source.shape[:-1])
    batch = max(1, pixels // max(1, window.height * window.width))
    edge = (window.size[0] - 1) * (window.width + window.size[1] - 1) * (batch + SHARDS)
    channels = -(-source.shape[-1] // 8) * 8
    held = replace(source, memory=SHARDED)
    haloed = TensorSpec((1, 1, pixels + edge, channels), "bfloat16", "row_major", SHARDED)
    halo = DeviceOp("halo", (held,), (haloed,), params=params)
    return haloed, [DeviceOp("interleaved to sharded", (source,), (held,)), halo]


def _convolution(name: str, meaning: Callable[..., Tensor], order: tuple[int, ...], **more: Any) -> Kernel:
    return Kernel(
        name,
        meaning,
        conv_work,
        "convolution",
        conv_ops,
        FLOAT,
        layout=None,
        out_layout="tile",
        host_operands=frozenset({"weight_tensor", "bias_tensor"}),
        weight=Weight("weight_tensor", order),
        **more,
    )


def _pool(name: str, meaning: Callable[..., Tensor]) -> Kernel:
    return Kernel(
        name,
        meaning,
        pool_work,
        "pool",
        pool_ops,
        frozenset({"bfloat16"}),
        layout="row_major",
        out_layout="row_major",
        out_memory=L1,
        cut=cuts.images("input_h", "input_w"),
    )


by_columns, turned = (Faithful(rule, for_convolution) for rule in (convolution, transposed_convolution))

KERNELS = [
    _convolution("ttnn.conv2d", conv2d, (2, 3, 1, 0), cut=cuts.convolution, faithful=by_columns),
    _convolution("ttnn.conv_transpose2d", conv_transpose2d, (2, 3, 0, 1), faithful=turned),
    _pool("ttnn.max_pool2d", max_pool2d),
    _pool("ttnn.avg_pool2d", avg_pool2d),
]
