"""Negative log-likelihood, the end of a cross-entropy, and its gradient.

Targets are class numbers or `ignore_index`; eager raises for others, so that they are bounded is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from proveout.ops.samples import ints, randn, uniform
from proveout.ops.table import Builder, Op, Refused, Sample, Value
from proveout.reasons import NO_ELEMENTS, Kind

LOSS_OF_NOTHING = Kind("loss-of-nothing", "a loss over no element", NO_ELEMENTS.fix)

NONE, MEAN, SUM = range(3)


def lower_nll_loss(
    b: Builder, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value | None, ...]:
    """Minus the score of each row's class, times the class's weight; in float32, as eager rounds at the end."""
    num, classes = _sizes(self)
    scores = b.reshape(b.cast(self, "float32"), (num, classes))
    labels, counts = _labels(b, target, num, classes, ignore_index)
    first = b.constant(torch.zeros((), dtype=torch.int64))
    safe = b.call(
        "ttnn.where", predicate=counts, true_value=labels, false_value=first, gives="int64", range=(0, classes - 1)
    )
    zero = b.constant(torch.zeros(()))
    places = b.as_indices(safe)

    def picked(x: Value) -> Value:
        losses = b.call("ttnn.gather", input=x, dim=1, index=places)
        return b.call("ttnn.where", predicate=counts, true_value=losses, false_value=zero, gives="float32")

    loss = b.call("ttnn.neg", input_tensor=picked(scores))
    share = b.cast(counts, "float32")
    if weight is not None:
        share = picked(b.expand(b.reshape(b.cast(weight, "float32"), (1, classes)), (num, classes)))
        loss = b.call("ttnn.multiply", input_tensor_a=loss, input_tensor_b=share)
    if reduction == NONE and self.rank > 1:
        return b.reshape(b.cast(loss, b.out.dtype), b.out.shape), b.constant(torch.zeros((), dtype=_dtype(self)))
    total = b.call("ttnn.sum", input_tensor=share, dim=(0, 1), keepdim=False)
    loss = b.call("ttnn.sum", input_tensor=loss, dim=(0, 1), keepdim=False)
    if reduction == MEAN:
        loss = b.call("ttnn.div", input_tensor_a=loss, input_tensor_b=total)
    return b.cast(loss, self.dtype), b.cast(total, self.dtype)


def lower_nll_loss_backward(
    b: Builder,
    grad_output: Value,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value:
    """Minus the gradient at each row's class, nothing elsewhere."""
    num, classes = _sizes(self)
    labels, counts = _labels(b, target, num, classes, ignore_index)
    nowhere = b.constant(torch.full((), -1, dtype=torch.int64))
    labels = b.call(
        "ttnn.where", predicate=counts, true_value=labels, false_value=nowhere, gives="int64", range=(-1, classes - 1)
    )
    names = b.constant(torch.arange(classes).reshape(1, classes))
    chosen = b.call("ttnn.eq", input_tensor_a=labels, input_tensor_b=names, dtype=b.dtype("bool"), gives="bool")
    rows = num if reduction == NONE and self.rank > 1 else 1
    grad = b.call("ttnn.neg", input_tensor=b.reshape(b.cast(grad_output, "float32"), (rows, 1)))
    if reduction == MEAN:
        total = b.reshape(b.cast(total_weight, "float32"), (1, 1))
        grad = b.call("ttnn.div", input_tensor_a=grad, input_tensor_b=total)
    if weight is not None:
        wide = b.reshape(b.cast(weight, "float32"), (1, classes))
        grad = b.call("ttnn.multiply", input_tensor_a=grad, input_tensor_b=wide)
    zero = b.constant(torch.zeros(()))
    out = b.call(
        "ttnn.where",
        predicate=chosen,
        true_value=b.expand(grad, (num, classes)),
        false_value=zero,
        gives="float32",
    )
    return b.reshape(b.cast(out, b.out.dtype), self.shape)


def _sizes(scores: Value) -> tuple[int, int]:
    if 0 in scores.shape:
        raise Refused(LOSS_OF_NOTHING())
    return (scores.shape[0] if scores.rank > 1 else 1), scores.shape[-1]


def _labels(b: Builder, target: Value, num: int, classes: int, ignore_index: int) -> tuple[Value, Value]:
    """The targets as a column of bounded integers, and which of them count."""
    bounds = min(0, ignore_index), max(classes - 1, ignore_index)
    known = target if target.constant is not None else replace(target, range=bounds)
    column = b.reshape(known, (num, 1))
    counts = b.call("ttnn.ne", input_tensor_a=column, input_tensor_b=ignore_index, dtype=b.dtype("bool"), gives="bool")
    return column, counts


def _dtype(x: Value) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, x.dtype)
    return dtype


# ---- samples ---------------------------------------------------------------------------------------------------


def _cases() -> Iterator[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor | None, int, int]]:
    scores, target = torch.log_softmax(randn(9, 7), 1), ints(9, low=0, high=7)
    skipping = torch.where(torch.arange(9) % 3 == 0, -100, target)
    weight = uniform(7, low=0.5, high=2.0)
    for reduction, name in ((NONE, "none"), (MEAN, "mean"), (SUM, "sum")):
        yield name, scores, target, None, reduction, -100
        yield f"{name}, weighted, some ignored", scores, skipping, weight, reduction, -100
    yield "a class is ignored", scores, target, None, MEAN, int(target[0])
    yield "all ignored", scores, torch.full((9,), -100), weight, MEAN, -100
    yield "no batch", scores[0], target[0], weight, MEAN, -100
    yield "bfloat16", scores.bfloat16(), target, None, MEAN, -100
    infinite = scores.clone()
    infinite[:, 0] = -torch.inf
    yield "-inf elsewhere", infinite, target.clamp(min=1), None, MEAN, -100


def forward_samples() -> Iterator[Sample]:
    for name, *arguments in _cases():
        yield Sample(tuple(arguments), name=name)


def backward_samples() -> Iterator[Sample]:
    for name, *arguments in _cases():
        out, total = torch.ops.aten.nll_loss_forward(*arguments)
        yield Sample((randn(*out.shape, dtype=out.dtype) + 1, *arguments, total), name=name)


OPS = [
    Op("aten.nll_loss_forward.default", lower_nll_loss, samples=forward_samples),
    Op("aten.nll_loss_backward.default", lower_nll_loss_backward, samples=backward_samples),
]
