"""Softmax and normalisations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from proveout.ops.samples import ODD, randn, uniform
from proveout.ops.table import Builder, Op, Refused, Sample, Value, normal_dim


def lower_softmax(b: Builder, self: Value, dim: int, half_to_float: bool) -> Value:
    if self.rank == 0:
        raise Refused("softmax of a single number")
    return b.call("ttnn.softmax", input_tensor=b.cast(self, b.out.dtype), dim=normal_dim(dim, self.rank))


def lower_log_softmax(b: Builder, self: Value, dim: int, half_to_float: bool) -> Value:
    """x - max - log Σ exp(x - max), in float32 as eager has it inside; the logarithm of a softmax would underflow."""
    if self.rank == 0:
        raise Refused("log_softmax of a single number")
    dims = (normal_dim(dim, self.rank),)
    x = b.cast(self, "float32")
    peak = b.call("ttnn.max", input_tensor=x, dim=dims, keepdim=True)
    shifted = b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=peak)
    total = b.call("ttnn.sum", input_tensor=b.call("ttnn.exp", input_tensor=shifted), dim=dims, keepdim=True)
    out = b.call("ttnn.subtract", input_tensor_a=shifted, input_tensor_b=b.call("ttnn.log", input_tensor=total))
    return b.cast(out, b.out.dtype)


def lower_layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value | None, ...]:
    """Several normalised dimensions are one to the kernel; the statistics are made only where training reads them."""
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
    wide = b.cast(x, statistics.dtype)
    last = (wide.rank - 1,)
    mean = b.call("ttnn.mean", input_tensor=wide, dim=last, keepdim=True)
    distance = b.call("ttnn.subtract", input_tensor_a=wide, input_tensor_b=mean)
    variance = b.call("ttnn.mean", input_tensor=b.call("ttnn.square", input_tensor=distance), dim=last, keepdim=True)
    safe = b.call("ttnn.add", input_tensor_a=variance, input_tensor_b=float(eps))
    rstd = b.call("ttnn.rsqrt", input_tensor=safe)
    return out, b.reshape(mean, statistics.shape), b.reshape(rstd, statistics.shape)


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
    """The kernel takes [N, C, H, W]; other ranks are brought to it and back."""
    if b.used(1) or b.used(2):
        raise Refused("the saved statistics of an inference batch norm are empty")
    n, c, *rest = input.shape
    height = math.prod(rest[:-1]) if rest else 1
    x = b.reshape(input, (n, c, height, rest[-1] if rest else 1))
    given = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    parameters: dict[str, Any] = {k: b.reshape(b.cast(v, input.dtype), (1, c, 1, 1)) for k, v in given.items() if v}
    out = b.call("ttnn.batch_norm", input=x, eps=eps, **parameters)
    return b.reshape(out, input.shape), None, None


def softmax_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), -1, False))
    yield Sample((randn(*ODD), 1, False), name="inner")
    yield Sample((randn(50, scale=30.0), 0, False), name="large, 1-d")
    masked = randn(4, 8)
    masked[:, 5:] = -math.inf
    yield Sample((masked, -1, False), name="-inf mask")
    yield Sample((randn(4, 8, dtype=torch.bfloat16), -1, False), name="bfloat16")


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


OPS = [
    Op("aten._softmax.default", lower_softmax, samples=softmax_samples),
    Op(
        "aten._log_softmax.default",
        lower_log_softmax,
        samples=lambda: (s for s in softmax_samples() if "inf" not in s.name),
    ),
    Op("aten.native_layer_norm.default", lower_layer_norm, samples=layer_norm_samples),
    Op("aten._native_batch_norm_legit_no_training.default", lower_batch_norm, samples=batch_norm_samples),
]
