"""The model that is tuned, live: compiled and planned under any settings, run on its own inputs and on others."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from proveout.cause.closeness import closeness
from proveout.check import compare_outputs
from proveout.check.compare import l2_of_pcc
from proveout.chip.specs import CHIPS
from proveout.compiler import CompiledGraph
from proveout.devices.registry import find
from proveout.engine.compiled import Compiled, compile, undisturbed
from proveout.engine.graph import GraphFunction, Variant
from proveout.errors import ProveoutError
from proveout.program import Loaded
from proveout.types import DeviceSpec, Settings

Call = tuple[tuple[Any, ...], dict[str, Any]]
WITH_WEIGHTS = ("aten.addmm.default", "aten.mm.default", "aten.bmm.default", "aten.convolution.default")
MOST_COMPILED = 2
"""Kept beside the first: each holds its weights once more."""


@dataclass(frozen=True)
class Close:
    """How near the outputs of one call are to eager's: the worst of them by each measure."""

    pcc: float
    """1 where there is none and all is equal, 0 where an output fails for another reason."""
    l2: float
    """Relative: PCC does not see that an output is too large or too small."""
    top1: float
    """Share of rows of scores that keep their largest element; 1 where no output is one of scores."""

    def keeps(self, pcc: float, top1: float = 0.0) -> bool:
        return self.pcc >= pcc and self.l2 <= l2_of_pcc(pcc) and self.top1 >= top1

    @property
    def error(self) -> float:
        """1 − PCC², or what it would be if noise alone were this far off."""
        lowest = min(self.pcc, 1 / math.sqrt(1 + self.l2**2))
        return max(0.0, 1 - lowest**2) if lowest > 0 else 1.0


NOTHING = Close(0.0, math.inf, 0.0)


class Model:
    """One module with one call's inputs, on one device."""

    def __init__(self, module: torch.nn.Module, call: Call, device: str, start: Settings) -> None:
        self.module, self.call, self.device, self.start = module, call, device, start
        self._compiled: dict[Settings, Compiled] = {}
        self._eager: dict[int, Any] = {}

    @property
    def chip(self) -> DeviceSpec:
        return find(self.device).spec or CHIPS["n150"]

    def compiled(self, settings: Settings) -> Compiled:
        if settings not in self._compiled:
            others = [key for key in self._compiled if key != self.start]
            if len(others) >= MOST_COMPILED:
                del self._compiled[others[0]]
            self._compiled[settings] = compile(self.module, device=self.device, settings=settings, call=self.call)
        return self._compiled[settings]

    @property
    def num_hosted(self) -> int:
        """Steps of a call that run on the host, and graph breaks: no modelled time has them."""
        compiled = self.compiled(self.start)
        steps = sum(step.on_host for program in compiled.programs for step in program.body)
        return steps + len(compiled.coverage.graph_breaks)

    def planned(self, settings: Settings) -> tuple[CompiledGraph, ...] | None:
        """The graphs compiled under some settings, nothing run; None where they do not compile or fit."""
        try:
            graphs = self.compiled(self.start).planned(settings) or self.compiled(settings).graphs
        except ProveoutError:
            return None
        plans = [g.plan for g in graphs]
        return graphs if all(p is None or p.memory.fits for p in plans) else None

    def ns(self, settings: Settings) -> int | None:
        """Modelled time of one call; None where it does not compile or fit."""
        graphs = self.planned(settings)
        return None if graphs is None else sum(g.plan.total_ns for g in graphs if g.plan is not None)

    def loaded(self, settings: Settings) -> list[tuple[Loaded, list[Any]]]:
        """Every graph that one call runs, loaded, with its inputs."""
        ran: list[tuple[Loaded, list[Any]]] = []
        base = self.compiled(self.start)

        def keep(graph: GraphFunction, compiled: CompiledGraph, arguments: Sequence[Any]) -> None:
            kept = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
            ran.append((graph.loaded(compiled, settings, arguments), [kept[i] for i in compiled.input_positions]))

        if base.is_replannable:
            graphs, quick = self.planned(settings) or (), replace(settings, numerics="fast")
            with undisturbed(self.module, self.call):
                base.called_as(graphs, quick, self.call, keep)
            return ran

        def note(variant: Variant, arguments: Sequence[Any]) -> None:
            kept = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
            ran.append((variant.ready(arguments), [kept[i] for i in variant.compiled.input_positions]))

        compiled, (args, kwargs) = self.compiled(settings), self.call
        with undisturbed(self.module, self.call), compiled.watching(note):
            compiled(*args, **kwargs)
        return ran

    def pcc(self, settings: Settings, number: int = 0) -> float:
        """The lowest PCC over the outputs of a call."""
        return self.closeness(settings, number).pcc

    def closeness(self, settings: Settings, number: int = 0) -> Close:
        """Of one call: 0 is the model's own inputs, from 1 on others that were held out."""
        call = self.call if number == 0 else held_out(self.call, self.start.seed, number)
        try:
            outputs = self._outputs(settings, call)
        except ProveoutError:
            return NOTHING
        wanted = self.eager(call, number)
        compared = compare_outputs(outputs, wanted, -1.0)
        if any(c.pcc is None and not c.passed for c in compared):
            return NOTHING
        agreements = [c.top1 for c in closeness(outputs, wanted, self.start.pcc) if c.top1 is not None]
        correlated = [c for c in compared if c.pcc is not None]
        return Close(
            min((c.pcc for c in correlated if c.pcc is not None), default=1.0),
            max((c.rel_l2 for c in correlated if c.rel_l2 is not None), default=0.0),
            min(agreements, default=1.0),
        )

    def _outputs(self, settings: Settings, call: Call) -> Any:
        base = self.compiled(self.start)
        with undisturbed(self.module, call):
            if base.is_replannable:  # captured once; capturing again takes longer than all the rest
                graphs = self.planned(settings)
                if graphs is None:
                    raise ProveoutError("it does not compile or fit")
                outputs = base.called_as(graphs, settings, call)
            else:
                outputs = self.compiled(settings)(*call[0], **call[1])
        return tree_map_only(torch.Tensor, torch.clone, outputs)

    def weights(self) -> dict[str, int]:
        """Modules whose weights products or convolutions read, and how many numbers those are."""
        modules = dict(self.module.named_modules())
        paths = {op.module for op in self.compiled(self.start).coverage.ops if op.aten in WITH_WEIGHTS}
        own = {p: sum(w.numel() for w in modules[p].parameters(recurse=False)) for p in paths if p in modules}
        return {path: size for path, size in sorted(own.items()) if size}

    def eager(self, call: Call, number: int) -> Any:
        if number not in self._eager:
            with undisturbed(self.module, call), torch.no_grad():
                self._eager[number] = tree_map_only(torch.Tensor, torch.clone, self.module(*call[0], **call[1]))
        return self._eager[number]

    def seal(self) -> str:
        """Of the weights and inputs: measurements of other ones do not hold."""
        seal = hashlib.sha256(repr((self.device, type(self.module).__qualname__)).encode())
        tensors = [*self.module.state_dict().values(), *tree_leaves(self.call)]
        for tensor in (t for t in tensors if isinstance(t, torch.Tensor)):
            numbers = tensor.detach().double() if not tensor.is_complex() else tensor.detach().abs().double()
            seal.update(repr((tuple(tensor.shape), float(numbers.sum()), float(numbers.square().sum()))).encode())
        return seal.hexdigest()


def held_out(call: Call, seed: int, number: int) -> Call:
    """Other inputs of the same shapes: seeded, like the script's own in range and spread."""
    generator = torch.Generator().manual_seed(seed + number)
    args, kwargs = tree_map_only(torch.Tensor, lambda t: _like(t, generator), call)
    return args, kwargs


def _like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers of the same mean and spread, integers of the same range; masks stay, as their shape is their meaning."""
    if tensor.numel() < 2 or tensor.dtype == torch.bool or tensor.is_complex():
        return tensor
    if tensor.is_floating_point():
        if int(tensor.unique().numel()) <= 2:
            return tensor
        spread = tensor.float()
        drawn = torch.randn(tensor.shape, generator=generator) * spread.std() + spread.mean()
        return drawn.clamp(spread.min(), spread.max()).to(tensor.dtype)
    low, high = int(tensor.min()), int(tensor.max())
    ordered = tensor.dim() and bool((tensor.diff(dim=-1) == 1).all()) and tensor.shape[-1] > 1
    if high - low <= 1 or ordered:
        return tensor
    return torch.randint(low, high + 1, tensor.shape, generator=generator, dtype=tensor.dtype)
