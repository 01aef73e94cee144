"""Gradients of convolution, from slices, pads and matrix products; the geometry is pooling's too.

An output's gradient reaches the inputs in its window. Told from the input: place (i, j) of a window lies on a pixel at
most once, so with the gradients spread out by the stride and padded, one slice for each place says what reaches it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proveout.ops.samples import randn
from proveout.ops.shape import lower_pad
from proveout.ops.table import Builder, Op, Sample, Value

Ints = Sequence[int]


@dataclass(frozen=True)
class Window:
    """A window's geometry in two dimensions: input and output sizes, and how one moves over the other."""

    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def places(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(self.kernel[0]), range(self.kernel[1])))

    @property
    def numel(self) -> int:
        return math.prod(self.kernel)


def _at(b: Builder, x: Value, start: Ints, size: Ints, step: Ints = (1, 1)) -> Value:
    """x[:, :, start : … : step] with `size` rows and columns."""
    last = [a + (n - 1) * s + 1 for a, n, s in zip(start, size, step)]
    if (*start, *last, *step) == (0, 0, *x.shape[2:], 1, 1):
        return x
    return b.call(
        "ttnn.slice",
        input_tensor=x,
        slice_start=(0, 0, *start),
        slice_end=(*x.shape[:2], *last),
        slice_step=(1, 1, *step),
        range=x.range,
    )


def spread(b: Builder, x: Value, w: Window, fill: int) -> Value:
    """Rows and columns of outputs a stride apart, with a rim: what `reaching` cuts from."""
    (height, width), (down, across) = w.out, w.stride
    if w.stride != (1, 1):
        lines = b.reshape(x, (math.prod(x.shape[:2]) * height, 1, width, 1))
        lines = lower_pad(b, lines, (0, across - 1, 0, 0, 0, down - 1), fill)
        x = b.reshape(lines, (*x.shape[:2], height * down, width * across))
    before = [d * (k - 1) - p for d, k, p in zip(w.dilation, w.kernel, w.padding)]
    after = [n + p - o * s for n, p, o, s in zip(w.size, w.padding, w.out, w.stride)]
    return lower_pad(b, x, (before[1], after[1], before[0], after[0]), fill)


def reaching(b: Builder, x: Value, w: Window, place: tuple[int, int]) -> Value:
    """For every input pixel, what was spread by the output that has it at this place of its window."""
    start = [(k - 1 - i) * d for k, i, d in zip(w.kernel, place, w.dilation)]
    return _at(b, x, start, w.size)


def _padded(b: Builder, x: Value, w: Window) -> Value:
    """Every place of every window inside the tensor."""
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(w.out, w.stride, w.kernel, w.dilation)]
    after = [max(0, r - n - p) for r, n, p in zip(reach, w.size, w.padding)]
    return lower_pad(b, x, (w.padding[1], after[1], w.padding[0], after[0]), 0)


# ---- convolution -----------------------------------------------------------------------------------------------


def guard_convolution(weight: Value, transposed: bool, **rest: Any) -> str | None:
    if transposed:
        return "the gradient of a transposed convolution has no lowering"
    if weight.rank not in (3, 4):
        return f"the gradient of a convolution over {weight.rank - 2} dimensions has no lowering"
    return None


def lower_convolution(
    b: Builder,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Matrix products of the slices under each place of the kernel; in float32, as eager rounds once at the end."""
    if weight.rank == 3:
        grad_output, input, weight = (b.reshape(t, (*t.shape[:2], 1, t.shape[2])) for t in (grad_output, input, weight))
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
    w = Window(*(two(v) for v in (input.shape[2:], grad_output.shape[2:], weight.shape[2:], stride, padding, dilation)))
    wanted = [bool(m) and b.used(i) for i, m in enumerate(output_mask)]
    # [channels, batch, height, width], so that a group's channels are rows and everything else is one long column
    grad = b.permute(b.cast(grad_output, "float32"), (1, 0, 2, 3))
    results = (
        _grad_input(b, grad, b.cast(weight, "float32"), w, groups) if wanted[0] else None,
        _grad_weight(b, grad, b.cast(input, "float32"), w, groups) if wanted[1] else None,
        b.call("ttnn.sum", input_tensor=grad, dim=(1, 2, 3), keepdim=False) if wanted[2] else None,
    )
    return tuple(
        b.reshape(b.cast(r, out.dtype), out.shape) if r is not None and out is not None else None
        for r, out in zip(results, b.outs)
    )


def two(values: Ints) -> tuple[int, int]:
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def _grad_input(b: Builder, grad: Value, weight: Value, w: Window, groups: int) -> Value:
    out_channels, per_group = weight.shape[:2]
    batch = grad.shape[1]
    around = spread(b, grad, w, 0)
    columns = _columns(b, [reaching(b, around, w, place) for place in w.places], groups)
    # [groups, out channels of a group, in channels of a group, places] -> [groups, in, places * out]
    rows = b.reshape(weight, (groups, out_channels // groups, per_group, w.numel))
    rows = b.reshape(b.permute(rows, (0, 2, 3, 1)), (groups, per_group, w.numel * out_channels // groups))
    out = b.call("ttnn.matmul", input_tensor_a=rows, input_tensor_b=columns)
    return b.permute(b.reshape(out, (groups * per_group, batch, *w.size)), (1, 0, 2, 3))


def _grad_weight(b: Builder, grad: Value, x: Value, w: Window, groups: int) -> Value:
    out_channels, in_channels = grad.shape[0], x.shape[1]
    per_group = in_channels // groups
    padded = _padded(b, b.permute(x, (1, 0, 2, 3)), w)
    starts = [(i * w.dilation[0], j * w.dilation[1]) for i, j in w.places]
    columns = _columns(b, [_at(b, padded, start, w.out, w.stride) for start in starts], groups)
    rows = b.reshape(grad, (groups, out_channels // groups, math.prod(grad.shape[1:])))
    out = b.call("ttnn.matmul", input_tensor_a=rows, input_tensor_b=columns, transpose_b=True)
    out = b.reshape(out, (groups, out_channels // groups, w.numel, per_group))
    return b.reshape(b.permute(out, (0, 1, 3, 2)), (out_channels, per_group, *w.kernel))


def _columns(b: Builder, slices: Sequence[Value], groups: int) -> Value:
    """[channels, …] for each place -> [groups, places * channels of a group, everything else]."""
    parts = [b.reshape(s, (groups, s.shape[0] // groups, math.prod(s.shape[1:]))) for s in slices]
    return parts[0] if len(parts) == 1 else b.call("ttnn.concat", tensors=tuple(parts), dim=1)


# ---- samples ---------------------------------------------------------------------------------------------------


def convolution_samples() -> Iterator[Sample]:
    def case(
        name: str,
        x: Ints,
        w: Ints,
        stride: Ints = (1, 1),
        pad: Ints = (0, 0),
        dil: Ints = (1, 1),
        groups: int = 1,
        mask: Sequence[bool] = (True, True, True),
        dtype: torch.dtype = torch.float32,
    ) -> Sample:
        rank = len(w) - 2
        geometry = [list(v)[:rank] + [v[-1]] * (rank - 2) for v in (stride, pad, dil)]
        spatial = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x[2:], w[2:], *geometry)]
        grad = randn(x[0], w[0], *spatial, dtype=dtype)
        weight, bias = randn(*w, dtype=dtype), [w[0]] if mask[2] else None
        rest = (False, [0] * rank, groups, list(mask))
        return Sample((grad, randn(*x, dtype=dtype), weight, bias, *geometry, *rest), name=name)

    yield case("3x3", (2, 3, 9, 11), (8, 3, 3, 3), pad=(1, 1))
    yield case("1x1", (2, 16, 5, 5), (8, 16, 1, 1), mask=(True, True, False))
    yield case("strided, one column left over", (1, 4, 9, 10), (8, 4, 3, 3), stride=(2, 2), pad=(1, 1))
    yield case("strided 1x1", (2, 4, 7, 8), (6, 4, 1, 1), stride=(2, 2))
    yield case("dilated", (1, 4, 9, 9), (8, 4, 3, 3), dil=(2, 2))
    yield case("uneven", (2, 3, 9, 12), (4, 3, 2, 5), stride=(2, 3), pad=(1, 0), dil=(3, 1))
    yield case("more padding than kernel", (1, 2, 5, 5), (3, 2, 1, 2), pad=(2, 3))
    yield case("depthwise", (2, 8, 7, 7), (8, 1, 3, 3), pad=(1, 1), groups=8)
    yield case("grouped", (2, 8, 7, 7), (12, 4, 3, 3), stride=(2, 2), groups=2)
    yield case("one dimension", (2, 4, 20), (6, 4, 5), stride=(2,), pad=(2,), dil=(1,))
    yield case("no grad input", (2, 3, 6, 6), (4, 3, 3, 3), mask=(False, True, True))
    yield case("no grad weight", (2, 3, 6, 6), (4, 3, 3, 3), mask=(True, False, False))
    yield case("bfloat16", (2, 3, 6, 6), (4, 3, 3, 3), dtype=torch.bfloat16)
    yield case("three dimensions", (1, 2, 5, 5, 5), (3, 2, 2, 2, 2))


OPS = [Op("aten.convolution_backward.default", lower_convolution, guard_convolution, convolution_samples)]
