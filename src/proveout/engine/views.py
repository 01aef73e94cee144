"""Outputs that lie in another tensor's memory: how they lie there, and the same look at another such tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proveout.kernels.table import dtype_name, torch_dtype


@dataclass(frozen=True)
class View:
    """A look at a tensor's memory, perhaps as another dtype; strides and offset count the view's own elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """From the base's first element."""
    dtype: str
    base_stride: tuple[int, ...]
    conjugate: bool = False
    """Whether it is the base's conjugate."""


def view_of(result: torch.Tensor, base: torch.Tensor) -> View | None:
    """How a tensor looks at another's memory; None where it begins before it or between its elements."""
    size = result.element_size()
    ahead = result.storage_offset() * size - base.storage_offset() * base.element_size()
    if ahead < 0 or ahead % size:
        return None
    stride = tuple(result.stride())
    if result.is_neg() != base.is_neg():
        return None
    conjugate = result.is_conj() != base.is_conj()
    return View(tuple(result.shape), stride, ahead // size, dtype_name(result.dtype), tuple(base.stride()), conjugate)


def seen_as(base: torch.Tensor, view: View) -> torch.Tensor:
    """The view of another tensor that lies as the first base did."""
    base, dtype = with_strides(base.resolve_conj().resolve_neg(), view.base_stride), torch_dtype(view.dtype)
    first = base.storage_offset() * base.element_size()
    if len(view.shape) != len(view.stride) or min((*view.shape, *view.stride, view.offset), default=0) < 0:
        raise ValueError("a view has an impossible shape")
    last = view.offset + sum((n - 1) * s for n, s in zip(view.shape, view.stride))
    end = base.untyped_storage().nbytes()
    if first % dtype.itemsize or (0 not in view.shape and first + (last + 1) * dtype.itemsize > end):
        raise ValueError("a view reaches beyond its tensor")
    start = first // dtype.itemsize + view.offset
    if dtype == base.dtype:
        found = base.as_strided(view.shape, view.stride, start)
        return found.conj() if view.conjugate else found
    return torch.empty(0, dtype=dtype).set_(base.untyped_storage(), start, view.shape, view.stride)  # type: ignore[call-overload]


def with_strides(value: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    """The same numbers laid out like this: later code, views above all, may rely on eager's strides."""
    if strides is None or not isinstance(value, torch.Tensor) or value.stride() == strides:
        return value
    if len(strides) != value.dim() or min(strides, default=0) < 0:
        raise ValueError(f"strides {strides} do not fit the shape {tuple(value.shape)}")
    if any(n > 1 and s == 0 for n, s in zip(value.shape, strides)):
        return _repeated(value, strides)
    if any(n > 1 and a != b for n, a, b in zip(value.shape, value.stride(), strides)):
        return torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)
    return value.as_strided(value.shape, strides)


def _repeated(value: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """An expanded tensor: one element stands for a whole dimension."""
    once = value[tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)]
    base = torch.empty_strided(once.shape, strides, dtype=value.dtype, device=value.device).copy_(once)
    return base.as_strided(value.shape, strides)
