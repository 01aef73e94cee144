"""The compiler from end to end: graph passes, lowering, Program passes, plan; with each stage's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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
from proveout.compiler.program_passes import (
    FORMULAS,
    PRODUCTS,
    Policy,
    cancel,
    deallocate,
    hoist,
    lift_matmul,
    place,
    prune,
    sink,
)
from proveout.kernels.table import infer
from proveout.program import Program, Step, verify
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
        program, gone = _run_program_passes(lowered.program, profile, settings, chip)
    plan = None
    if chip is not None:
        with _stage(stages, "plan"):
            plan = make_plan(program, chip, settings)
    coverage = Coverage(_counted(gm, lowered, removed, gone), program.num_transfers, num_graphs=1)
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


def _counted(
    gm: GraphModule, lowered: Lowered, removed: list[OpStatus], vanished: Mapping[str, str]
) -> tuple[OpStatus, ...]:
    """One status for each node of the original graph; one that was replaced is on the host if its replacement is."""
    replaces = {n.name: n.meta["replaces"] for n in gm.graph.nodes if "replaces" in n.meta}
    preparing = {n.name for n in gm.graph.nodes if n.meta.get("prepares")}
    gone = {status.node: status for status in removed}
    kept = []
    for status in lowered.statuses:
        if status.node in vanished:
            status = replace(status, state="removed", reason=vanished[status.node])
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
    moves: list[Callable[[Program], Program]] = [sink, cancel, prune]
    passes = [*moves, hoist]
    if profile.target == "ttnn":
        policy = Policy(chip, settings)
        formulas, products = ([partial(fusion, policy=policy) for fusion in row] for row in (FORMULAS, PRODUCTS))
        passes = [partial(lift_matmul, policy=policy), *moves, hoist, *formulas, *moves, *products, prune]
        if chip is not None and settings.memory == "auto":
            passes.append(partial(place, chip=chip))
        passes.append(deallocate)
    return passes


def _run_program_passes(
    program: Program, profile: Profile, settings: Settings, chip: DeviceSpec | None
) -> tuple[Program, dict[str, str]]:
    """The Program after all passes, and the ATen nodes that no Step is left of, each with the reason."""
    rule: Any = partial(infer, target=profile.target) if settings.verify else None
    vanished: dict[str, str] = {}
    for program_pass in program_passes(profile, settings, chip):
        before, program = program, program_pass(program)
        if program is not before:
            vanished |= _vanished(before, program, program_pass)
        if settings.verify:
            verify(program, rule)
    return program, vanished


def _vanished(before: Program, after: Program, program_pass: Callable[[Program], Program]) -> dict[str, str]:
    """The nodes that had Steps before a pass and have none after it, each with the pass's name and, where that is a
    fusion, the kernel that took them in: it makes what they were computed for."""
    by = _name(program_pass)
    left = {s.origin.node for s in after.steps}
    gone = [s for s in before.steps if s.outputs and s.origin.node and s.origin.node not in left]
    if not gone:
        return {}
    made = {n: s for s in after.steps for n in s.outputs}
    readers: dict[str, list[Step]] = {}
    for step in before.steps:
        for name in step.uses:
            readers.setdefault(name, []).append(step)
    reasons = {}
    for step in gone:
        into = step
        while not any(n in made for n in into.outputs) and into.outputs[0] in readers:
            into = readers[into.outputs[0]][-1]
        kernel = next((made[n].kernel for n in into.outputs if n in made), None)
        reasons[step.origin.node] = f"fused into {kernel} by {by}" if kernel and _fuses(program_pass) else by
    return reasons


def _fuses(program_pass: Callable[[Program], Program]) -> bool:
    return isinstance(program_pass, partial) and "policy" in program_pass.keywords


def _name(program_pass: Callable[[Program], Program]) -> str:
    function = program_pass.func if isinstance(program_pass, partial) else program_pass
    return str(function.__name__).replace("_", " ")


@contextmanager
def _stage(stages: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    stages[name] = time.perf_counter() - started
