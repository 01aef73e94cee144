"""The compiler from end to end: graph passes, lowering, Program passes, plan; with each stage's time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial

import torch
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

from proveout.compiler.dump import Observe, unobserved
from proveout.compiler.graph_passes import GRAPH_PASSES
from proveout.compiler.lower import NO_STATE, Lowered, lower, origin_of, variation
from proveout.compiler.memory.evict import evict
from proveout.compiler.memory.remedies import graph_remedies
from proveout.compiler.memory.split import split
from proveout.compiler.memory.too_large import too_large
from proveout.compiler.parallel.choose import Built, ProgramPass, over_chips, over_heads
from proveout.compiler.plan import Plan, make_plan
from proveout.compiler.profile import Profile
from proveout.compiler.program_passes import (
    Policy,
    bank_products,
    cancel,
    configure_products,
    deallocate,
    decide,
    fusions,
    hoist,
    keep_in_dram,
    layouts,
    lift_matmul,
    pack_cache,
    pack_weights,
    place,
    prune,
    settle_state,
    shard_images,
    shard_norms,
    shard_users,
    sink,
    sink_in_layout,
)
from proveout.compiler.sides import better_on_host
from proveout.compiler.witness import Replay, Witness
from proveout.kernels.table import infer
from proveout.program import Program, Step, verify
from proveout.reasons import Reason
from proveout.types import Coverage, DeviceSpec, OpStatus, Settings

Remedies = Callable[[DeviceSpec, Settings], Iterator[str]]


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
    remedies: Remedies | None = None
    """What would fit if this does not; known to whoever has the graph."""

    @functools.cached_property
    def plan(self) -> Plan | None:
        """What it will cost; None on devices that are not modelled."""
        if self.chip is None:
            return None
        with stage(self.stages_s, "plan"):
            remedies = self.remedies(self.chip, self.settings) if self.remedies else None
            return make_plan(self.program, self.chip, self.settings, remedies)


def compile_graph(
    gm: GraphModule,
    *,
    weights: frozenset[int],
    state: Mapping[int, int] = NO_STATE,
    profile: Profile,
    settings: Settings,
    chip: DeviceSpec | None,
    name: str,
    replay: Replay | None = None,
    observe: Observe = unobserved,
) -> CompiledGraph:
    """Compile a functional ATen graph for one target. The graph is not changed; `observe` sees it after each pass.
    `state` are weights that calls write to: position -> the output (of the last ones) that holds its new value.

    With `settings.verify`, every pass's result is checked by the verifier and, given `replay`, run on random inputs.
    """
    stages: dict[str, float] = {}
    watch = _Watch(gm, weights, profile, settings, replay, observe, len(state))
    with stage(stages, "graph passes"):
        gm, removed = _run_graph_passes(gm, watch.see)
    build = partial(
        _build, weights=weights, state=state, profile=profile, settings=settings, chip=chip, name=name, stages=stages
    )
    several = chip is not None and chip.chips > 1 and profile.target == "ttnn"
    if several and chip is not None:
        with stage(stages, "chips"):
            unseen = partial(build, see=_unseen)
            built, note = (
                over_heads(gm, weights, state, chip, settings, unseen)
                if state
                else over_chips(gm, weights, chip, settings, unseen)
            )
        watch.see_all(built)
    else:
        built, note = build(gm, see=watch.see), ""
    lowered, program = built.lowered, built.program
    counted = _counted(gm, lowered, removed, built.gone)
    coverage = Coverage(counted, program.num_transfers, num_graphs=1, parallel=(note,) if note else ())
    positions = lowered.input_positions, lowered.weight_positions
    return CompiledGraph(program, coverage, chip, settings, *positions, stages, _remedies(gm, weights, profile, state))


class _Watch:
    """Looks at what each pass gives: the observer, with `settings.verify` the verifier, given `replay` the witness."""

    def __init__(
        self,
        gm: GraphModule,
        weights: frozenset[int],
        profile: Profile,
        settings: Settings,
        replay: Replay | None,
        observe: Observe,
        num_states: int,
    ) -> None:
        self._observe, self._verifies, self._target = observe, settings.verify, profile.target
        self._witness = Witness(gm, replay, weights, num_states) if settings.verify and replay else None
        self._last: Program | None = None

    def see(self, stage: str, result: GraphModule | Program, lowered: Lowered | None = None) -> None:
        if self._verifies and isinstance(result, Program):
            if self._last is not None and _same(result, self._last):  # the pass had nothing to do
                self._observe(stage, result)
                return
            self._last = result
        self._look(stage, result)
        if self._witness:
            if lowered is not None:
                self._witness.positions = lowered.input_positions, lowered.weight_positions
            self._witness.see(stage, result)

    def see_all(self, built: Built) -> None:
        """What was chosen for a device of several chips. The witness's inputs are whole: of a Program for several, only
        the last form takes them."""
        for name, result in built.history:
            if built.program.chips == 1 or result is built.program:
                self.see(name, result, built.lowered)
            else:
                self._look(name, result)

    def _look(self, stage: str, result: GraphModule | Program) -> None:
        self._observe(stage, result)
        if self._verifies and isinstance(result, Program):
            verify(result, partial(infer, target=self._target, chips=result.chips))


def _same(one: Program, other: Program) -> bool:
    """Whether two Programs are alike to the letter, where `==` asks whether they compute the same."""
    return all(getattr(one, f.name) == getattr(other, f.name) for f in fields(Program))


See = Callable[[str, Program, Lowered], None]
"""Called with a pass's name, what it gave, and what was lowered."""


def _unseen(stage: str, result: Program, lowered: Lowered) -> None:
    """For what may not be chosen."""


def _build(
    gm: GraphModule,
    cut: ProgramPass | None = None,
    *,
    weights: frozenset[int],
    state: Mapping[int, int],
    profile: Profile,
    settings: Settings,
    chip: DeviceSpec | None,
    name: str,
    stages: dict[str, float],
    see: See,
) -> Built:
    """A graph lowered and run through the Program passes; nodes whose kernels fit no core are lowered to the host."""
    too_big: dict[str, Reason] = {}
    while True:
        with stage(stages, "lower"), blamed("lower"):
            lowered = lower(gm, weights, profile, settings, name, too_big, state)
            if chip is not None:
                hosted = {**better_on_host(gm, weights, lowered, chip), **too_big}
                if hosted.keys() > too_big.keys():
                    lowered = lower(gm, weights, profile, settings, name, hosted, state)
        built = _through_passes(lowered, program_passes(profile, settings, chip, cut), stages, see)
        more = {} if chip is None or profile.target != "ttnn" else too_large(built.program, chip, settings)
        if more.keys() <= too_big.keys():
            return built
        too_big = more | too_big


def _through_passes(lowered: Lowered, passes: list[ProgramPass], stages: dict[str, float], see: See) -> Built:
    see("lower", lowered.program, lowered)
    history = [("lower", lowered.program)]
    gone: dict[str, str] = {}
    resident = True
    with stage(stages, "program passes"):
        for program_pass in passes:
            before, pass_name = history[-1][1], _name(program_pass)
            with blamed(pass_name):
                program = program_pass(before)
            if program is not before:
                gone |= _vanished(before, program, program_pass)
                resident = resident and pass_name not in MAKING_ROOM
            see(pass_name, program, lowered)
            history.append((pass_name, program))
    return Built(lowered, history[-1][1], gone, tuple(history), resident)


def _remedies(gm: GraphModule, weights: frozenset[int], profile: Profile, state: Mapping[int, int]) -> Remedies:
    def compile_again(graph: GraphModule, settings: Settings, chip: DeviceSpec) -> Program:
        precise = replace(profile, precision=settings.precision)
        program = lower(graph, weights, precise, settings, "again", state=state).program
        for program_pass in program_passes(precise, settings, chip):
            program = program_pass(program)
        return program

    return lambda chip, settings: graph_remedies(gm, weights, chip, settings, compile_again)


def _run_graph_passes(gm: GraphModule, see: Observe) -> tuple[GraphModule, list[OpStatus]]:
    """The graph after all passes, and the nodes of the original one that they removed, each with the pass's name."""
    gm = _copy(gm)
    see("capture", gm)
    nodes = [n for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    counted = {n.name: (origin_of(n), variation(n)) for n in nodes}  # told now: an erased node forgets its arguments
    removed: list[OpStatus] = []
    for graph_pass in GRAPH_PASSES:
        with blamed(graph_pass.__name__):
            gm = graph_pass(gm)
        see(graph_pass.__name__, gm)
        left = {n.name for n in gm.graph.nodes}
        for name in [n for n in counted if n not in left]:
            origin, called = counted.pop(name)
            reason = graph_pass.__name__.replace("_", " ")
            removed.append(OpStatus(name, origin.aten, "removed", reason, called, origin.module, origin.source))
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
            status = replace(status, state="removed", reason=vanished[status.node], cause=None)
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


STAGES = ("formulas", "products")
"""Of fusions; moves come between the two."""
MAKING_ROOM = ("split", "evict")
"""Passes that change a Program only where it does not fit the device as it is."""


def program_passes(
    profile: Profile, settings: Settings, chip: DeviceSpec | None, cut: ProgramPass | None = None
) -> list[ProgramPass]:
    """The ordered list for one target; `cut` is one that makes a Program for several chips."""
    moves: list[ProgramPass] = [sink, cancel, prune]
    passes = [*moves, hoist]
    if profile.target == "ttnn":
        policy = Policy(chip, settings, one_chip=cut is None)
        formulas, products = ([partial(fusion, policy=policy) for fusion in fusions(stage)] for stage in STAGES)
        lift = partial(lift_matmul, policy=policy)
        passes = [lift, cancel, prune, lift, *moves]  # the chains of an einsum hide its product's shape
        if chip is not None:
            passes.append(partial(layouts, chip=chip, settings=settings))
        passes.append(hoist)
        if settings.packs_weights:  # before products are joined: each weight's format is its own module's
            passes += [partial(pack_weights, settings=settings), prune]
        passes += formulas
        if settings.cache != "same":
            passes.append(partial(pack_cache, dtype=settings.cache))
        passes += [sink_in_layout, cancel, prune, *products, prune, settle_state]
        if cut is not None:
            passes.append(cut)
        if chip is not None:
            passes.append(partial(split, chip=chip))
        if chip is not None and settings.memory == "auto":
            passes.append(partial(place, chip=chip, settings=settings))
        else:
            passes.append(keep_in_dram)
        if chip is not None and settings.sharding != "interleaved":
            passes.append(partial(shard_norms, chip=chip, settings=settings))
        if chip is not None and settings.sharding == "auto":
            passes.append(partial(shard_images, chip=chip, settings=settings))
        if chip is not None and settings.products == "configured":
            passes.append(partial(configure_products, chip=chip, settings=settings))
        if chip is not None and settings.per_op:
            passes += [partial(decide, chip=chip, settings=settings), prune]
        if chip is not None and settings.products == "configured":  # whether it pays depends on the fidelity
            passes.append(partial(bank_products, chip=chip, settings=settings))
        if chip is not None:
            passes.append(partial(shard_users, chip=chip))
        passes.append(deallocate)
        if chip is not None:
            passes.append(partial(evict, chip=chip, settings=settings))
    return passes


IN_WORDS = {"prune": "nothing reads it any more"}
"""Passes whose name does not say what became of an op."""


def _vanished(before: Program, after: Program, program_pass: ProgramPass) -> dict[str, str]:
    """The nodes that had Steps before a pass and have none after it, each with the pass's name and, where that is a
    fusion, the kernel that took them in: it makes what they were computed for."""
    name = _name(program_pass)
    by = IN_WORDS.get(name, name.replace("_", " "))
    left = {s.origin.node for s in after.steps}
    gone = [s for s in before.steps if s.outputs and s.origin.node and s.origin.node not in left]
    if not gone:
        return {}
    makers = {n: s for s in after.steps for n in s.outputs}
    readers: dict[str, list[Step]] = {}
    for step in before.steps:
        for name in step.uses:
            readers.setdefault(name, []).append(step)
    reasons = {}
    for step in gone:
        into = step
        while not any(n in makers for n in into.outputs) and into.outputs[0] in readers:
            into = readers[into.outputs[0]][-1]
        kernel = next((makers[n].kernel for n in into.outputs if n in makers), None)
        reasons[step.origin.node] = f"fused into {kernel} by {by}" if kernel and _fuses(program_pass) else by
    return reasons


def _fuses(program_pass: ProgramPass) -> bool:
    return isinstance(program_pass, partial) and "policy" in program_pass.keywords


def _name(program_pass: ProgramPass) -> str:
    function = program_pass.func if isinstance(program_pass, partial) else program_pass
    return str(function.__name__)


@contextmanager
def blamed(pass_name: str) -> Iterator[None]:
    """An error on its way out is told which pass it comes from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the compiler's pass {pass_name}")
        raise


@contextmanager
def stage(stages: dict[str, float], name: str) -> Iterator[None]:
    """Note how long a stage takes, less the stages inside it."""
    started, noted = time.perf_counter(), sum(stages.values())
    yield
    inside = sum(stages.values()) - noted
    stages[name] = stages.get(name, 0.0) + time.perf_counter() - started - inside
