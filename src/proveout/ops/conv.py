"""Convolution and pooling. ttnn works on flattened channels-last tensors: [1, 1, batch*height*width, channels]."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from proveout.ops.samples import randn
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.ops.training import maxima_and_indices
from proveout.ops.window import convolved, frames, grad_input, window_of
from proveout.program import Name
from proveout.reasons import Kind

OVERLAP_ROUNDING = Kind("conv-transpose-rounding", "eager rounds to bfloat16 wherever windows overlap")
POOL_OF_INTEGERS = Kind("pool-of-integers", "pooling integers would pad with minus infinity")

Ints = Sequence[int]


def lower_convolution(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Value:
    """ttnn convolves in two dimensions; one is two with a height of one, three are two with times as channels.

    The rest are products of slices.
    """
    num = weight.rank - 2
    stride, padding, dilation, output_padding = (
        tuple(values) * num if len(values) == 1 else values for values in (stride, padding, dilation, output_padding)
    )
    beyond = any(p > d * (k - 1) for p, d, k in zip(padding, dilation, weight.shape[2:]))
    apart = not transposed and num == 2 and _halo_bytes(input, weight, padding, dilation) > HALO_LIMIT
    if apart or (transposed and (groups != 1 or beyond)) or (num == 3 and (transposed or groups != 1)):
        return _from_slices(b, input, weight, bias, stride, padding, dilation, transposed, groups)
    n, out_channels, *spatial = b.out.shape
    if num == 1:
        input = b.reshape(input, (*input.shape[:2], 1, input.shape[2]))
        weight = b.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        output_padding = (0, *output_padding)
        spatial = [1, *spatial]
    elif num == 3:
        input = frames(b, input, window_of(input, b.out, weight, stride, padding, dilation))
        turned = b.permute(weight, (0, 2, 1, 3, 4))
        weight = b.reshape(turned, (out_channels, input.shape[1], *turned.shape[3:]))
        stride, padding, dilation = stride[1:], padding[1:], dilation[1:]
    batch, c, h, w = input.shape
    kh, kw = weight.shape[2:]
    attrs: dict[str, Any] = {"bias_tensor": b.reshape(bias, (1, 1, 1, out_channels))} if bias else {}
    if transposed:
        attrs["output_padding"] = tuple(output_padding)
    out = b.call(
        "ttnn.conv_transpose2d" if transposed else "ttnn.conv2d",
        input_tensor=_flat(b, input),
        weight_tensor=weight,
        device=Name("device"),
        in_channels=c,
        out_channels=out_channels,
        batch_size=batch,
        input_height=h,
        input_width=w,
        kernel_size=(kh, kw),
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=groups,
        dtype=b.dtype(input.dtype),
        **attrs,
    )
    return b.reshape(_unflat(b, out, n, spatial), b.out.shape)


def _from_slices(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    groups: int,
) -> Value:
    """Groups in three dimensions, taps too far apart for one core's memory, or what ttnn.conv_transpose2d is not known
    to take: three dimensions, groups, padding beyond the kernel's reach.

    In float32, as eager rounds once at the end.
    """
    if transposed and input.dtype == "bfloat16":
        raise Refused(OVERLAP_ROUNDING())
    x, kernel = b.cast(input, WIDE), b.cast(weight, WIDE)
    ends = (b.out, input) if transposed else (input, b.out)
    w = window_of(*ends, weight, stride, padding, dilation)
    out = grad_input(b, x, kernel, w, groups) if transposed else convolved(b, x, kernel, w, groups)
    if bias is not None:
        column = b.reshape(b.cast(bias, WIDE), (1, bias.shape[0], *(1,) * len(w.size)))
        out = b.call("ttnn.add", input_tensor_a=out, input_tensor_b=column)
    return b.cast(out, b.out.dtype)


HALO_LIMIT = 2**20
"""Bytes of a core's L1 that a window's rows may take; the rest is for blocks of activations, weights and results."""
COLUMNS = 8
"""Cores that the channels are cut over at most."""


def _halo_bytes(input: Value, weight: Value, padding: Ints, dilation: Ints) -> int:
    """What one core holds of the padded rows between a window's first tap and its last, however rows are sliced."""
    rows, across = (weight.shape[2] - 1) * dilation[0], input.shape[3] + 2 * padding[1]
    return rows * across * math.ceil(input.shape[1] / COLUMNS) * 2


def _flat(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    return b.reshape(b.permute(x, (0, 2, 3, 1)), (1, 1, n * h * w, c))


def _unflat(b: Builder, x: Value, n: int, spatial: Ints) -> Value:
    last = len(spatial) + 1
    return b.permute(b.reshape(x, (n, *spatial, x.shape[-1])), (0, last, *range(1, last)))


def _pair(values: Ints, default: Ints = ()) -> tuple[int, int]:
    values = tuple(values) or tuple(default)
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def lower_max_pool2d(
    b: Builder,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    ceil_mode: bool = False,
) -> tuple[Value | None, ...]:
    if not self.is_float:
        raise Refused(POOL_OF_INTEGERS())
    window, step = _pair(kernel_size), _pair(stride, kernel_size)
    edge, gap = _pair(padding), _pair(dilation)
    x = b.reshape(self, (1,) * (4 - self.rank) + self.shape)
    n, c, h, w = x.shape
    attrs: dict[str, Any] = {
        "batch_size": n, "input_h": h, "input_w": w, "channels": c, "kernel_size": window, "stride": step,
        "padding": edge, "dilation": gap, "ceil_mode": ceil_mode,
    }  # fmt: skip
    spatial = b.out.shape[-2:]
    if b.used(1):  # ttnn's pooling indices are not eager's
        best, indices = maxima_and_indices(b, x, window, step, edge, gap, spatial)
        return b.reshape(best, b.out.shape), b.reshape(indices, b.out.shape)
    if _fits(window, x, edge) and b.refuses("ttnn.max_pool2d", input_tensor=x, **attrs) is None:
        out = _unflat(b, b.call("ttnn.max_pool2d", input_tensor=_flat(b, x), **attrs), n, spatial)
    else:
        out = _over_windows(b, x, "ttnn.maximum", -math.inf, window, step, edge, gap, spatial)
    return b.reshape(out, b.out.shape), None


def lower_avg_pool2d(
    b: Builder,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    window, step, edge = _pair(kernel_size), _pair(stride, kernel_size), _pair(padding)
    x = b.reshape(self, (1,) * (4 - self.rank) + self.shape)
    n, c, h, w = x.shape
    attrs: dict[str, Any] = {
        "batch_size": n, "input_h": h, "input_w": w, "channels": c, "kernel_size": window, "stride": step,
        "padding": edge, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad,
        "divisor_override": divisor_override,
    }  # fmt: skip
    spatial = b.out.shape[-2:]
    if _fits(window, x, edge) and b.refuses("ttnn.avg_pool2d", input_tensor=x, **attrs) is None:
        out = _unflat(b, b.call("ttnn.avg_pool2d", input_tensor=_flat(b, x), **attrs), n, spatial)
    else:
        total = _over_windows(b, x, "ttnn.add", 0.0, window, step, edge, (1, 1), spatial)
        ones = torch.ones(1, 1, h, w, dtype=torch.float64)
        share = F.avg_pool2d(ones, window, step, edge, ceil_mode, count_include_pad, divisor_override)
        inside = F.avg_pool2d(ones, window, step, edge, ceil_mode, True, 1)
        scale = (share / inside).to(getattr(torch, self.dtype))
        out = b.call("ttnn.multiply", input_tensor_a=total, input_tensor_b=b.constant(scale))
    return b.reshape(out, b.out.shape)


def _fits(window: Ints, x: Value, edge: Ints) -> bool:
    """Whether the window lies within the padded image; with `ceil_mode`, torch also takes larger ones."""
    return all(k <= size + 2 * e for k, size, e in zip(window, x.shape[-2:], edge))


def _over_windows(
    b: Builder,
    x: Value,
    kernel: str,
    empty: float,
    window: Ints,
    step: Ints,
    edge: Ints,
    gap: Ints,
    spatial: Ints,
) -> Value:
    """Pooling in float32, which ttnn's pool kernels refuse: a strided slice for each place of the window, combined."""
    n, c, h, w = x.shape
    # A global pool's window may be far larger than the image (EfficientNet's is 1280 wide): one slice for each pixel.
    covers = [o == 1 and d == 1 and e + size <= k for o, d, e, size, k in zip(spatial, gap, edge, (h, w), window)]
    window = [size if all_of_it else k for size, k, all_of_it in zip((h, w), window, covers)]
    edge = [0 if all_of_it else e for e, all_of_it in zip(edge, covers)]
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(spatial, step, window, gap)]
    after = [max(0, r - size - e) for r, size, e in zip(reach, (h, w), edge)]
    if any(edge) or any(after):
        padding = ((0, 0), (0, 0), (edge[0], after[0]), (edge[1], after[1]))
        x = b.call("ttnn.pad", input_tensor=b.layout(x, "row_major"), padding=padding, value=empty)
    out: Value | None = None
    for i, j in itertools.product(range(window[0]), range(window[1])):
        y0, x0 = i * gap[0], j * gap[1]
        place = b.call(
            "ttnn.slice",
            input_tensor=x,
            slice_start=(0, 0, y0, x0),
            slice_end=(n, c, y0 + (spatial[0] - 1) * step[0] + 1, x0 + (spatial[1] - 1) * step[1] + 1),
            slice_step=(1, 1, *step),
        )
        out = place if out is None else b.call(kernel, input_tensor_a=out, input_tensor_b=place)
    assert out is not None
    return out


def convolution_samples() -> Iterator[Sample]:
    def case(
        name: str,
        x: Ints,
        w: Ints,
        bias: bool = True,
        stride: int = 1,
        pad: int = 0,
        dil: int = 1,
        groups: int = 1,
    ) -> Sample:
        rank = len(w) - 2
        args = (
            randn(*x),
            randn(*w),
            randn(w[0]) if bias else None,
            [stride] * rank,
            [pad] * rank,
            [dil] * rank,
        )
        return Sample((*args, False, [0] * rank, groups), name=name)

    yield case("3x3", (2, 3, 9, 11), (8, 3, 3, 3), pad=1)
    yield case("1x1, no bias", (2, 16, 5, 5), (8, 16, 1, 1), bias=False)
    yield case("strided", (1, 4, 9, 9), (8, 4, 3, 3), stride=2, pad=1)
    yield case("dilated", (1, 4, 9, 9), (8, 4, 3, 3), dil=2)
    yield case("dilated beyond a core's memory", (1, 32, 8, 8), (2, 32, 3, 3), pad=200, dil=200)
    yield case("depthwise", (2, 8, 7, 7), (8, 1, 3, 3), pad=1, groups=8)
    yield case("grouped", (2, 8, 7, 7), (12, 4, 3, 3), groups=2)
    yield case("one dimension", (2, 4, 20), (6, 4, 5), stride=2, pad=2)
    yield case("three dimensions", (1, 2, 5, 5, 5), (3, 2, 2, 2, 2))
    yield case("three dimensions, strided and padded", (2, 3, 6, 7, 8), (4, 3, 3, 3, 3), stride=2, pad=1)
    yield case("three dimensions, dilated", (1, 3, 7, 7, 7), (4, 3, 3, 2, 2), bias=False, dil=2)
    yield case("patches of a film", (2, 3, 4, 8, 8), (5, 3, 2, 4, 4), stride=4)
    yield case("three dimensions, grouped", (2, 4, 5, 6, 7), (6, 2, 2, 3, 3), stride=2, pad=1, groups=2)
    box = (randn(1, 2, 3, 4, 3), randn(2, 3, 2, 3, 2), randn(3), [2, 1, 2], [1, 1, 0], [1, 1, 1], True, [0, 0, 1], 1)
    yield Sample(box, name="transposed, three dimensions")
    transposed = (randn(1, 4, 5, 6), randn(4, 6, 3, 2), None, [2, 3], [1, 0], [1, 1], True, [1, 2], 1)
    yield Sample(transposed, name="transposed")
    line = (randn(2, 4, 5), randn(4, 6, 3), randn(6), [2], [1], [2], True, [0], 1)
    yield Sample(line, name="transposed, one dimension, dilated")
    grouped = (randn(1, 4, 5, 5), randn(4, 3, 3, 3), randn(6), [2, 2], [1, 1], [1, 1], True, [0, 0], 2)
    yield Sample(grouped, name="transposed, grouped")
    padded = (randn(1, 4, 5, 5), randn(4, 3, 1, 1), randn(3), [1, 1], [1, 1], [1, 1], True, [0, 0], 1)
    yield Sample(padded, name="transposed, padded beyond the kernel")


def pool_samples(extra: Sequence[Sample]) -> Any:
    def make() -> Iterator[Sample]:
        yield Sample((randn(2, 3, 8, 10), [2, 2]))
        yield Sample((randn(2, 3, 9, 11), [3, 3], [2, 2], [1, 1]), name="padded")
        yield Sample((randn(2, 3, 9, 11, dtype=torch.bfloat16), [3], [2], [1]), name="bfloat16")
        yield Sample((randn(3, 9, 11), [3, 2], [1, 2]), name="no batch")
        yield from extra

    return make


MAX_EXTRA = (
    Sample((randn(1, 2, 10, 10), [3, 3], [2, 2], [1, 1], [2, 2], True), name="dilated, ceil"),
    Sample((randn(1, 2, 10, 9), [2, 2], [2, 2], [0, 0], [1, 1], True), name="ceil"),
    Sample((randn(1, 2, 4, 5), [320, 320], [320, 320], [0, 0], [1, 1], True), name="window larger than the image"),
)
AVERAGE_EXTRA = (
    Sample((randn(1, 2, 9, 9), [3, 3], [2, 2], [1, 1], False, False), name="padding does not count"),
    Sample((randn(1, 2, 10, 10), [3, 3], [2, 2], [1, 1], True, True), name="ceil"),
    Sample((randn(1, 2, 10, 10), [3, 3], [2, 2], [1, 1], True, False, 5), name="divisor"),
    Sample((randn(1, 2, 4, 5), [320, 320], [320, 320], [0, 0], True), name="window larger than the image"),
)

OPS = [
    Op("aten.convolution.default", lower_convolution, samples=convolution_samples),
    Op("aten.max_pool2d_with_indices.default", lower_max_pool2d, samples=pool_samples(MAX_EXTRA)),
    Op("aten.avg_pool2d.default", lower_avg_pool2d, samples=pool_samples(AVERAGE_EXTRA)),
]
