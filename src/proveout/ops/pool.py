"""Adaptive pools, and pools over three dimensions: windows along one dimension at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from proveout.ops.samples import each, randn
from proveout.ops.shape import cut, lower_pad
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.reasons import Kind

WINDOW_ROUNDING = Kind("pool-rounding", "eager sums a window over three dimensions in bfloat16, rounding each time")
UNEVEN_INDICES = Kind("pool-uneven-indices", "ttnn gives no indices of a pool over windows of uneven size")
INDICES_OF_THREE = Kind(
    "pool3d-indices", "ttnn has no pool over three dimensions, and maxima of slices have no indices"
)
POOL_DTYPE = Kind("pool-dtype", "a pool over {dtype}")

Ints = Sequence[int]


def lower_adaptive_avg_pool(b: Builder, self: Value, output_size: Ints) -> Value:
    """The mean of a window is the mean of its rows' means; in float32, as eager sums two dimensions."""
    if self.dtype == "bfloat16" and len(output_size) == 3:
        raise Refused(WINDOW_ROUNDING())
    x = b.cast(self, WIDE)
    return b.cast(_adaptive(b, "ttnn.mean", x, len(output_size)), b.out.dtype)


def lower_adaptive_max_pool(b: Builder, self: Value, output_size: Ints) -> tuple[Value | None, ...]:
    if b.used(1):
        raise Refused(UNEVEN_INDICES())
    return _adaptive(b, "ttnn.max", self, len(output_size)), None


def _adaptive(b: Builder, kernel: str, x: Value, num_dims: int) -> Value:
    for dim in range(x.rank - num_dims, x.rank):
        size, wanted = x.shape[dim], b.out.shape[dim]
        if size % wanted == 0:
            if size != wanted:
                split = b.reshape(x, (*x.shape[:dim], wanted, size // wanted, *x.shape[dim + 1 :]))
                x = b.call(kernel, input_tensor=split, dim=(dim + 1,), keepdim=False)
            continue
        bands = [(i * size // wanted, -(-(i + 1) * size // wanted)) for i in range(wanted)]
        parts = [b.call(kernel, input_tensor=cut(b, x, dim, *band), dim=(dim,), keepdim=True) for band in bands]
        x = b.call("ttnn.concat", tensors=tuple(parts), dim=dim)
    return x


def lower_avg_pool3d(
    b: Builder,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """A sum over each window, then the share of each of its elements."""
    window, step, edge = (_three(v) for v in (kernel_size, stride or kernel_size, padding))
    total = _windows(b, b.cast(self, WIDE), "ttnn.add", 0.0, window, step, edge, (1, 1, 1))
    ones = torch.ones(1, 1, *self.shape[-3:], dtype=torch.float64)
    share = F.avg_pool3d(ones, window, step, edge, ceil_mode, count_include_pad, divisor_override)
    inside = F.avg_pool3d(ones, window, step, edge, ceil_mode, True, 1)
    scale = b.constant((share / inside).float().reshape(share.shape[-3:]))
    return b.cast(b.call("ttnn.multiply", input_tensor_a=total, input_tensor_b=b.cast(scale, WIDE)), b.out.dtype)


def lower_max_pool3d(
    b: Builder,
    self: Value,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    ceil_mode: bool = False,
) -> tuple[Value | None, ...]:
    if b.used(1):
        raise Refused(INDICES_OF_THREE())
    window, step, edge, gap = (_three(v) for v in (kernel_size, stride or kernel_size, padding, dilation))
    return _windows(b, self, "ttnn.maximum", -math.inf, window, step, edge, gap), None


def _windows(b: Builder, x: Value, kernel: str, empty: float, window: Ints, step: Ints, edge: Ints, gap: Ints) -> Value:
    """Strided slices along one dimension after another, combined: both sums and maxima are separable."""
    if not x.is_float:
        raise Refused(POOL_DTYPE(dtype=x.dtype))
    for i, dim in enumerate(range(x.rank - 3, x.rank)):
        wanted = b.out.shape[dim]
        reach = (wanted - 1) * step[i] + (window[i] - 1) * gap[i] + 1
        behind = [0] * (2 * (x.rank - 1 - dim))
        x = lower_pad(b, x, [*behind, edge[i], max(0, reach - x.shape[dim] - edge[i])], empty)
        stop = (wanted - 1) * step[i] + 1
        places = [cut(b, x, dim, k * gap[i], k * gap[i] + stop, step[i]) for k in range(window[i])]
        x = places[0]
        for place in places[1:]:
            x = b.call(kernel, input_tensor_a=x, input_tensor_b=place)
    return x


def _three(values: Ints) -> tuple[int, ...]:
    return tuple(values) * 3 if len(values) == 1 else tuple(values)


# ---- samples -----------------------------------------------------------------------------------------------------

BF16 = torch.bfloat16


def adaptive(num_dims: int) -> Callable[[], Any]:
    shape, sizes = (8, 9, 7)[:num_dims], [4, 3, 7][:num_dims]
    return each(
        Sample((randn(2, 3, *shape), sizes), name="even"),
        Sample((randn(2, 3, *shape), [5, 2, 4][:num_dims]), name="uneven"),
        Sample((randn(3, *shape), [1] * num_dims), name="to one, no batch"),
        Sample((randn(2, 3, *shape, dtype=BF16), [3, 4, 2][:num_dims]), name="bfloat16"),
        Sample((randn(2, 3, *[2] * num_dims), [5] * num_dims), name="larger"),
    )


def pools(*extra: Sample) -> Callable[[], Any]:
    return each(
        Sample((randn(2, 3, 6, 8, 4), [2, 2, 2])),
        Sample((randn(2, 3, 6, 7, 5), [3], [2], [1]), name="padded"),
        Sample((randn(3, 6, 7, 5), [3, 2, 1], [1, 2, 2]), name="no batch"),
        *extra,
    )


OPS = [
    Op("aten._adaptive_avg_pool2d.default", lower_adaptive_avg_pool, samples=adaptive(2)),
    Op("aten._adaptive_avg_pool3d.default", lower_adaptive_avg_pool, samples=adaptive(3)),
    Op("aten.adaptive_max_pool2d.default", lower_adaptive_max_pool, samples=adaptive(2)),
    Op("aten.adaptive_max_pool3d.default", lower_adaptive_max_pool, samples=adaptive(3)),
    Op(
        "aten.avg_pool3d.default",
        lower_avg_pool3d,
        samples=pools(
            Sample((randn(1, 2, 5, 6, 7), [3], [2], [1], True, False), name="ceil, padding does not count"),
            Sample((randn(1, 2, 5, 6, 7), [3], [2], [1], False, True, 5), name="divisor"),
        ),
    ),
    Op(
        "aten.max_pool3d_with_indices.default",
        lower_max_pool3d,
        samples=pools(
            Sample((randn(1, 2, 6, 6, 7), [2], [2], [1], [2], True), name="dilated, ceil"),
            Sample((randn(1, 2, 6, 6, 7, dtype=BF16), [2]), name="bfloat16"),
        ),
    ),
]
