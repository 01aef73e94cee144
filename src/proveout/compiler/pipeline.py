"""The compiler from end to end: graph passes, lowering, Program passes, plan; with each stage's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from proveout.compiler.graph_passes import GRAPH_PASSES
from proveout.compiler.lower import Lowered, lower, origin_of
from proveout.compiler.plan import Plan, make_plan
from proveout.compiler.profile import Profile
from proveout.compiler.program_passes import cancel, deallocate, evict, hoist, place, prune, sink, split
from proveout.compiler.remedies import graph_remedies
from proveout.kernels.table import infer
from proveout.program import Program, verify
from proveout.types import Coverage, DeviceSpec, OpStatus, Settings


@dataclass(frozen=True)
class CompiledGraph:
    """One graph of a model, compiled."""

    program: Program
    coverage: Coverage
    plan: Plan | None
    input_positions: tuple[int, ...]
    weight_positions: tuple[int, ...]
    stages_s: tuple[tuple[str, float], ...] = field(default=())


def compile_graph(
    gm: GraphModule,
    *,
    weights: frozenset[int],
    profile: Profile,
    settings: Settings,
    chip: DeviceSpec | None,
    name: str,
) -> CompiledGraph:
    """Compile a functional ATen graph for one target. The graph is not changed."""
    stages: dict[str, float] = {}
    with _stage(stages, "graph passes"):
        gm, removed = _run_graph_passes(gm)
    with _stage(stages, "lower"):
        lowered = lower(gm, weights, profile, settings, name)
    with _stage(stages, "program passes"):
        program = _run_program_passes(lowered.program, profile, settings, chip)
    plan = None
    if chip is not None:
        with _stage(stages, "plan"):

            def compile_again(graph: GraphModule, chosen: Settings, other: DeviceSpec) -> Program:
                precise = replace(profile, precision=chosen.precision)
                again = lower(graph, weights, precise, chosen, name).program
                return _run_program_passes(again, precise, chosen, other)

            plan = make_plan(program, chip, settings, graph_remedies(gm, weights, chip, settings, compile_again))
    coverage = Coverage(_counted(gm, lowered, removed), program.num_transfers, num_graphs=1)
    return CompiledGraph(
        program, coverage, plan, lowered.input_positions, lowered.weight_positions, tuple(stages.items())
    )


def _run_graph_passes(gm: GraphModule) -> tuple[GraphModule, list[OpStatus]]:
    """The graph after all passes, and the nodes of the original one that they removed, each with the pass's name."""
    gm = _copy(gm)
    counted = {n.name: n for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}
    removed: list[OpStatus] = []
    for graph_pass in GRAPH_PASSES:
        gm = graph_pass(gm)
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
    copied = GraphModule(gm, graph)
    copied.meta = dict(gm.meta)
    return copied


def program_passes(profile: Profile, settings: Settings, chip: DeviceSpec | None) -> list[Callable[[Program], Program]]:
    """The ordered list for one target."""
    passes: list[Callable[[Program], Program]] = [sink, cancel, prune, hoist]
    if profile.target == "ttnn":
        if chip is not None:
            passes.append(partial(split, chip=chip))
            if settings.memory == "auto":
                passes.append(partial(place, chip=chip, settings=settings))
        passes.append(deallocate)
        if chip is not None:
            passes.append(partial(evict, chip=chip, settings=settings))
    return passes


def _run_program_passes(program: Program, profile: Profile, settings: Settings, chip: DeviceSpec | None) -> Program:
    rule: Any = partial(infer, target=profile.target) if settings.verify else None
    for program_pass in program_passes(profile, settings, chip):
        program = program_pass(program)
        if settings.verify:
            verify(program, rule)
    return program


@contextmanager
def _stage(stages: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    stages[name] = time.perf_counter() - started
