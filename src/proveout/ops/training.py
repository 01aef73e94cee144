"""Forward ops as training has them: batch norm with the batch's own statistics, max-pooling with its indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

from proveout.ops.samples import randn, uniform
from proveout.ops.shape import lower_pad
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.reasons import Kind

RUNNING_STATISTICS = Kind("norm-running-statistics", "batch norm with running statistics has a row of its own")
ONE_ELEMENT = Kind("variance-of-one", "one element has no unbiased variance")

Ints = Sequence[int]


def lower_batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """In float32, as eager has it inside. The running variance moves towards the unbiased one."""
    if not training:
        raise Refused(RUNNING_STATISTICS())
    n, c, *rest = input.shape
    count = n * math.prod(rest)
    if count < 2:
        raise Refused(ONE_ELEMENT())
    x = b.cast(b.reshape(input, (n, c, math.prod(rest))), WIDE)
    mean = b.call("ttnn.mean", input_tensor=x, dim=(0, 2), keepdim=True)
    distance = b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=mean)
    squares = b.call("ttnn.square", input_tensor=distance)
    variance = b.call("ttnn.mean", input_tensor=squares, dim=(0, 2), keepdim=True)
    safe = b.call("ttnn.add", input_tensor_a=variance, input_tensor_b=float(eps))
    rstd = b.call("ttnn.rsqrt", input_tensor=safe)
    if running_mean.dtype != "float32":  # eager then takes both as it keeps them
        mean, rstd = (b.cast(b.cast(v, running_mean.dtype), WIDE) for v in (mean, rstd))
        distance = b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=mean)
    out = b.call("ttnn.multiply", input_tensor_a=distance, input_tensor_b=rstd)
    for kernel, parameter in (("ttnn.multiply", weight), ("ttnn.add", bias)):
        if parameter is not None:
            wide = b.reshape(b.cast(parameter, WIDE), (1, c, 1))
            out = b.call(kernel, input_tensor_a=out, input_tensor_b=wide)
    unbiased = b.call("ttnn.multiply", input_tensor_a=variance, input_tensor_b=count / (count - 1))
    results = (
        out,
        mean,
        rstd,
        _moved(b, running_mean, mean, momentum) if b.used(3) else None,
        _moved(b, running_var, unbiased, momentum) if b.used(4) else None,
    )
    return tuple(
        b.reshape(b.cast(r, o.dtype), o.shape) if r is not None and o is not None else None
        for r, o in zip(results, b.outs)
    )


def _moved(b: Builder, running: Value, batch: Value, momentum: float) -> Value:
    """(1 - momentum) · running + momentum · batch"""
    old = b.reshape(b.cast(running, WIDE), batch.shape)
    old = b.call("ttnn.multiply", input_tensor_a=old, input_tensor_b=1.0 - momentum)
    new = b.call("ttnn.multiply", input_tensor_a=batch, input_tensor_b=float(momentum))
    return b.call("ttnn.add", input_tensor_a=old, input_tensor_b=new)


def maxima_and_indices(
    b: Builder, x: Value, window: Ints, step: Ints, edge: Ints, gap: Ints, spatial: Ints
) -> tuple[Value, Value]:
    """Max-pooling place by place, as eager goes through a window: a later place wins if it is larger, or not a number.

    Indices count the input's pixels. A window of nothing but -inf names its first place that is not padding.
    """
    n, c, h, w = x.shape
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(spatial, step, window, gap)]
    after = [max(0, r - size - e) for r, size, e in zip(reach, (h, w), edge)]
    padded = lower_pad(b, x, (edge[1], after[1], edge[0], after[0]), -math.inf)
    rows, columns = (
        (torch.arange(o) * s - e).unsqueeze(1) + torch.arange(k) * d
        for o, s, e, k, d in zip(spatial, step, edge, window, gap)
    )  # [outputs, places]
    pixels = rows[:, None, :, None] * w + columns[None, :, None, :]
    first = [torch.where(r >= 0, r, h * w).amin(1) for r in (rows, columns)]
    indices = b.constant((first[0][:, None] * w + first[1]).reshape(1, 1, *spatial))
    best = b.constant(torch.full((1, 1, 1, 1), -math.inf, dtype=getattr(torch, x.dtype)))
    bounds = (0, h * w - 1)
    for i, j in itertools.product(range(window[0]), range(window[1])):
        y0, x0 = i * gap[0], j * gap[1]
        place = b.call(
            "ttnn.slice",
            input_tensor=padded,
            slice_start=(0, 0, y0, x0),
            slice_end=(n, c, y0 + (spatial[0] - 1) * step[0] + 1, x0 + (spatial[1] - 1) * step[1] + 1),
            slice_step=(1, 1, *step),
        )
        larger = b.call("ttnn.gt", input_tensor_a=place, input_tensor_b=best, dtype=b.dtype("bool"), gives="bool")
        broken = b.call("ttnn.isnan", input_tensor=place, gives="bool")
        wins = b.call("ttnn.logical_or", input_tensor_a=larger, input_tensor_b=broken, gives="bool")
        best = b.call("ttnn.where", predicate=wins, true_value=place, false_value=best, gives=x.dtype)
        here = b.constant(pixels[:, :, i, j].clamp(*bounds).reshape(1, 1, *spatial))
        indices = b.call(
            "ttnn.where", predicate=wins, true_value=here, false_value=indices, gives="int64", range=bounds
        )
    return best, indices


def batch_norm_samples() -> Iterator[Sample]:
    statistics = randn(6), uniform(6, low=0.5, high=2.0)
    for shape in ((2, 6, 5, 7), (4, 6), (2, 6, 9), (2, 6, 3, 4, 5)):
        name = f"rank {len(shape)}"
        yield Sample((randn(*shape) + 1, randn(6), randn(6), *statistics, True, 0.1, 1e-5), name=name)
    yield Sample((randn(2, 6, 5, 7), None, None, *statistics, True, 0.3, 1e-3), name="no affine")
    narrow = randn(2, 6, 5, 7, dtype=torch.bfloat16), randn(6, dtype=torch.bfloat16), randn(6, dtype=torch.bfloat16)
    yield Sample((*narrow, *(s.bfloat16() for s in statistics), True, 0.1, 1e-5), name="bfloat16")
    yield Sample((randn(2, 6, 5, 7), None, None, *statistics, False, 0.1, 1e-5), name="not training")


OPS = [Op("aten._native_batch_norm_legit_functional.default", lower_batch_norm, samples=batch_norm_samples)]
