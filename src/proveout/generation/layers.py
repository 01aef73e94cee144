"""Which layers of a decoder are alike: a plan needs to look at a few of them only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from proveout.engine.repeat import TEMPLATE, Repeat


@dataclass(frozen=True, eq=False)
class Layers:
    """A decoder's layers, of which `few` stand for all."""

    parent: nn.Module
    name: str
    whole: nn.ModuleList
    few: int
    repeat: Repeat

    def shorten(self) -> None:
        """Leave the model the few."""
        setattr(self.parent, self.name, self.whole[: self.few])

    def restore(self) -> None:
        setattr(self.parent, self.name, self.whole)


def alike_layers(model: Any, path: str) -> Layers | None:
    """The layers of a decoder where they repeat often enough to gain from it; `path` leads to the model in what is
    compiled."""
    number = model.config.get_text_config(decoder=True).num_hidden_layers
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) == number]
    if len(lists) != 1:
        return None
    name, layers = lists[0]
    looks = [_look(layer) for layer in layers]
    alike = (p for p in range(1, number // 4 + 1) if looks[p:] == looks[:-p])
    if (period := next(alike, None)) is None:
        return None
    traced = (TEMPLATE + 1) * period
    few = traced + (number - traced) % period
    if few >= number:
        return None
    parent, _, last = name.rpartition(".")
    repeat = Repeat(f"{path}.{name}", period, (number - few) // period)
    return Layers(model.get_submodule(parent), last, layers, few, repeat)


def _look(layer: nn.Module) -> Any:
    """Everything about a layer that can be seen from outside, but for its number."""
    plain = (int, float, bool, str, tuple, type(None))
    return [
        (
            path,
            type(module),
            [(n, tuple(p.shape), p.dtype) for n, p in module.named_parameters(recurse=False)],
            [(n, tuple(b.shape), b.dtype) for n, b in module.named_buffers(recurse=False)],
            {k: v for k, v in vars(module).items() if isinstance(v, plain) and k != "layer_idx"},
        )
        for path, module in layer.named_modules()
    ]
