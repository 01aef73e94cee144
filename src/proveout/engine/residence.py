"""Tensors that live on the device from their first use on, where several Programs read and write them.

A decoder's prefill and decode Programs share their cache so. The host has only what the tensors were at first: nothing
of what is written to them comes back, and a Program finds them as the last one left them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from proveout.kernels.pieces import concat_along, mesh_argument
from proveout.program import FROM_TORCH, TO_TORCH, Arg, Construct, Loaded, Name, Program, Ref, Step
from proveout.types import TensorSpec


@dataclass(frozen=True)
class TensorForm:
    """How a Program holds a tensor on its device; Programs of one form can hand it to each other as it is."""

    spec: TensorSpec
    how: tuple[tuple[str, Arg], ...]
    """Of the call that puts it there: dtype, layout, how chips divide it."""

    @staticmethod
    def of(program: Program, weight: str) -> TensorForm:
        copy = next(s for s in program.setup if s.kernel == FROM_TORCH and s.uses == (weight,))
        how = tuple(sorted((pair for pair in copy.attrs if pair[0] != "tensor"), key=lambda pair: pair[0]))
        return TensorForm(program.specs[copy.outputs[0]], how)


@dataclass(frozen=True)
class Shared:
    """A resident tensor as one Program knows it."""

    weight: str
    form: TensorForm
    tensor: torch.Tensor


@dataclass(frozen=True, eq=False)
class Holding:
    """Who has a tensor, and as what its last run left it; `value` is None where none wrote to it yet."""

    by: Loaded
    shared: Shared
    value: Any = None

    def refresh(self) -> None:
        """Let the host's tensor be what the device has."""
        tensor = self.shared.tensor
        attrs: list[tuple[str, Arg]] = [("tensor", Ref("held")), ("dtype", Name(str(tensor.dtype)))]
        mapper = dict(self.shared.form.how).get("mesh_mapper")
        if isinstance(mapper, Construct):
            cut = mesh_argument(mapper)
            dim = cut.dim if cut is not None and cut.dim is not None else 0  # what each chip has whole comes many times
            attrs.append(("mesh_composer", concat_along(dim)))
        (host,) = self.by.run_step(Step(TO_TORCH, tuple(attrs), (self.shared.weight,)), {"held": self.value})
        tensor.copy_(host[: len(tensor)])


class Residence:
    """Which tensors these are, and who has each now."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._tensors = tuple(tensors)
        self._keys = {t.data_ptr() for t in self._tensors if not t.is_meta}
        self._held: dict[int, Holding] = {}

    def __contains__(self, tensor: object) -> bool:
        if not isinstance(tensor, torch.Tensor):
            return False
        return any(tensor is t for t in self._tensors) if tensor.is_meta else tensor.data_ptr() in self._keys

    def bring(self, loaded: Loaded, tensors: Iterable[Shared]) -> None:
        """Let a Program find tensors as the last one left them, which gives them up."""
        kept, sent = {}, {}
        for shared in tensors:
            key = shared.tensor.data_ptr()
            held = self._held.get(key)
            if held is not None and held.by is loaded:
                continue
            value = None if held is None else held.value
            if held is not None and held.shared.form == shared.form and value is not None:
                kept[shared.weight] = value
            else:
                if held is not None and value is not None:
                    held.refresh()
                sent[shared.weight], value = shared.tensor, None
            if held is not None:
                held.by.drop_weights([held.shared.weight])
            self._held[key] = Holding(loaded, shared, value)
        if kept:
            loaded.keep(kept)
        if sent:
            loaded.set_weights(sent)

    def leave(self, loaded: Loaded, shared: Shared, value: Any) -> None:
        """A run of this Program has left the tensor so."""
        self._held[shared.tensor.data_ptr()] = Holding(loaded, shared, value)

    def give_back(self, tensor: torch.Tensor) -> None:
        """Let the host have a tensor: whoever is next reads and writes it there."""
        held = self._held.pop(tensor.data_ptr(), None)
        if held is None:
            return
        if held.value is not None:
            held.refresh()
        held.by.drop_weights([held.shared.weight])
