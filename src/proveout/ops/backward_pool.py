"""Gradients of pooling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from proveout.ops.samples import randn
from proveout.ops.table import Builder, Op, Refused, Sample, Value
from proveout.ops.window import SlidingWindow, reaching, spread
from proveout.reasons import Kind

UNEVEN_WINDOWS = Kind("pool-uneven-windows", "adaptive pooling with windows of several sizes")

Ints = Sequence[int]


def _pooling(
    grad_output: Value, self: Value, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints = (1, 1)
) -> SlidingWindow:
    return SlidingWindow(
        two(self.shape[-2:]),
        two(grad_output.shape[-2:]),
        two(kernel_size),
        two(stride or kernel_size),
        two(padding),
        two(dilation),
    )


def two(values: Ints) -> tuple[int, int]:
    """ATen writes one number for both dimensions, or one each."""
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def lower_max_pool2d(
    b: Builder,
    grad_output: Value,
    self: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Value,
) -> Value:
    """A pixel gets the gradients of the outputs whose index names it. The op's own contract bounds the indices."""
    w = _pooling(grad_output, self, kernel_size, stride, padding, dilation)
    area = math.prod(w.size)
    lead = (1,) * (4 - self.rank)
    grad = spread(b, b.reshape(grad_output, (*lead, *grad_output.shape)), w, 0)
    taken = b.reshape(replace(indices, range=(0, area - 1)), (*lead, *indices.shape))
    taken = spread(b, taken, w, -1)
    here = b.constant(torch.arange(area).reshape(1, 1, *w.size))
    nothing = b.constant(torch.zeros((), dtype=getattr(torch, grad.dtype)))
    parts = []
    for place in w.places:
        own = b.call(
            "ttnn.eq",
            input_tensor_a=reaching(b, taken, w, place),
            input_tensor_b=here,
            dtype=b.dtype("bool"),
            gives="bool",
        )
        gradient = reaching(b, grad, w, place)
        parts.append(b.call("ttnn.where", predicate=own, true_value=gradient, false_value=nothing, gives=grad.dtype))
    return b.reshape(_sum(b, parts), b.out.shape)


def lower_avg_pool2d(
    b: Builder,
    grad_output: Value,
    self: Value,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    """Each output's gradient, divided as the output was, over its window."""
    w = _pooling(grad_output, self, kernel_size, stride, padding)
    ones = torch.ones(1, 1, *w.size, dtype=torch.float64)
    rest = w.kernel, w.stride, w.padding, ceil_mode
    inside = F.avg_pool2d(ones, *rest, True, 1)
    divisors = (inside / F.avg_pool2d(ones, *rest, count_include_pad, divisor_override)).round()
    lead = (1,) * (4 - self.rank)
    grad = b.reshape(grad_output, (*lead, *grad_output.shape))
    divisor = b.constant(divisors.to(getattr(torch, grad.dtype)))
    around = spread(b, b.call("ttnn.div", input_tensor_a=grad, input_tensor_b=divisor), w, 0)
    total = _sum(b, [reaching(b, around, w, place) for place in w.places])
    return b.reshape(total, b.out.shape)


def lower_adaptive_avg_pool2d(b: Builder, grad_output: Value, self: Value) -> Value:
    """Windows of one size that do not overlap: each output's gradient, divided, for all of its window."""
    factor = _factor(self.shape[-2:], grad_output.shape[-2:])
    if factor is None:
        raise Refused(UNEVEN_WINDOWS())
    down, across = factor
    width = grad_output.shape[-1]
    grad = b.call("ttnn.div", input_tensor_a=grad_output, value=float(down * across))
    lines = b.reshape(grad, (math.prod(grad.shape[:-1]), 1, width, 1))
    return b.reshape(b.expand(lines, (lines.shape[0], down, width, across)), b.out.shape)


def _factor(large: Ints, small: Ints) -> tuple[int, int] | None:
    """How often one size goes into the other, where it does so without rest."""
    if 0 in small or any(a % c for a, c in zip(large, small)):
        return None
    return large[0] // small[0], large[1] // small[1]


def _sum(b: Builder, parts: Sequence[Value]) -> Value:
    """Of what reaches each place, in eager's order: outputs from the first on, which have a pixel at their last place
    first. Eager adds in the gradient's own dtype, so the order shows."""
    total = parts[-1]
    for part in parts[-2::-1]:
        total = b.call("ttnn.add", input_tensor_a=total, input_tensor_b=part)
    return total


# ---- samples ---------------------------------------------------------------------------------------------------


def _pool_cases() -> Iterator[tuple[str, torch.Tensor, tuple[Any, ...]]]:
    yield "", randn(2, 3, 8, 10), ([2, 2], [], [0, 0])
    yield "overlapping, padded", randn(2, 3, 9, 11), ([3, 3], [2, 2], [1, 1])
    yield "bfloat16", randn(2, 3, 9, 11, dtype=torch.bfloat16), ([3, 2], [2, 2], [1, 1])
    yield "no batch", randn(3, 9, 11), ([3, 2], [1, 2], [0, 0])
    yield "ceil", randn(1, 2, 10, 9), ([3, 3], [2, 2], [1, 1])
    yield "gaps", randn(1, 2, 10, 9), ([2, 2], [3, 3], [0, 0])


def max_pool_samples() -> Iterator[Sample]:
    cases = [(name, x, (*rest, [1, 1], name == "ceil")) for name, x, rest in _pool_cases()]
    cases.append(("dilated", randn(1, 2, 10, 10), ([3, 3], [2, 2], [1, 1], [2, 2], False)))
    cases.append(("ties", randn(1, 2, 6, 6).round(), ([3, 3], [1, 1], [1, 1], [1, 1], False)))
    for name, x, rest in cases:
        out, indices = torch.ops.aten.max_pool2d_with_indices(x, *rest)
        yield Sample((randn(*out.shape, dtype=x.dtype), x, *rest, indices), name=name)


def avg_pool_samples() -> Iterator[Sample]:
    cases = [(name, x, (*rest, name == "ceil", True, None)) for name, x, rest in _pool_cases()]
    cases.append(("padding does not count", randn(1, 2, 9, 9), ([3, 3], [2, 2], [1, 1], False, False, None)))
    cases.append(("divisor", randn(1, 2, 10, 10), ([3, 3], [2, 2], [1, 1], True, False, 5)))
    for name, x, rest in cases:
        out = torch.ops.aten.avg_pool2d(x, *rest)
        yield Sample((randn(*out.shape, dtype=x.dtype), x, *rest), name=name)


def adaptive_samples() -> Iterator[Sample]:
    yield Sample((randn(2, 3, 1, 1), randn(2, 3, 5, 7)), name="to one")
    yield Sample((randn(2, 3, 2, 3), randn(2, 3, 8, 9)))
    yield Sample(
        (randn(3, 2, 3, dtype=torch.bfloat16), randn(3, 4, 9, dtype=torch.bfloat16)), name="no batch, bfloat16"
    )
    yield Sample((randn(2, 3, 2, 3), randn(2, 3, 7, 9)), name="uneven")


OPS = [
    Op("aten.max_pool2d_with_indices_backward.default", lower_max_pool2d, samples=max_pool_samples),
    Op("aten.avg_pool2d_backward.default", lower_avg_pool2d, samples=avg_pool_samples),
    Op("aten._adaptive_avg_pool2d_backward.default", lower_adaptive_avg_pool2d, samples=adaptive_samples),
]
