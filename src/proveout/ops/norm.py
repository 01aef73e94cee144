"""Softmax and normalisations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from proveout.ops.samples import ODD, randn, uniform
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value, normal_dim
from proveout.reasons import Kind

SINGLE_NUMBER = Kind("softmax-of-one", "{op} of a single number")
EMPTY_STATISTICS = Kind("norm-empty-statistics", "the saved statistics of an inference batch norm are empty")
NO_STATISTICS = Kind("norm-no-statistics", "a batch norm with neither statistics nor a batch to take them from")
STATISTICS_DTYPE = Kind("norm-saved-dtype", "statistics that are bfloat16 in eager and float32 in PyTorch's trace")


def lower_softmax(b: Builder, self: Value, dim: int, half_to_float: bool) -> Value:
    if self.rank == 0:
        raise Refused(SINGLE_NUMBER(op="softmax"))
    return b.call("ttnn.softmax", input_tensor=b.cast(self, b.out.dtype), dim=normal_dim(dim, self.rank))


def lower_log_softmax(b: Builder, self: Value, dim: int, half_to_float: bool) -> Value:
    """x - max - log Σ exp(x - max), in float32 as eager has it inside; the logarithm of a softmax would underflow."""
    if self.rank == 0:
        raise Refused(SINGLE_NUMBER(op="log_softmax"))
    dims = (normal_dim(dim, self.rank),)
    x = b.cast(self, WIDE)
    peak = b.call("ttnn.max", input_tensor=x, dim=dims, keepdim=True)
    shifted = b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=peak)
    total = b.call("ttnn.sum", input_tensor=b.call("ttnn.exp", input_tensor=shifted), dim=dims, keepdim=True)
    in_rows = math.prod(self.shape[dims[0] + 1 :]) == 1  # there, and only there, eager keeps sums in the input's dtype
    for kernel in (None, "ttnn.log"):
        total = b.call(kernel, input_tensor=total) if kernel else total
        total = b.cast(b.cast(total, self.dtype), WIDE) if in_rows and self.is_float else total
    out = b.call("ttnn.subtract", input_tensor_a=shifted, input_tensor_b=total)
    return b.cast(out, b.out.dtype)


def lower_layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value | None, ...]:
    """Several normalised dimensions are one to the kernel; the statistics are made only where training reads them, in
    float32 as eager makes them, whatever it stores them as."""
    size = math.prod(normalized_shape)
    lead = input.shape[: input.rank - len(normalized_shape)]
    x = b.reshape(input, (*lead, size)) if len(normalized_shape) > 1 else input
    affine: dict[str, Any] = {
        k: b.reshape(b.cast(v, input.dtype), (size,)) for k, v in (("weight", weight), ("bias", bias)) if v
    }
    out = b.reshape(b.call("ttnn.layer_norm", input_tensor=x, epsilon=eps, **affine), input.shape)
    if not (b.used(1) or b.used(2)):
        return out, None, None
    statistics = b.outs[1]
    assert statistics is not None
    wide = b.cast(x, WIDE)
    last = (wide.rank - 1,)
    mean = b.call("ttnn.mean", input_tensor=wide, dim=last, keepdim=True)
    distance = b.call("ttnn.subtract", input_tensor_a=wide, input_tensor_b=mean)
    variance = b.call("ttnn.mean", input_tensor=b.call("ttnn.square", input_tensor=distance), dim=last, keepdim=True)
    safe = b.call("ttnn.add", input_tensor_a=variance, input_tensor_b=float(eps))
    rstd = b.call("ttnn.rsqrt", input_tensor=safe)
    mean, rstd = (b.reshape(b.cast(v, statistics.dtype), statistics.shape) for v in (mean, rstd))
    return out, mean, rstd


def lower_batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """The kernel takes [N, C, H, W]; other ranks are brought to it and back, but rows are scaled and shifted.

    As [N, C, 1, 1] each of their numbers would fill a tile. In float32, as eager has it inside.
    """
    if b.used(1) or b.used(2):
        raise Refused(EMPTY_STATISTICS())
    n, c, *rest = input.shape
    if not rest:
        scale = _inverse_root(b, _row(b, running_var), eps)
        if weight is not None:
            scale = b.call("ttnn.multiply", input_tensor_a=scale, input_tensor_b=_row(b, weight))
        rows = b.call("ttnn.subtract", input_tensor_a=b.cast(input, WIDE), input_tensor_b=_row(b, running_mean))
        rows = b.call("ttnn.multiply", input_tensor_a=rows, input_tensor_b=scale)
        if bias is not None:
            rows = b.call("ttnn.add", input_tensor_a=rows, input_tensor_b=_row(b, bias))
        return b.cast(rows, input.dtype), None, None
    x = b.reshape(input, (n, c, math.prod(rest[:-1]), rest[-1]))
    operands = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    parameters: dict[str, Any] = {k: b.reshape(b.cast(v, input.dtype), (1, c, 1, 1)) for k, v in operands.items() if v}
    out = b.call("ttnn.batch_norm", input=x, eps=eps, **parameters)
    return b.reshape(out, input.shape), None, None


def lower_group_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Value | None, ...]:
    """A group is a row to ttnn.layer_norm; scale and shift are the channels'. In float32, as eager has it inside."""
    x = b.reshape(b.cast(input, WIDE), (N, group, C // group * HxW))
    out = b.call("ttnn.layer_norm", input_tensor=x, epsilon=eps)
    out = _affine(b, b.reshape(out, (N, C, HxW)), weight, bias)
    out = b.cast(b.reshape(out, input.shape), input.dtype)
    if not (b.used(1) or b.used(2)):
        return out, None, None
    mean, variance = _moments(b, x, (2,))
    return out, _like(b, mean, b.outs[1]), _like(b, _inverse_root(b, variance, eps), b.outs[2])


def lower_batch_norm_no_stats(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """With the batch's own statistics, as instance norms ask for it; in float32, as eager has it inside."""
    if not training:
        raise Refused(NO_STATISTICS())
    n, c, *rest = input.shape
    x = b.reshape(b.cast(input, WIDE), (n, c, math.prod(rest)))
    mean, variance = _moments(b, x, (0, 2))
    rstd = _inverse_root(b, variance, eps)
    if input.dtype == "bfloat16" and (weight is None or weight.dtype == "bfloat16"):
        if b.used(1) or b.used(2):
            raise Refused(STATISTICS_DTYPE())
        mean, rstd = (b.cast(b.cast(v, "bfloat16"), WIDE) for v in (mean, rstd))  # as eager stores them
    distance = b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=mean)
    out = _affine(b, b.call("ttnn.multiply", input_tensor_a=distance, input_tensor_b=rstd), weight, bias)
    out = b.cast(b.reshape(out, input.shape), input.dtype)
    return out, _like(b, mean, b.outs[1]), _like(b, rstd, b.outs[2])


def _moments(b: Builder, x: Value, dims: tuple[int, ...]) -> tuple[Value, Value]:
    """Mean and biased variance, in two passes, with the reduced dimensions kept."""
    mean = b.call("ttnn.mean", input_tensor=x, dim=dims, keepdim=True)
    squares = b.call("ttnn.square", input_tensor=b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=mean))
    return mean, b.call("ttnn.mean", input_tensor=squares, dim=dims, keepdim=True)


def _inverse_root(b: Builder, variance: Value, eps: float) -> Value:
    safe = b.call("ttnn.add", input_tensor_a=variance, input_tensor_b=float(eps))
    return b.call("ttnn.rsqrt", input_tensor=safe)


def _row(b: Builder, parameter: Value) -> Value:
    return b.reshape(b.cast(parameter, WIDE), (1, *parameter.shape))


def _affine(b: Builder, x_NCL: Value, weight: Value | None, bias: Value | None) -> Value:
    for kernel, parameter in (("ttnn.multiply", weight), ("ttnn.add", bias)):
        if parameter is not None:
            column = b.reshape(b.cast(parameter, x_NCL.dtype), (1, x_NCL.shape[1], 1))
            x_NCL = b.call(kernel, input_tensor_a=x_NCL, input_tensor_b=column)
    return x_NCL


def _like(b: Builder, x: Value, out: Value | None) -> Value:
    assert out is not None
    return b.cast(b.reshape(x, out.shape), out.dtype)


def softmax_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), -1, False))
    yield Sample((randn(*ODD), 1, False), name="inner")
    yield Sample((randn(50, scale=30.0), 0, False), name="large, 1-d")
    masked = randn(4, 8)
    masked[:, 5:] = -math.inf
    yield Sample((masked, -1, False), name="-inf mask")
    yield Sample((randn(4, 8, dtype=torch.bfloat16), -1, False), name="bfloat16")


def rows_and_columns() -> Iterator[Sample]:
    for dim in (0, 1):
        yield Sample((randn(50, 60, dtype=torch.bfloat16, scale=3.0), dim, False), name=f"bfloat16, dim {dim}")


def layer_norm_samples() -> Iterator[Sample]:
    yield Sample((randn(2, 5, 50), [50], randn(50), randn(50), 1e-5))
    yield Sample((randn(2, 5, 50), [50], None, None, 1e-12), name="no affine")
    yield Sample((randn(2, 3, 4, 6), [4, 6], randn(4, 6), randn(4, 6), 1e-5), name="two dimensions")
    yield Sample((randn(2, 5, 50), [50], randn(50), None, 1e-2), name="no bias")


def batch_norm_samples() -> Iterator[Sample]:
    for shape in ((2, 6, 5, 7), (4, 6), (2, 6, 9), (2, 6, 3, 4, 5)):
        statistics = randn(6), uniform(6, low=0.5, high=2.0)
        yield Sample((randn(*shape), randn(6), randn(6), *statistics, 0.1, 1e-5), name=f"rank {len(shape)}")
    yield Sample((randn(2, 6, 5, 7), None, None, *statistics, 0.1, 1e-3), name="no affine")


def group_norm_samples() -> Iterator[Sample]:
    yield Sample((randn(2, 6, 5, 7), randn(6), randn(6), 2, 6, 35, 3, 1e-5))
    yield Sample((randn(2, 6, 9), None, None, 2, 6, 9, 1, 1e-3), name="one group, no affine")
    yield Sample((randn(2, 6), randn(6), None, 2, 6, 1, 2, 1e-5), name="no bias")
    half = (randn(n, dtype=torch.bfloat16) for n in (6, 6))
    yield Sample((randn(2, 6, 5, 7, dtype=torch.bfloat16), *half, 2, 6, 35, 3, 1e-5), name="bfloat16")


def no_stats_samples() -> Iterator[Sample]:
    for shape in ((2, 6, 5, 7), (4, 6), (2, 6, 9)):
        yield Sample((randn(*shape), randn(6), randn(6), True, 0.1, 1e-5), name=f"rank {len(shape)}")
    yield Sample((randn(2, 6, 5, 7), None, None, True, 0.3, 1e-3), name="no affine")
    half = (randn(2, 6, 5, 7, dtype=torch.bfloat16), randn(6), randn(6), True, 0.1, 1e-5)
    yield Sample(half, name="bfloat16, float32 affine")
    yield Sample((randn(2, 6, 5, 7, dtype=torch.bfloat16), None, None, True, 0.1, 1e-5), name="bfloat16")


OPS = [
    Op("aten._softmax.default", lower_softmax, samples=softmax_samples),
    Op(
        "aten._log_softmax.default",
        lower_log_softmax,
        samples=lambda: (s for s in (*softmax_samples(), *rows_and_columns()) if "inf" not in s.name),
    ),
    Op("aten.native_layer_norm.default", lower_layer_norm, samples=layer_norm_samples),
    Op("aten.native_group_norm.default", lower_group_norm, samples=group_norm_samples),
    Op("aten._native_batch_norm_legit_no_training.default", lower_batch_norm, samples=batch_norm_samples),
    Op("aten._native_batch_norm_legit.no_stats", lower_batch_norm_no_stats, samples=no_stats_samples),
]
