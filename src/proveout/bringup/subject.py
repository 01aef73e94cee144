"""The model that is being brought up, live: loaded and compiled when a stage first needs it, then shared by all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from proveout import subject
from proveout.bringup.data import OptimiseData
from proveout.bringup.stage import BringupJob, Folder
from proveout.chip.specs import CHIPS
from proveout.devices.registry import find
from proveout.engine.compiled import Compiled, compile, undisturbed
from proveout.engine.graph import Variant
from proveout.errors import CompileError
from proveout.report.perf.view import without_host
from proveout.subject import Call, copied
from proveout.tune.model import held_out
from proveout.types import DeviceSpec, Job, Settings

MOST_COMPILED = 2
"""Kept beside the model as asked for: each holds its weights once more."""


@dataclass(frozen=True)
class GraphRun:
    """One graph of the compiled model as one call ran it: its Program, loaded, with what it was given."""

    variant: Variant
    arguments: tuple[Any, ...]
    addresses: tuple[int | None, ...] = ()
    """Where each argument lay when it was called: which parameter or buffer it is."""

    @property
    def inputs(self) -> list[Any]:
        return [self.arguments[i] for i in self.variant.compiled.input_positions]


class Subject(subject.Subject):
    """The spine's Subject, compiled under several settings and called with several inputs."""

    def __init__(self, job: BringupJob, folder: Folder) -> None:
        super().__init__(Job(job.workload, job.device, job.settings))
        self.bringup, self.folder = job, folder
        self._compiled: dict[Settings, Compiled] = {}

    @property
    def chip(self) -> DeviceSpec:
        return find(self.bringup.device).spec or CHIPS["n150"]

    def compiled(self, settings: Settings | None = None) -> Compiled:
        """The model compiled under some settings, once."""
        chosen = settings or self.bringup.settings
        if chosen not in self._compiled:
            others = [key for key in self._compiled if key != self.bringup.settings]
            if len(others) >= MOST_COMPILED:
                del self._compiled[others[0]]
            device = self.bringup.device
            self._compiled[chosen] = compile(self.model, device=device, settings=chosen, call=self.call)
        return self._compiled[chosen]

    @property
    def optimised(self) -> Settings:
        """What the stage 'optimise' found, computed as the bring-up computes."""
        tuned = self.folder.data(OptimiseData)
        if tuned is None:
            raise CompileError("the stage 'optimise' left no settings that can be read.")
        return replace(tuned.settings, numerics=self.bringup.settings.numerics)

    def without_host(self, settings: Settings) -> str:
        """What of a call no modelled time has: Steps on the host, and what runs between graphs. Empty if nothing."""
        steps = sum(step.on_host for run in self.runs(settings) for step in run.variant.compiled.program.body)
        return without_host(steps, len(self.compiled(settings).coverage.graph_breaks))

    def on_device(self, call: Call, settings: Settings | None = None) -> Any:
        compiled = self.compiled(settings)
        with undisturbed(self.model, call):
            return copied(compiled(*call[0], **call[1]))

    def runs(self, settings: Settings | None = None) -> list[GraphRun]:
        """Every graph that one call on the script's inputs runs, in order."""
        runs: list[GraphRun] = []

        def note(variant: Variant, arguments: Sequence[Any]) -> None:
            addresses = tuple(a.data_ptr() if isinstance(a, torch.Tensor) else None for a in arguments)
            runs.append(GraphRun(variant, tuple(tree_map_only(torch.Tensor, _kept, tuple(arguments))), addresses))

        compiled, (args, kwargs) = self.compiled(settings), self.call
        with undisturbed(self.model, self.call), compiled.watching(note):
            compiled(*args, **kwargs)
        return runs

    def held_out(self, count: int) -> list[Call]:
        """Other inputs of the same shapes: seeded, like the script's own in range and spread."""
        return [held_out(self.call, self.bringup.settings.seed, 1 + number) for number in range(count)]


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """An argument for later: weights as they are, inputs copied, since a call may write to them."""
    return tensor if isinstance(tensor, torch.nn.Parameter) else tensor.detach().clone()
