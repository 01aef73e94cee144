"""Convolution and pooling, in ttnn's flattened channels-last form: [1, 1, batch*height*width, channels]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from proveout.chip.time import MATRIX, POOL, Work
from proveout.kernels.table import FLOAT, Kernel, Specs
from proveout.types import L1, TensorSpec

Tensor = torch.Tensor
Ints = Sequence[int]


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
    bias = bias_tensor.reshape(-1) if bias_tensor is not None else None
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
    weight, bias = weight_tensor.to(x.dtype), bias_tensor.reshape(-1) if bias_tensor is not None else None
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


BFLOAT16 = frozenset({"bfloat16"})
KERNELS = [
    Kernel(
        "ttnn.conv2d",
        conv2d,
        conv_work,
        layout=None,
        out_layout="tile",
        dtypes=FLOAT,
        host_operands=frozenset({"weight_tensor", "bias_tensor"}),
    ),
    Kernel(
        "ttnn.conv_transpose2d",
        conv_transpose2d,
        conv_work,
        layout=None,
        out_layout="tile",
        dtypes=FLOAT,
        host_operands=frozenset({"weight_tensor", "bias_tensor"}),
    ),
    Kernel(
        "ttnn.max_pool2d",
        max_pool2d,
        pool_work,
        layout="row_major",
        out_layout="row_major",
        out_memory=L1,
        dtypes=BFLOAT16,
    ),
    Kernel(
        "ttnn.avg_pool2d",
        avg_pool2d,
        pool_work,
        layout="row_major",
        out_layout="row_major",
        out_memory=L1,
        dtypes=BFLOAT16,
    ),
]
