"""Outputs that lie in another tensor's memory: how they lie there, and the same look at another such tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from proveout.kernels.table import dtype_name, torch_dtype


@dataclass(frozen=True)
class TensorView:
    """A look at a tensor's memory, perhaps as another dtype; strides and offset count the view's own elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    """From the base's first element."""
    dtype: str
    base_stride: tuple[int, ...]
    conjugate: bool = False
    """Whether it is the base's conjugate."""


def view_of(result: torch.Tensor, base: torch.Tensor) -> TensorView | None:
    """How a tensor looks at another's memory; None where it begins before it or between its elements."""
    size = result.element_size()
    ahead = result.storage_offset() * size - base.storage_offset() * base.element_size()
    if ahead < 0 or ahead % size:
        return None
    stride = tuple(result.stride())
    if result.is_neg() != base.is_neg():
        return None
    conjugate = result.is_conj() != base.is_conj()
    return TensorView(
        tuple(result.shape), stride, ahead // size, dtype_name(result.dtype), tuple(base.stride()), conjugate
    )


def seen_as(base: torch.Tensor, view: TensorView) -> torch.Tensor:
    """The view of another tensor that lies as the first base did."""
    base, dtype = with_strides(resolved(base), view.base_stride), torch_dtype(view.dtype)
    first = base.storage_offset() * base.element_size()
    if len(view.shape) != len(view.stride) or min((*view.shape, *view.stride, view.offset), default=0) < 0:
        raise ValueError("a view has an impossible shape")
    last = view.offset + sum((n - 1) * s for n, s in zip(view.shape, view.stride))
    end = base.untyped_storage().nbytes()
    if first % dtype.itemsize or (0 not in view.shape and first + (last + 1) * dtype.itemsize > end):
        raise ValueError("a view reaches beyond its tensor")
    start = first // dtype.itemsize + view.offset
    if dtype == base.dtype:
        seen = base.as_strided(view.shape, view.stride, start)
    else:
        seen = torch.empty(0, dtype=dtype).set_(base.untyped_storage(), start, view.shape, view.stride)  # type: ignore[call-overload]
    return seen.conj() if view.conjugate else seen


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


def resolved(value: Any) -> Any:
    """A tensor whose memory holds its numbers, not those that it is the conjugate or the negative of."""
    return value.resolve_conj().resolve_neg() if isinstance(value, torch.Tensor) else value


class Resolved(torch.fx.Interpreter):
    """Runs a graph, no result a conjugate or a negative yet to be made where it was none when the graph was traced:
    what comes after may look at the memory itself. A gradient that was one then is none when a caller hands it over."""

    def run_node(self, n: torch.fx.Node) -> Any:
        result, traced = super().run_node(n), n.meta.get("val")
        if not isinstance(result, torch.Tensor) or not isinstance(traced, torch.Tensor):
            return result
        result = result.resolve_conj() if result.is_conj() and not traced.is_conj() else result
        return result.resolve_neg() if result.is_neg() and not traced.is_neg() else result


class AsTraced(Resolved):
    """Runs a graph in eager, each result laid out as it was when the graph was traced: ops rely on that, and eager's
    own kernels lay out some results otherwise."""

    def run_node(self, n: torch.fx.Node) -> Any:
        result, traced = super().run_node(n), n.meta.get("val")
        if n.op != "call_function":
            return result
        if isinstance(result, (tuple, list)) and isinstance(traced, (tuple, list)):
            return type(result)(with_strides(one, _strides(like)) for one, like in zip(result, traced, strict=True))
        return with_strides(result, _strides(traced))


def _repeated(value: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """An expanded tensor: one element stands for a whole dimension."""
    once = value[tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)]
    base = torch.empty_strided(once.shape, strides, dtype=value.dtype, device=value.device).copy_(once)
    return base.as_strided(value.shape, strides)


@dataclass(frozen=True)
class OutputLayout:
    """How a graph's outputs lie in memory: PyTorch makes views of them later, and relies on it."""

    strides: tuple[tuple[int, ...] | None, ...] = ()
    views: Mapping[int, tuple[int, TensorView]] = field(default_factory=dict)
    """Outputs that in eager are views of an earlier output: position -> (that one's position, how it lies there)."""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Outputs that do not begin where their memory does: AOTAutograd looks for a view of an argument by this number."""

    def of(self, outputs: Sequence[Any]) -> list[Any]:
        """The same outputs, laid out like this."""
        laid = [_alone(with_strides(value, strides)) for value, strides in zip(outputs, self.strides, strict=True)]
        for index, (base, view) in self.views.items():
            laid[index] = seen_as(laid[base], view)
        for index, offset in self.offsets.items():
            laid[index] = _moved(laid[index], offset)
        return laid


def _alone(value: Any) -> Any:
    """The same memory, but no view of a tensor that nobody has: autograd lets nobody write to such an output."""
    return value.data if isinstance(value, torch.Tensor) and value._is_view() else value


def layout_of(values: Sequence[Any], offsets: bool) -> OutputLayout:
    """How these tensors, which may be fake ones, lie; with `offsets`, also how far from the start of their memory."""
    views: dict[int, tuple[int, TensorView]] = {}
    whole: dict[Any, int] = {}
    for index, value in enumerate(values):
        if _strides(value) is None:
            continue
        key = value.untyped_storage()._cdata
        if key in whole:
            view = view_of(value, values[whole[key]])
            if view is not None:
                views[index] = (whole[key], view)
        elif _fills_memory(value) and not value.is_conj() and not value.is_neg():  # those hold other numbers there
            whole[key] = index
    strides = tuple(map(_strides, values))
    starts = {i: v.storage_offset() for i, v in enumerate(values) if offsets and strides[i] is not None}
    return OutputLayout(strides, views, {i: start for i, start in starts.items() if start and i not in views})


def _moved(value: torch.Tensor, offset: int) -> torch.Tensor:
    """The same tensor, so far from the start of a memory of its own."""
    if value.storage_offset() == offset or value.numel() == 0:
        return value
    extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride()))
    memory = torch.empty(offset + extent, dtype=value.dtype, device=value.device).untyped_storage()
    place = torch.empty(0, dtype=value.dtype, device=value.device)
    place.set_(memory, offset, value.shape, value.stride())  # type: ignore[call-overload]
    flat, source = (t.as_strided((extent,), (1,), t.storage_offset()) for t in (place, value))
    flat.copy_(source)  # also where elements share a place
    return place


def _fills_memory(value: torch.Tensor) -> bool:
    size = value.numel() * value.element_size()
    return value.storage_offset() == 0 and size == value.untyped_storage().nbytes()


def _strides(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return tuple(value.stride()) if all(isinstance(s, int) for s in value.stride()) else None
