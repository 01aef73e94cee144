"""Which ATen ops are taken apart before we see them: PyTorch's core table, less the ops we have rows for and less
those whose decomposition does not compute what the op itself computes; and our own for dropout and for fused layers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from proveout.compiler.fused_layers import FUSED_LAYERS
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

    Those of them that have rows lose their Python rules for as long as the trace lasts, and dispatch as in eager; those
    of `OUR_COMPOSITES` have ours.
    """
    removed = []
    for overload in map(_overload, ops()):
        for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
            if key in overload.py_kernels:
                removed.append((overload, key, overload.py_kernels.pop(key)))
                overload._dispatch_cache.clear()
    for overload, rule in OUR_COMPOSITES.items():
        overload.py_kernels[DispatchKey.CompositeImplicitAutograd] = rule
        overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for overload in OUR_COMPOSITES:
            overload.py_kernels.pop(DispatchKey.CompositeImplicitAutograd, None)
            overload._dispatch_cache.clear()
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


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Without heads, or with other values than keys in size: PyTorch writes it out, for bfloat16 all in float32. With
    heads it is one op, which is float32 inside under every precision; zeros on a row change no score."""
    whole = aten.scaled_dot_product_attention.default
    options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
    operands = (query, key, value)
    if dropout_p or (enable_gqa and query.dim() != 4) or not _may_have_heads(query, key, value, attn_mask):
        return _as_pytorch(whole, *operands, attn_mask, dropout_p, is_causal, **options)
    options["scale"] = query.shape[-1] ** -0.5 if scale is None else scale
    depth = max(t.shape[-1] for t in operands)
    q, k, v = (t if t.shape[-1] == depth else F.pad(t, (0, depth - t.shape[-1])) for t in operands)
    lead = torch.broadcast_shapes(*(t.shape[:-2] for t in operands))
    if query.dim() != 4:
        q, k, v = (_as_heads(t, lead) for t in (q, k, v))
        attn_mask = _as_heads(attn_mask, lead) if attn_mask is not None and attn_mask.dim() > 2 else attn_mask
    out = whole(q, k, v, attn_mask, 0.0, is_causal, **options)[..., : value.shape[-1]]
    return out if query.dim() == 4 else out.reshape(*lead, *out.shape[-2:])


def _may_have_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether PyTorch would write it out, and would not if all leading dimensions were one batch's heads."""
    operands = (q, k, v)
    if min(t.dim() for t in operands) < 2 or any(t.is_cuda or t.numel() == 0 for t in operands):
        return False
    if q.shape[-1] != k.shape[-1] or (q.dim() == 4 and v.shape[-1] == q.shape[-1]):
        return False
    lead = torch.broadcast_shapes(*(t.shape[:-2] for t in operands))
    return mask is None or torch.broadcast_shapes(lead, mask.shape[:-2]) == lead


def _as_heads(x: torch.Tensor, lead: torch.Size) -> torch.Tensor:
    return x.expand(*lead, *x.shape[-2:]).reshape(1, -1, *x.shape[-2:])


def rms_norm(
    input: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """Several dimensions as one row, so that all of it can be one kernel, float32 inside as eager's is."""
    whole = aten.rms_norm.default
    num = len(normalized_shape)
    if num < 2 or list(input.shape[-num:]) != list(normalized_shape):  # eager refuses the latter
        return _as_pytorch(whole, input, normalized_shape, weight, eps)
    size = math.prod(normalized_shape)
    row = weight.reshape(size) if weight is not None else None
    return whole(input.reshape(*input.shape[:-num], size), [size], row, eps).reshape(input.shape)


def _as_pytorch(op: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """PyTorch's own way of taking a composite op apart."""
    out: torch.Tensor = op._op_dk(DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
    return out


OUR_COMPOSITES: dict[Any, Callable[..., Any]] = {
    aten.scaled_dot_product_attention.default: attention,
    aten.rms_norm.default: rms_norm,
}
"""Ops that are several to PyTorch before a trace sees them, as those that have a row."""


def as_strided_scatter(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Into a copy where an element of memory is several of the operand's: eager's does so, but PyTorch's rule for the
    result says that it repeats like the operand."""
    if not any(n > 1 and s == 0 for n, s in zip(self.shape, self.stride())):
        return NotImplemented
    return aten.as_strided_scatter.default(self.contiguous(), *args, **kwargs)


OUR_OWN: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: native_dropout,
    aten.as_strided_scatter.default: as_strided_scatter,
    **FUSED_LAYERS,
}
