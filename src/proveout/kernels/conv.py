"""Convolution and pooling, in ttnn's flattened channels-last form: [1, 1, batch*height*width, channels]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from proveout.chip.device_op import MATRIX, POOL, REDUCE, DeviceOp, Work
from proveout.chip.profile_text import ProductConfig
from proveout.kernels import cuts
from proveout.kernels.activations import after, fused_in
from proveout.kernels.device_ops import SHARDED, cores_in, tilize_ops
from proveout.kernels.faithful.products import convolution, transposed_convolution
from proveout.kernels.faithful.settings import for_convolution
from proveout.kernels.row import FLOAT, Call, Faithful, Kernel, Params, Specs, Weight
from proveout.kernels.windows import Window
from proveout.program import Construct
from proveout.reasons import RANK, Kind, Reason
from proveout.types import DRAM, L1, TILE, Sharding, TensorSpec

Tensor = torch.Tensor
Ints = Sequence[int]
UPSAMPLE_MODE = Kind("upsample-mode", "mode must be 'nearest' or 'bilinear'")
UPSAMPLE_TILES = Kind(
    "upsample-tiles", "Tiled input must be tile-aligned (no padding difference)", "use row-major layout"
)
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
    conv_config: Construct | None = None,
) -> Tensor:
    x = _unflatten(input_tensor, batch_size, input_height, input_width, in_channels)
    bias = bias_tensor.reshape(-1).to(x.dtype) if bias_tensor is not None else None
    if len(padding) == 4:  # (top, bottom, left, right)
        top, bottom, left, right = padding
        x, padding = F.pad(x, (left, right, top, bottom)), (0, 0)
    y = F.conv2d(x, weight_tensor.to(x.dtype), bias, tuple(stride), tuple(padding), tuple(dilation), groups)
    y = after(conv_config, y)
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
    to interleaved L1 its bias is added after that, and an activation is one more. What lies in shards already stays
    there. Groups cost as much as none: ttnn fills their weights up with zeros."""
    specs, out = call.specs, call.out
    source: TensorSpec = specs["input_tensor"]
    window, stride = tuple(specs["kernel_size"]), tuple(specs.get("stride", (1, 1)))
    depth = math.prod(window) * source.shape[-1]
    weight = TensorSpec((depth, out.shape[-1]), out.dtype, "tile", DRAM)
    shards = _shards(specs)
    kind = dict(shards).get("shards")
    if window == stride == (1, 1) and not any(specs.get("padding", (0, 0))) and kind != "width":
        tiled = replace(source, layout="tile")
        product = replace(call.work, ops=2.0 * math.prod(out.padded_shape) * tiled.padded_shape[-1])
        weight = replace(weight, dtype=_weights_dtype(specs))
        if out.memory.is_sharded:
            return _sharded_product(call, source, weight, product, shards)
        activation = fused_in(specs.get("conv_config"))
        called = (("called", activation),)
        then = [DeviceOp("unary", call.outputs, call.outputs, params=called)] if activation else []
        if _bias(specs) and "l1" in (tiled.memory.buffer, out.memory.buffer):
            plain, bias = replace(out, memory=DRAM), replace(weight, shape=(1, out.shape[-1]))
            matmul = DeviceOp("matmul", (tiled, weight), (plain,), product, call.fidelity)
            return [*tilize_ops(source, tiled), matmul, DeviceOp("binary", (plain, bias), call.outputs), *then]
        matmul = DeviceOp("matmul", (tiled, weight), call.outputs, product, call.fidelity, params=_bias(specs))
        return [*tilize_ops(source, tiled), matmul, *then]
    dense = replace(call.work, ops=2.0 * depth * out.numel)
    slides = window_of(specs, "input_height", "input_width", "in_channels", out.shape[-1])
    params = (("window", slides), ("weights", _weights_dtype(specs)), *_bias(specs), *shards, *_blocks(specs))
    haloed, ops = _haloed(source, slides, params, kind)
    sharded_out = out if out.memory.is_sharded else replace(out, memory=SHARDED)
    back = [] if out.memory.is_sharded else [DeviceOp("sharded to interleaved", (sharded_out,), (out,))]
    return [*ops, DeviceOp("conv", (haloed, weight), (sharded_out,), dense, call.fidelity, params=params), *back]


def _sharded_product(call: Call, source: TensorSpec, weight: TensorSpec, work: Work, shards: Params) -> list[DeviceOp]:
    """A 1 × 1 window whose result stays in shards: every core makes its own from the pixels it holds."""
    out = call.out
    stays = source.memory.sharding == out.memory.sharding
    held = source if stays else replace(source, memory=out.memory)
    tiled = replace(held, layout="tile")
    deep = -(-source.shape[-1] // TILE)
    cores = dict(shards).get("on_cores", 0)
    if out.memory.sharding == "block":
        config = ProductConfig("2d", block_w=1, grid=out.memory.shard.grid if out.memory.shard else (0, 0))
    else:
        config = ProductConfig("1d", block_w=deep, grid=(cores, 1 if cores else 0), mcast_in0=False)
    params = (*_bias(call.specs), ("config", config))
    how = "reshard" if source.memory.is_sharded else "interleaved to sharded"
    moved = [] if stays else [DeviceOp(how, (source,), (held,))]
    matmul = DeviceOp("matmul", (tiled, weight), call.outputs, work, call.fidelity, params=params)
    return [*moved, *tilize_ops(held, tiled), matmul]


def _blocks(specs: Specs) -> Params:
    """How many rows of activations a Conv2dConfig has a core work through at once."""
    config = specs.get("conv_config")
    block = config.by_name.get("act_block_h_override") if isinstance(config, Construct) else None
    return (("act_block_h", int(str(block))),) if block else ()


def _weights_dtype(specs: Specs) -> str:
    config = specs.get("conv_config")
    dtype = config.by_name.get("weights_dtype") if isinstance(config, Construct) else None
    return str(dtype).removeprefix("ttnn.") if dtype is not None else str(specs["weight_tensor"].dtype)


def _shards(specs: Specs) -> Params:
    """How a Conv2dConfig asks for the shards, and on how many cores: what the time depends on."""
    config = specs.get("conv_config")
    if not isinstance(config, Construct):
        return ()
    layout = str(config.by_name.get("shard_layout") or "")
    params: list[tuple[str, Any]] = []
    params += [("shards", word.lower()) for word in ("HEIGHT", "BLOCK", "WIDTH") if word in layout]
    cores = cores_in(config.by_name.get("core_grid"))
    params += [("on_cores", cores)] if cores else []
    return tuple(params)


def _bias(specs: Specs) -> Params:
    return (("bias", _weights_dtype(specs)),) if specs.get("bias_tensor") is not None else ()


def window_of(specs: Specs, height: str, width: str, channels: str, out_channels: int) -> Window:
    """The window that a call slides over its images."""
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
    slides = window_of(call.specs, "input_h", "input_w", "channels", call.source.shape[-1])
    params = (("window", slides),)
    haloed, ops = _haloed(call.source, slides, params)
    sharded_out = call.out if call.out.memory.is_sharded else replace(call.out, memory=SHARDED)
    return [*ops, DeviceOp("pool", (haloed,), (sharded_out,), call.work, call.fidelity, params=params)]


def _haloed(
    source: TensorSpec, window: Window, params: Params, kind: Sharding | None = None
) -> tuple[TensorSpec, list[DeviceOp]]:
    """The input in shards, each with the rows of its neighbours that its windows reach into. Where it lies in shards of
    another kind than asked for, it is moved; a 1 × 1 window reaches into none."""
    pixels = math.prod(source.shape[:-1])
    batch = max(1, pixels // max(1, window.height * window.width))
    edge = (window.size[0] - 1) * (window.width + window.size[1] - 1) * (batch + SHARDS)
    channels = -(-source.shape[-1] // 8) * 8
    stays = source.memory.is_sharded and kind in (None, source.memory.sharding)
    held = source if stays else replace(source, memory=replace(SHARDED, sharding=kind or "height"))
    place = replace(held.memory, shard=None)
    haloed = TensorSpec((1, 1, pixels + edge, channels), "bfloat16", "row_major", place)
    halo = DeviceOp("halo", (held,), (haloed,), params=params)
    moved = DeviceOp("reshard" if source.memory.is_sharded else "interleaved to sharded", (source,), (held,))
    return haloed, [halo] if stays else [moved, halo]


def upsample(
    input_tensor: Tensor, scale_factor: int | float | Sequence[int] | Sequence[float], mode: str = "nearest"
) -> Tensor:
    """Channels last."""
    factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor, scale_factor)
    size = [int(n * f) for n, f in zip(input_tensor.shape[1:3], factors)]
    image = input_tensor.permute(0, 3, 1, 2)
    even = {"align_corners": False} if mode == "bilinear" else {}
    return F.interpolate(image, size, mode=mode, **even).permute(0, 2, 3, 1)  # type: ignore[arg-type]


def upsample_refuses(specs: Specs) -> Reason | None:
    source, mode = specs["input_tensor"], specs.get("mode", "nearest")
    if len(source.shape) != 4:
        return RANK(kernel="ttnn.upsample", rank=4, found=len(source.shape))
    if mode not in ("nearest", "bilinear"):
        return UPSAMPLE_MODE()
    if source.layout == "tile" and source.padded_shape != source.shape:
        return UPSAMPLE_TILES()
    return None


def upsample_ops(call: Call) -> list[DeviceOp]:
    """Between pixels, the input goes to shards that borrow from each other first."""
    main = DeviceOp("upsample", call.operands[:1], call.outputs, call.work, call.fidelity)
    if call.specs.get("mode", "nearest") == "nearest" or call.source.memory.is_sharded:
        return [main]
    held = replace(call.source, memory=SHARDED)
    haloed = replace(held, layout="row_major")
    moved = DeviceOp("interleaved to sharded", (call.source,), (held,))
    return [moved, DeviceOp("halo", (held,), (haloed,), buffers=lambda op, chip: 0), replace(main, inputs=(haloed,))]


def global_avg_pool2d(input_tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """[batch, height, width, channels] to one pixel."""
    out = input_tensor.mean((1, 2), keepdim=True)
    return out.to(dtype) if dtype is not None else out


def global_pool_refuses(specs: Specs) -> Reason | None:
    rank = len(specs["input_tensor"].shape)
    return None if rank == 4 else RANK(kernel="ttnn.global_avg_pool2d", rank=4, found=rank)


def global_pool_ops(call: Call) -> list[DeviceOp]:
    """All pixels of an image in one column of tiles, then their mean."""
    batch, height, width, channels = call.source.shape
    flat = TensorSpec((batch, 1, height * width, channels), call.source.dtype, "tile", call.source.memory)
    reshaped = [DeviceOp("reshape", (call.source,), (flat,))] if call.source.layout == "tile" else []
    return [*reshaped, DeviceOp("reduce", (flat,), call.outputs, call.work, call.fidelity)]


def global_pool_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(float(math.prod(specs["input_tensor"].padded_shape)), REDUCE)


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
    Kernel(
        "ttnn.upsample",
        upsample,
        device_ops=upsample_ops,
        dtypes=frozenset({"bfloat16", "float32"}),
        layout=None,
        refuse=upsample_refuses,
    ),
    Kernel(
        "ttnn.global_avg_pool2d",
        global_avg_pool2d,
        global_pool_work,
        "reduction",
        global_pool_ops,
        frozenset({"bfloat16", "float32", "bfloat8_b"}),
        layout=None,
        out_layout="tile",
        refuse=global_pool_refuses,
    ),
]
