"""Which ATen ops are taken apart before we see them: PyTorch's core table, less the ops we have rows for and less
those whose decomposition does not compute what the op itself computes; and our own for dropout."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions
from torch.utils._python_dispatch import _disable_current_modes

from proveout.ops.table import ops

aten = torch.ops.aten


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    table = core_aten_decompositions()
    kept = {op: rule for op, rule in table.items() if not _kept(op)}
    return {op: _in_float32(rule) if _name(op) in ROUNDS_MORE_OFTEN else rule for op, rule in kept.items()} | OUR_OWN


ROUNDS_OTHERWISE = frozenset({"linspace", "logspace"})
"""Their decompositions give other numbers than their own kernels, found with PyTorch's operator samples."""


ROUNDS_MORE_OFTEN = frozenset(
    {"addr", "linalg_cross", "logit", "binary_cross_entropy_with_logits", "nll_loss_forward", "nll_loss2d_forward"}
)
"""In bfloat16 their own kernels round once or elsewhere, their decompositions after each step: kept whole there."""


def _in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule, or no rule where a tensor is bfloat16."""

    @functools.wraps(rule)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        arguments = (*args, *kwargs.values())
        if any(isinstance(t, torch.Tensor) and t.dtype == torch.bfloat16 for t in arguments):
            return NotImplemented
        return rule(*args, **kwargs)

    return decompose


def _name(op: Any) -> str:
    return op._schema.name.removeprefix("aten::") if isinstance(op, torch._ops.OpOverload) else ""


@contextmanager
def kept_whole() -> Iterator[None]:
    """Trace inside: a few composite ops (interpolation) PyTorch takes apart in Python whatever the table says.

    Those of them that have rows lose their Python rules for as long as the trace lasts, and dispatch as in eager.
    """
    removed = []
    for overload in map(_overload, ops()):
        for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
            if key in overload.py_kernels:
                removed.append((overload, key, overload.py_kernels.pop(key)))
                overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for overload, key, rule in removed:
            overload.py_kernels[key] = rule
            overload._dispatch_cache.clear()


@functools.cache
def _overload(name: str) -> Any:
    _, op, overload = name.split(".")
    return getattr(getattr(aten, op), overload)


def _kept(op: Any) -> bool:
    """Random ops are kept too: taken apart they would draw other numbers than eager."""
    if not isinstance(op, torch._ops.OpOverload):
        return False
    return str(op) in ops() or _name(op) in ROUNDS_OTHERWISE or torch.Tag.nondeterministic_seeded in op.tags


def native_dropout(input: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Eager's numbers, drawn on the host; the products are the device's.

    Eager draws one number for each element in the order they lie in memory, so a permuted input is drawn for in the
    order of its dense copy. At probability 1 `F.dropout` draws nothing.
    """
    if train is False or p == 0:
        return input, torch.ones_like(input, dtype=torch.bool)
    if p == 1:
        return input * 0.0, torch.zeros_like(input, dtype=torch.bool)
    strides = torch.empty_like(input, device="meta").stride()
    order = sorted(range(input.dim()), key=lambda d: -strides[d])
    blank = torch.full([input.shape[d] for d in order], False, device=input.device)
    mask = aten.bernoulli.p(blank, 1 - p)
    if order != list(range(input.dim())):
        mask = mask.permute([order.index(d) for d in range(input.dim())])
    return input * mask * _rounded(1 / (1 - p), input.dtype), mask


def _rounded(number: float, dtype: torch.dtype) -> float:
    """Eager's scale is a tensor of the input's dtype."""
    with _disable_current_modes():
        return torch.tensor(number, dtype=dtype).item()


OUR_OWN: dict[Any, Callable[..., Any]] = {aten.native_dropout.default: native_dropout}
