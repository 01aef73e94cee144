"""A window that moves over an input, in any number of dimensions: what lies under it, and what it reaches.

Convolutions, pools and their gradients are slices, pads and matrix products of these. An output's gradient reaches the
inputs in its window. Told from the input: one place of a window lies on a pixel at most once, so with the gradients
spread out by the stride and padded, one slice for each place says what reaches it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from proveout.ops.shape import lower_pad
from proveout.ops.table import Builder, Value

Ints = Sequence[int]


@dataclass(frozen=True)
class SlidingWindow:
    """Input and output sizes, and how one moves over the other: a number each for every dimension."""

    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def places(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*map(range, self.kernel)))

    @property
    def numel(self) -> int:
        return math.prod(self.kernel)


def window_of(x: Value, out: Value, weight: Value, stride: Ints, padding: Ints, dilation: Ints) -> SlidingWindow:
    """ATen writes one number for all dimensions, or one each."""
    n = weight.rank - 2
    steps = (tuple(v) * n if len(v) == 1 else tuple(v) for v in (stride, padding, dilation))
    return SlidingWindow(x.shape[2:], out.shape[2:], weight.shape[2:], *steps)


def convolved(b: Builder, x: Value, weight: Value, w: SlidingWindow, groups: int) -> Value:
    """[batch, in, …] under a weight of [out, in of a group, *kernel] -> [batch, out, …]."""
    out_channels, per_group = weight.shape[:2]
    around = padded(b, channels_first(b, x), w)
    below = _columns(b, [under(b, around, w, place) for place in w.places], groups)
    rows = b.reshape(weight, (groups, out_channels // groups, per_group, w.numel))
    rows = b.reshape(b.permute(rows, (0, 1, 3, 2)), (groups, out_channels // groups, w.numel * per_group))
    out = b.call("ttnn.matmul", input_tensor_a=rows, input_tensor_b=below)
    return channels_first(b, b.reshape(out, (out_channels, x.shape[0], *w.out)))


def frames(b: Builder, x: Value, w: SlidingWindow) -> Value:
    """[batch, in, time, …] -> [batch · outputs in time, places in time · in, …]: with the times that a window sees as
    channels, a convolution in three dimensions is one in two."""
    time, kernel, stride, edge, step = (v[0] for v in (w.size, w.kernel, w.stride, w.padding, w.dilation))
    reach = (w.out[0] - 1) * stride + (kernel - 1) * step + 1
    around = lower_pad(b, x, [0, 0, 0, 0, edge, max(0, reach - time - edge)], 0)
    size, across = (w.out[0], *w.size[1:]), (stride, 1, 1)
    seen = [_at(b, around, (place * step, 0, 0), size, across) for place in range(kernel)]
    stacked = seen[0] if kernel == 1 else b.call("ttnn.concat", tensors=tuple(seen), dim=1)
    n, channels = stacked.shape[:2]
    return b.reshape(b.permute(stacked, (0, 2, 1, 3, 4)), (n * size[0], channels, *size[1:]))


def grad_input(b: Builder, grad: Value, weight: Value, w: SlidingWindow, groups: int) -> Value:
    """[batch, out, …] back through the weight -> [batch, in, …]; also a transposed convolution."""
    out_channels, per_group = weight.shape[:2]
    around = spread(b, channels_first(b, grad), w, 0)
    arriving = _columns(b, [reaching(b, around, w, place) for place in w.places], groups)
    rows = b.reshape(weight, (groups, out_channels // groups, per_group, w.numel))
    rows = b.reshape(b.permute(rows, (0, 2, 3, 1)), (groups, per_group, w.numel * out_channels // groups))
    out = b.call("ttnn.matmul", input_tensor_a=rows, input_tensor_b=arriving)
    return channels_first(b, b.reshape(out, (groups * per_group, grad.shape[0], *w.size)))


def grad_weight(b: Builder, grad: Value, x: Value, w: SlidingWindow, groups: int) -> Value:
    """[batch, out, …] with [batch, in, …] -> [out, in of a group, *kernel]."""
    out_channels, per_group = grad.shape[1], x.shape[1] // groups
    around = padded(b, channels_first(b, x), w)
    below = _columns(b, [under(b, around, w, place) for place in w.places], groups)
    rows = channels_first(b, grad)
    rows = b.reshape(rows, (groups, out_channels // groups, math.prod(rows.shape[1:])))
    out = b.call("ttnn.matmul", input_tensor_a=rows, input_tensor_b=below, transpose_b=True)
    out = b.reshape(out, (groups, out_channels // groups, w.numel, per_group))
    return b.reshape(b.permute(out, (0, 1, 3, 2)), (out_channels, per_group, *w.kernel))


def spread(b: Builder, x: Value, w: SlidingWindow, fill: int) -> Value:
    """[…, …, *outputs] a stride apart, with a rim: what `reaching` cuts from."""
    if any(s != 1 for s in w.stride):
        lead = math.prod(x.shape[:2])
        apart = [n for size in w.out for n in (size, 1)]
        gaps = [n for step in reversed(w.stride) for n in (0, step - 1, 0, 0)][:-2]
        lines = lower_pad(b, b.reshape(x, (lead * apart[0], *apart[1:])), gaps, fill)
        x = b.reshape(lines, (*x.shape[:2], *(n * s for n, s in zip(w.out, w.stride))))
    before = [d * (k - 1) - p for d, k, p in zip(w.dilation, w.kernel, w.padding)]
    after = [n + p - o * s for n, p, o, s in zip(w.size, w.padding, w.out, w.stride)]
    return lower_pad(b, x, _last_first(before, after), fill)


def reaching(b: Builder, x: Value, w: SlidingWindow, place: Ints) -> Value:
    """For every input pixel, what was spread by the output that has it at this place of its window."""
    start = [(k - 1 - i) * d for k, i, d in zip(w.kernel, place, w.dilation)]
    return _at(b, x, start, w.size, (1,) * len(start))


def padded(b: Builder, x: Value, w: SlidingWindow) -> Value:
    """Every place of every window inside the tensor: what `under` cuts from."""
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(w.out, w.stride, w.kernel, w.dilation)]
    after = [max(0, r - n - p) for r, n, p in zip(reach, w.size, w.padding)]
    return lower_pad(b, x, _last_first(w.padding, after), 0)


def under(b: Builder, x: Value, w: SlidingWindow, place: Ints) -> Value:
    """For every output, the input pixel at this place of its window."""
    return _at(b, x, [i * d for i, d in zip(place, w.dilation)], w.out, w.stride)


def _columns(b: Builder, slices: Sequence[Value], groups: int) -> Value:
    """[channels, …] for each place -> [groups, places * channels of a group, everything else]."""
    parts = [b.reshape(s, (groups, s.shape[0] // groups, math.prod(s.shape[1:]))) for s in slices]
    return parts[0] if len(parts) == 1 else b.call("ttnn.concat", tensors=tuple(parts), dim=1)


def channels_first(b: Builder, x: Value) -> Value:
    """[batch, channels, …] -> [channels, batch, …], and back: a group's channels are rows, all else one long column."""
    return b.permute(x, (1, 0, *range(2, x.rank)))


def _last_first(before: Ints, after: Ints) -> list[int]:
    """As torch's pads are written."""
    return [n for pair in reversed(list(zip(before, after))) for n in pair]


def _at(b: Builder, x: Value, start: Ints, size: Ints, step: Ints) -> Value:
    """x[:, :, start : … : step] with `size` elements a dimension."""
    last = [a + (n - 1) * s + 1 for a, n, s in zip(start, size, step)]
    if not any(start) and tuple(last) == x.shape[2:] and all(s == 1 for s in step):
        return x
    return b.call(
        "ttnn.slice",
        input_tensor=x,
        slice_start=(0, 0, *start),
        slice_end=(*x.shape[:2], *last),
        slice_step=(1, 1, *step),
        range=x.range,
    )
