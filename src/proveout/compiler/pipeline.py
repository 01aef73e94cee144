"""The compiler from end to end: graph passes, lowering, Program passes, plan; with each stage's time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

from proveout.compiler.graph_passes import GRAPH_PASSES
from proveout.compiler.lower import Lowered, lower, origin_of
from proveout.compiler.plan import Plan, make_plan
from proveout.compiler.profile import Profile
from proveout.compiler.program_passes import cancel, deallocate, hoist, layouts, pack_weights, place, prune, sink
from proveout.compiler.sides import better_on_host
from proveout.compiler.witness import Replay, Witness
from proveout.kernels.table import infer
from proveout.program import Program, verify
from proveout.types import Coverage, DeviceSpec, OpStatus, Settings


@dataclass(frozen=True)
class CompiledGraph:
    """One graph of a model, compiled."""

    program: Program
    coverage: Coverage
    chip: DeviceSpec | None
    settings: Settings
    input_positions: tuple[int, ...] = ()
    weight_positions: tuple[int, ...] = ()
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds that each stage took, so far: a plan is made when it is first asked for."""

    @functools.cached_property
    def plan(self) -> Plan | None:
        """What it will cost; None on devices that are not modelled."""
        if self.chip is None:
            return None
        with stage(self.stages_s, "plan"):
            return make_plan(self.program, self.chip, self.settings)


def compile_graph(
    gm: GraphModule,
    *,
    weights: frozenset[int],
    profile: Profile,
    settings: Settings,
    chip: DeviceSpec | None,
    name: str,
    replay: Replay | None = None,
) -> CompiledGraph:
    """Compile a functional ATen graph for one target. The graph is not changed.

    With `settings.verify`, every pass's result is checked by the verifier and, given `replay`, run on random inputs.
    """
    stages: dict[str, float] = {}
    witness = Witness(gm, replay, weights) if settings.verify and replay else None
    with stage(stages, "graph passes"):
        gm, removed = _run_graph_passes(gm, witness)
    with stage(stages, "lower"):
        lowered = lower(gm, weights, profile, settings, name)
        if chip is not None:
            kept = better_on_host(gm, weights, lowered, chip)
            lowered = lower(gm, weights, profile, settings, name, kept) if kept else lowered
    if witness:
        witness.program("lower", lowered.program, lowered.input_positions, lowered.weight_positions, narrows=True)
    with stage(stages, "program passes"):
        program = _run_program_passes(lowered, profile, settings, chip, witness)
    coverage = Coverage(_counted(gm, lowered, removed), program.num_transfers, num_graphs=1)
    return CompiledGraph(program, coverage, chip, settings, lowered.input_positions, lowered.weight_positions, stages)


def _run_graph_passes(gm: GraphModule, witness: Witness | None) -> tuple[GraphModule, list[OpStatus]]:
    """The graph after all passes, and the nodes of the original one that they removed, each with the pass's name."""
    gm = _copy(gm)
    counted = {n.name: n for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}
    removed: list[OpStatus] = []
    for graph_pass in GRAPH_PASSES:
        gm = graph_pass(gm)
        if witness:
            witness.graph(graph_pass.__name__, gm)
        left = {n.name for n in gm.graph.nodes}
        for name in [n for n in counted if n not in left]:
            node = counted.pop(name)
            origin = origin_of(node)
            reason = graph_pass.__name__.replace("_", " ")
            removed.append(OpStatus(name, origin.aten, "removed", reason, "", origin.module, origin.source))
    return gm, removed


def _counted(gm: GraphModule, lowered: Lowered, removed: list[OpStatus]) -> tuple[OpStatus, ...]:
    """One status for each node of the original graph; one that was replaced is on the host if its replacement is."""
    replaces = {n.name: n.meta["replaces"] for n in gm.graph.nodes if "replaces" in n.meta}
    preparing = {n.name for n in gm.graph.nodes if n.meta.get("prepares")}
    gone = {status.node: status for status in removed}
    kept = []
    for status in lowered.statuses:
        original = replaces.get(status.node)
        if status.node in preparing:
            continue
        if original is None:
            kept.append(status)
        elif status.state == "host":
            gone[original] = status
    return (*kept, *gone.values())


def _copy(gm: GraphModule) -> GraphModule:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    copied = _LazyGraphModule(gm, graph)  # passes rewrite it; only a witness ever calls it
    copied.meta = dict(gm.meta)
    return copied


def program_passes(profile: Profile, settings: Settings, chip: DeviceSpec | None) -> list[Callable[[Program], Program]]:
    """The ordered list for one target."""
    passes: list[Callable[[Program], Program]] = [sink, cancel, prune]
    if chip is not None:
        passes.append(partial(layouts, chip=chip, settings=settings))
    passes.append(hoist)
    if profile.target == "ttnn":
        if settings.packs_weights:
            passes += [partial(pack_weights, settings=settings), prune]
        if chip is not None and settings.memory == "auto":
            passes.append(partial(place, chip=chip))
        passes.append(deallocate)
    return passes


def _run_program_passes(
    lowered: Lowered, profile: Profile, settings: Settings, chip: DeviceSpec | None, witness: Witness | None
) -> Program:
    rule: Any = partial(infer, target=profile.target)
    program = lowered.program
    for program_pass in program_passes(profile, settings, chip):
        program = program_pass(program)
        if settings.verify:
            verify(program, rule)
        if witness:
            name = _name(program_pass)
            narrows = name == pack_weights.__name__
            witness.program(name, program, lowered.input_positions, lowered.weight_positions, narrows)
    return program


def _name(program_pass: Callable[[Program], Program]) -> str:
    return str((program_pass.func if isinstance(program_pass, partial) else program_pass).__name__)


@contextmanager
def stage(stages: dict[str, float], name: str) -> Iterator[None]:
    """Note how long a stage takes."""
    started = time.perf_counter()
    yield
    stages[name] = time.perf_counter() - started
