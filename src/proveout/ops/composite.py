"""Short formulas that eager computes in float32 and rounds once: taken apart, each step of them would round."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.norm import SINGLE_NUMBER
from proveout.ops.samples import ODD, randn, uniform
from proveout.ops.shape import cut
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value, normal_dim


def _wide(b: Builder, x: Value) -> Value:
    """An operand in float32; where the result is an integer, in the result's dtype."""
    return b.cast(x, WIDE if b.out.is_float else b.out.dtype)


def _product(b: Builder, x: Value, y: Value | float) -> Value:
    return b.call("ttnn.multiply", input_tensor_a=x, input_tensor_b=y)


def lower_addcmul(b: Builder, self: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    term = _product(b, _wide(b, tensor1), _wide(b, tensor2))
    term = term if value == 1 else _product(b, term, value)
    return b.cast(b.call("ttnn.add", input_tensor_a=_wide(b, self), input_tensor_b=term), b.out.dtype)


def lower_addcdiv(b: Builder, self: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    term = b.call("ttnn.div", input_tensor_a=_wide(b, tensor1), input_tensor_b=_wide(b, tensor2))
    term = term if value == 1 else _product(b, term, value)
    return b.cast(b.call("ttnn.add", input_tensor_a=_wide(b, self), input_tensor_b=term), b.out.dtype)


def lower_lerp(b: Builder, self: Value, end: Value, weight: Value | float) -> Value:
    """From the nearer end, as eager does it, so that a weight of 1 gives exactly that end."""
    start, stop = _wide(b, self), _wide(b, end)
    way = b.call("ttnn.subtract", input_tensor_a=stop, input_tensor_b=start)
    if not isinstance(weight, Value):
        near = abs(weight) < 0.5
        step = _product(b, way, weight if near else weight - 1)
        return b.cast(b.call("ttnn.add", input_tensor_a=start if near else stop, input_tensor_b=step), b.out.dtype)
    share = _wide(b, weight)
    rest = b.call("ttnn.subtract", input_tensor_a=share, input_tensor_b=1.0)
    ahead = b.call("ttnn.add", input_tensor_a=start, input_tensor_b=_product(b, way, share))
    back = b.call("ttnn.add", input_tensor_a=stop, input_tensor_b=_product(b, way, rest))
    size = b.call("ttnn.abs", input_tensor=share)
    is_near = b.call("ttnn.lt", input_tensor_a=size, input_tensor_b=0.5, dtype=b.dtype("bool"), gives="bool")
    out = b.call("ttnn.where", predicate=is_near, true_value=ahead, false_value=back, gives=ahead.dtype)
    return b.cast(out, b.out.dtype)


def lower_sinc(b: Builder, self: Value) -> Value:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = _wide(b, self)
    angle = _product(b, x, math.pi)
    ratio = b.call("ttnn.div", input_tensor_a=b.call("ttnn.sin", input_tensor=angle), input_tensor_b=angle)
    is_zero = b.call("ttnn.eq", input_tensor_a=x, input_tensor_b=0.0, dtype=b.dtype("bool"), gives="bool")
    out = b.call("ttnn.where", predicate=is_zero, true_value=1.0, false_value=ratio, gives=ratio.dtype)
    return b.cast(out, b.out.dtype)


def lower_glu(b: Builder, self: Value, dim: int = -1) -> Value:
    """The first half times the sigmoid of the second."""
    if self.rank == 0:
        raise Refused(SINGLE_NUMBER(op="glu"))
    dim = normal_dim(dim, self.rank)
    half = self.shape[dim] // 2
    first, second = (_wide(b, cut(b, self, dim, start, start + half)) for start in (0, half))
    return b.cast(_product(b, first, b.call("ttnn.sigmoid", input_tensor=second)), b.out.dtype)


def lower_log_sigmoid(b: Builder, self: Value) -> tuple[Value, Value]:
    """min(0, x) - log(1 + exp(-|x|)), and the exponential, which the backward reads."""
    x = _wide(b, self)
    z = b.call("ttnn.exp", input_tensor=b.call("ttnn.neg", input_tensor=b.call("ttnn.abs", input_tensor=x)))
    least = b.call("ttnn.neg", input_tensor=b.call("ttnn.relu", input_tensor=b.call("ttnn.neg", input_tensor=x)))
    log = b.call("ttnn.log1p", input_tensor=z)
    out = b.call("ttnn.subtract", input_tensor_a=least, input_tensor_b=log)
    return b.cast(out, self.dtype), b.cast(z, self.dtype)


def lower_softmax_backward(b: Builder, grad_output: Value, output: Value, dim: int, input_dtype: str) -> Value:
    """y (g - Σ y g)."""
    if output.rank == 0:
        raise Refused(SINGLE_NUMBER(op="softmax"))
    grad, y = b.cast(grad_output, WIDE), b.cast(output, WIDE)
    dims = (normal_dim(dim, output.rank),)
    total = b.call("ttnn.sum", input_tensor=_product(b, grad, y), dim=dims, keepdim=True)
    left = b.call("ttnn.subtract", input_tensor_a=grad, input_tensor_b=total)
    return b.cast(_product(b, left, y), b.out.dtype)


def three(*, low: float = -1.0) -> list[torch.Tensor]:
    return [randn(*ODD), randn(3, 1, 7), uniform(*ODD, low=low, high=2.0)]


def addcmul_samples() -> Iterator[Sample]:
    yield Sample(tuple(three()))
    yield Sample(tuple(three()), {"value": 0.3}, name="scaled")
    yield Sample(tuple(t.bfloat16() for t in three()), {"value": -2}, name="bfloat16")


def addcdiv_samples() -> Iterator[Sample]:
    yield Sample(tuple(three(low=0.5)))
    yield Sample(tuple(three(low=0.5)), {"value": 0.3}, name="scaled")


def lerp_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), randn(3, 1, 7), 0.3))
    yield Sample((randn(*ODD), randn(3, 1, 7), 0.9), name="from the far end")


def lerp_tensor_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD), randn(3, 1, 7), uniform(*ODD)))
    yield Sample((randn(4, 5), randn(4, 5), uniform(4, 5, low=-3.0, high=3.0)), name="beyond the ends")


def sinc_samples() -> Iterator[Sample]:
    yield Sample((torch.linspace(-4, 4, 17),), name="0 among them")
    yield Sample((randn(*ODD),))


def glu_samples() -> Iterator[Sample]:
    yield Sample((randn(3, 5, 8), -1))
    yield Sample((randn(3, 6, 5), 1), name="inner dimension")


def log_sigmoid_samples() -> Iterator[Sample]:
    yield Sample((randn(*ODD, scale=5.0),))


def softmax_backward_samples() -> Iterator[Sample]:
    yield Sample((randn(4, 9), randn(4, 9).softmax(-1), -1, torch.float32))
    yield Sample((randn(4, 9), randn(4, 9).softmax(0), 0, torch.float32), name="outer dimension")


OPS = [
    Op("aten.addcmul.default", lower_addcmul, samples=addcmul_samples),
    Op("aten.addcdiv.default", lower_addcdiv, samples=addcdiv_samples),
    Op("aten.lerp.Scalar", lower_lerp, samples=lerp_samples),
    Op("aten.lerp.Tensor", lower_lerp, samples=lerp_tensor_samples),
    Op("aten.sinc.default", lower_sinc, samples=sinc_samples),
    Op("aten.glu.default", lower_glu, samples=glu_samples),
    Op("aten.log_sigmoid_forward.default", lower_log_sigmoid, samples=log_sigmoid_samples),
    Op("aten._softmax_backward_data.default", lower_softmax_backward, samples=softmax_backward_samples),
]
