"""What a call was given: its tensors by path, their specs, and copies that the call cannot change."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from proveout.types import TensorSpec

if TYPE_CHECKING:
    from torch import Tensor, nn

Inputs = tuple[tuple[str, TensorSpec], ...]


def named_tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """Every tensor by its path (`0`, `mask`, `state.1.hidden`) in lists, tuples, mappings and dataclasses."""
    named = list(_walk("", args))
    return named + list(_walk("", kwargs)) if kwargs else named


def specs_of(tensors: list[tuple[str, Tensor]]) -> Inputs:
    return tuple((name, TensorSpec(tuple(map(int, t.shape)), dtype_name(t))) for name, t in tensors)


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def is_real(tensors: list[tuple[str, Tensor]]) -> bool:
    """Whether a call has numbers of its own: not while the model is traced or transformed (vmap, grad)."""
    from torch._C._functorch import is_functorch_wrapped_tensor
    from torch._subclasses.fake_tensor import FakeTensor

    return not any(isinstance(t, FakeTensor) or is_functorch_wrapped_tensor(t) for _, t in tensors)


def snapshot(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies of a call's arguments that the call cannot change: tensors as detached clones, containers kept.

    What refers to the module itself still does, and a value that cannot be copied stays as it is.
    """
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    memo: dict[int, Any] = {id(part): part for part in (*module.modules(), *module.parameters(), *module.buffers())}
    # No mode of the script's own (a FLOP counter, a default device) may see these clones, and a clone made in
    # inference mode could not be compiled later.
    with torch.inference_mode(False), torch.no_grad(), _disable_current_modes():
        memo.update((id(t), t.detach().clone()) for _, t in named_tensors(args, kwargs))
        return (
            tuple(_copy(value, memo) for value in args),
            {name: _copy(value, memo) for name, value in kwargs.items()},
        )


def _copy(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a user's object may raise anything when copied
        return value


def _walk(path: str, value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Tensor]]:
    from torch import Tensor

    if isinstance(value, Tensor):
        if not value.is_nested:
            yield path, value
        return
    items: Any = ()
    if isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif isinstance(value, Mapping):
        items = value.items()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = ((f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value))
    if items and not any(value is container for container in above):
        for name, item in items:
            yield from _walk(f"{path}.{name}" if path else str(name), item, (*above, value))
