"""Which layers of a model are alike: a plan needs to look at a few of them only."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from proveout.engine.repeat import TEMPLATE, Repeat

Call = tuple[Sequence[Any], Mapping[str, Any]]
PLAIN = (int, float, bool, str, tuple, type(None))


@dataclass(frozen=True, eq=False)
class Layers:
    """A model's layers, of which `few` stand for all."""

    parent: nn.Module
    name: str
    whole: nn.ModuleList | nn.Sequential
    few: int
    repeat: Repeat

    def shorten(self, by: int = 0) -> None:
        """Leave the model the few, or fewer still."""
        setattr(self.parent, self.name, self.whole[: self.few - by])

    def restore(self) -> None:
        setattr(self.parent, self.name, self.whole)

    @contextlib.contextmanager
    def shortened(self, by: int = 0) -> Iterator[None]:
        self.shorten(by)
        try:
            yield
        finally:
            self.restore()


def alike_layers(model: Any, path: str) -> Layers | None:
    """The layers of a decoder where they repeat often enough to gain from it; `path` leads to the model in what is
    compiled."""
    number = model.config.get_text_config(decoder=True).num_hidden_layers
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) == number]
    return _alike(model, path, *lists[0]) if len(lists) == 1 else None


def repeated_layers(model: nn.Module, call: Call) -> Layers | None:
    """Those of any model without weights that repeat most often, where a call does the same for each of them: whether
    it does cannot be seen in the layers (some models rescale after every sixth), so all are called once in eager."""
    if not all(t.is_meta for t in (*model.parameters(), *model.buffers())):
        return None
    stacks = [(n, m) for n, m in model.named_modules() if isinstance(m, (nn.ModuleList, nn.Sequential)) and n]
    alike = (_alike(model, "", name, stack) for name, stack in stacks)
    layers = max((a for a in alike if a is not None), key=_num_spared, default=None)
    return layers if layers is not None and _same_for_each(model, layers, call) else None


def _alike(model: nn.Module, path: str, name: str, stack: nn.ModuleList | nn.Sequential) -> Layers | None:
    number, looks = len(stack), _looks(list(stack))
    alike = (p for p in range(1, number // 4 + 1) if looks[p:] == looks[:-p])
    if (period := next(alike, None)) is None:
        return None
    traced = (TEMPLATE + 1) * period
    few = traced + (number - traced) % period
    if few >= number:
        return None
    parent, _, last = name.rpartition(".")
    repeat = Repeat(f"{path}.{name}".strip("."), period, (number - few) // period)
    return Layers(model.get_submodule(parent), last, stack, few, repeat)


def _num_spared(layers: Layers) -> int:
    """How many modules need not be captured."""
    return sum(len(list(layer.modules())) for layer in list(layers.whole)[layers.few :])


def _looks(layers: list[nn.Module]) -> list[Any]:
    """Everything about each layer that can be seen from outside, but for its number."""
    shown = [_plain(layer) for layer in layers]
    numbers = {key for key in shown[0] if all(s.get(key) == i for i, s in enumerate(shown))} if shown else set()
    return [
        (
            [
                (
                    path,
                    type(module),
                    [(n, tuple(p.shape), p.dtype) for n, p in module.named_parameters(recurse=False)],
                    [(n, tuple(b.shape), b.dtype) for n, b in module.named_buffers(recurse=False)],
                )
                for path, module in layer.named_modules()
            ],
            {key: value for key, value in plain.items() if key not in numbers},
        )
        for layer, plain in zip(layers, shown)
    ]


def _plain(layer: nn.Module) -> dict[tuple[str, str], Any]:
    modules = layer.named_modules()
    return {(path, k): v for path, module in modules for k, v in vars(module).items() if isinstance(v, PLAIN)}


def _same_for_each(model: nn.Module, layers: Layers, call: Call) -> bool:
    """Whether every further period adds the same ops on the same shapes, and none an output."""
    try:
        every = _ops(model, call)
        with layers.shortened():
            few = _ops(model, call)
        with layers.shortened(layers.repeat.period):
            fewer = _ops(model, call)
    except Exception:  # a model that does not run with fewer layers, or on shapes alone
        return False
    period = few - fewer
    return fewer + period == few and few + _times(period, layers.repeat.times) == every


def _times(counts: Counter[Any], times: int) -> Counter[Any]:
    return Counter({key: count * times for key, count in counts.items()})


def _ops(model: nn.Module, call: Call) -> Counter[Any]:
    args, kwargs = call
    with torch.no_grad(), _Counting() as counting:
        outputs = tree_leaves(model(*args, **kwargs))
    return counting.ops + Counter([("output", i, _kind(value)) for i, value in enumerate(outputs)])


class _Counting(TorchDispatchMode):
    """How often each op is called on each kind of arguments."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops[func, tuple(map(_kind, tree_leaves((args, kwargs or {}))))] += 1
        return func(*args, **(kwargs or {}))


def _kind(value: Any) -> Any:
    """What a plan depends on: shapes and dtypes, sizes and choices; not numbers that are computed with."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    return type(value) if isinstance(value, float) else str(value)
