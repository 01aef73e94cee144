"""What can be decided about a compiled model, op by op, and what each combination of decisions costs in time.

Equal layers are one decision. The time of a Step follows from what is decided about it and about the Steps whose
results it reads, so a call's time is the sum of small tables, exactly as the plan has it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from proveout.chip.time import HOST_NS, TRACED_GAP_NS
from proveout.compiler import CompiledGraph
from proveout.compiler.program_passes.decide import (
    SHARDS,
    Choices,
    choices_of,
    computing_choices,
    config_name,
    decided,
    op_names,
    pins_format,
    pins_place,
    shards_refusal,
    takes_shards,
)
from proveout.compiler.program_passes.pack_weights import conv_config, keeps_format
from proveout.errors import ProveoutError
from proveout.kernels.cost import StepTime, step_time
from proveout.kernels.row import MATRIX_UNIT, Weight
from proveout.kernels.signatures import parameters
from proveout.kernels.table import infer, kernels, kind_of, refusal, specs_of
from proveout.program import Name, Program, Ref, Step
from proveout.settings import PER_OP, Decided
from proveout.types import DeviceSpec, Origin, Settings, TensorSpec

KEPT = ""
"""The first value of every decision: as it was compiled."""
COMPUTES = ("product", "convolution", "binary")
USUAL = 1
LARGEST_TABLE = 20_000
Assignment = Mapping[int, int]
"""Decision to the position of its value; what is missing stays as it was."""


@dataclass(frozen=True)
class Decision:
    """One thing to decide about ops that are alike."""

    op: str
    """The ops' name, with `*` for the numbers of layers."""
    about: Decided
    ops: tuple[str, ...]
    values: tuple[str, ...]
    """The first is KEPT."""

    def said(self, value: int) -> str:
        op = self.op.removeprefix(":")  # of the model itself
        return f"{WORDS[self.about]} of {op}: {self.values[value] or 'as it was'}"


WORDS: dict[Decided, str] = {
    "weights": "weights",
    "result": "result",
    "fidelity": "math fidelity",
    "accumulate": "sums",
    "memory": "memory",
    "config": "program config",
}
EXACT_EITHER_WAY: tuple[Decided, ...] = ("memory", "config")
"""Where results lie and how work is cut changes no number."""


def settings_with(start: Settings, decisions: Sequence[Decision], assignment: Assignment) -> Settings:
    """The settings that compile a model so."""
    chosen = tuple(
        (op, d.about, d.values[assignment[i]]) for i, d in enumerate(decisions) if assignment.get(i) for op in d.ops
    )
    return replace(start, per_op=(*start.per_op, *chosen))


def start_of(decisions: Sequence[Decision], settings: Settings) -> dict[int, int]:
    """What settings for whole models and modules, as the greedy search leaves them, say of each decision."""
    out = {}
    for i, one in enumerate(decisions):
        module = one.ops[0].partition(":")[0]
        said: dict[str, str | None] = {
            "weights": settings.weights_of(Origin(module=module)),
            "fidelity": settings.math_fidelity,
        }
        value = said.get(one.about) or KEPT
        if value in one.values[1:]:
            out[i] = one.values.index(value)
    return out


def decisions_of(graphs: Sequence[CompiledGraph], chip: DeviceSpec, settings: Settings) -> list[Decision]:
    """Everything that can be decided about these Programs, in their order."""
    groups: dict[tuple[str, Decided, object], tuple[list[str], tuple[str, ...]]] = {}
    chosen = computing_choices(settings)
    for graph in graphs:
        program = graph.program
        names = op_names(program)
        prepared = {n for s in program.setup for n in s.outputs}
        in_shards = _left_in_shards(program)
        for step in program.body:
            if step.on_host or not step.outputs:
                continue
            name = names[step.outputs[0]]
            alike = step.kernel, tuple(_shape(s) for s in _specs(step, program))
            for about, values in _open(step, program, prepared, in_shards, choices_of(name, chosen)):
                key = _starred(name), about, alike
                groups.setdefault(key, ([], values))[0].append(name)
    labels: dict[tuple[str, Decided], int] = {}
    for op, about, _ in groups:
        labels[op, about] = labels.get((op, about), 0) + 1
    out = []
    for (op, about, _), (ops, values) in groups.items():
        label = op if labels[op, about] == 1 else ops[0] if len(ops) == 1 else f"{ops[0]} and {len(ops) - 1} like it"
        out.append(Decision(label, about, tuple(dict.fromkeys(ops)), values))
    return out


def _open(
    step: Step, program: Program, prepared: set[str], in_shards: set[str], chosen: Choices
) -> Iterator[tuple[Decided, tuple[str, ...]]]:
    """What can be decided about one Step, and how."""
    takes, kind, spec = parameters(step.kernel), kind_of(step), program.specs[step.outputs[0]]
    held = kernels()[step.kernel].weight if kind in MATRIX_UNIT else None
    weight = step.attr(held.operand) if held else None
    if held and isinstance(weight, Ref) and weight.name in prepared:
        known = program.specs[weight.name].dtype
        others = [f for f in PER_OP["weights"] if f != known and not (held.order and f == "float32")]
        if not held.order or keeps_format(step):
            yield "weights", (KEPT, *others)
    computes = kind in COMPUTES or step.kernel == "ttnn.from_torch"
    if "dtype" in takes and computes and "float" in spec.dtype and spec.layout == "tile":
        yield "result", (KEPT, *(f for f in PER_OP["result"] if f != spec.dtype))
    if config_name(step) is not None and (chosen or step.attr(config_name(step) or "") is None):
        if "fidelity" not in chosen and (kind != "convolution" or keeps_format(step)):
            yield "fidelity", (KEPT, *PER_OP["fidelity"])
        if "accumulate" not in chosen:
            yield "accumulate", (KEPT, "float32")
    places: tuple[str, ...] = ("dram",) if spec.memory.buffer == "l1" and step.attr("memory_config") is not None else ()
    places += SHARDS if step.outputs[0] in in_shards else ()
    if places and spec.memory.shard is None:
        yield "memory", (KEPT, *places)
    if kind == "product" and not step.attr("transpose_a"):
        yield "config", (KEPT, "none" if step.attr("program_config") is not None else "spread")


def _left_in_shards(program: Program) -> set[str]:
    """Results of convolutions, and of element-wise ops between them, that only such ops read."""
    readers: dict[str, list[Step]] = {}
    for step in program.body:
        for name in step.uses:
            readers.setdefault(name, []).append(step)
    out: set[str] = set()
    for step in program.body:
        if step.on_host or not step.outputs or not takes_shards(step) or not pins_place(step):
            continue
        name = step.outputs[0]
        spec = program.specs[name]
        follows = kind_of(step) == "convolution" or any(n in out for n in step.uses)
        read = name not in program.outputs and all(takes_shards(r) for r in readers.get(name, ()))
        if follows and read and spec.layout == "tile" and len(spec.shape) == 4 and spec.shape[:2] == (1, 1):
            out.add(name)
    return out


@dataclass(frozen=True)
class Table:
    """Steps whose time depends on the same decisions in the same way."""

    scope: tuple[int, ...]
    rows: tuple[tuple[tuple[int, ...], int], ...]
    """(values of the decisions in scope, ns); a combination that is missing cannot be had."""
    count: int
    transfer: bool


@dataclass
class Times:
    """The modelled time of one call of all Programs under any assignment."""

    decisions: Sequence[Decision]
    settings: Settings
    tables: list[Table] = field(default_factory=list)

    @staticmethod
    def of(
        graphs: Sequence[CompiledGraph], decisions: Sequence[Decision], chip: DeviceSpec, settings: Settings
    ) -> Times:
        merged: dict[tuple[tuple[int, ...], tuple[tuple[tuple[int, ...], int], ...], bool], int] = {}
        for graph in graphs:
            for scope, rows, transfer in _Body(graph.program, decisions, chip, settings).tables():
                key = scope, rows, transfer
                merged[key] = merged.get(key, 0) + 1
        return Times(decisions, settings, [Table(s, r, n, t) for (s, r, t), n in merged.items()])

    def ns(self, assignment: Assignment) -> int | None:
        """None where a Step cannot be had so."""
        total = {False: 0, True: 0}
        for table in self.tables:
            ns = dict(table.rows).get(tuple(assignment.get(d, 0) for d in table.scope))
            if ns is None:
                return None
            total[table.transfer] += table.count * ns
        return max(total.values()) if self.settings.queues == 2 else sum(total.values())

    def least_ns(self) -> int:
        """No assignment is quicker, whatever its error."""
        total = {False: 0, True: 0}
        for table in self.tables:
            total[table.transfer] += table.count * min((ns for _, ns in table.rows), default=0)
        return max(total.values()) if self.settings.queues == 2 else sum(total.values())


class _Body:
    """One Program's Steps under any assignment."""

    def __init__(self, program: Program, decisions: Sequence[Decision], chip: DeviceSpec, settings: Settings) -> None:
        self.program, self.decisions, self.chip, self.settings = program, decisions, chip, settings
        names = op_names(program)
        of_op: dict[str, list[int]] = {}
        for i, decision in enumerate(decisions):
            for op in decision.ops:
                of_op.setdefault(op, []).append(i)
        self.own = {
            value: tuple(d for d in of_op.get(name, ()) if len(decisions[d].values) > 1)
            for value, name in names.items()
        }
        computing = computing_choices(settings)
        self.chosen = {n: choices_of(names.get(n, ""), computing) for s in program.body for n in s.outputs[:1]}
        self.makers = {n: s for s in program.body for n in s.outputs}
        self.scopes = self._scopes()
        self._specs: dict[tuple[str, tuple[int, ...]], TensorSpec] = {}

    def tables(self) -> Iterator[tuple[tuple[int, ...], tuple[tuple[tuple[int, ...], int], ...], bool]]:
        for step in self.program.body:
            if kind_of(step) in (None, "free", "piece"):
                continue
            mine = self.own.get(step.outputs[0], ()) if step.outputs else ()
            reads = {d for n in step.uses for d in self.scopes.get(n, ())}
            scope = tuple(sorted({*mine, *reads}))
            sizes = [len(self.decisions[d].values) for d in scope]
            if math.prod(sizes) > LARGEST_TABLE:
                raise ProveoutError(f"{step.kernel} depends on {len(scope)} decisions: more than can be tabled.")
            rows, transfer = [], False
            for values in itertools.product(*map(range, sizes)):
                time = self._time(step, dict(zip(scope, values)))
                if time is not None:
                    rows.append((values, _cost(time, self.settings)))
                    transfer = time.kernel is None
            yield scope, tuple(rows), transfer

    def _time(self, step: Step, assignment: Assignment) -> StepTime | None:
        try:
            changed, specs = self._step(step, assignment)
            if refusal(kernels()[changed.kernel], specs_of(changed, specs)):
                return None
            if shards_refusal(changed, specs, step, self.program.specs):
                return None
            return step_time(changed, specs, self.chip, self.settings, self.program.chips)
        except (ProveoutError, AssertionError, RuntimeError, ValueError, TypeError):
            return None  # a kernel's rule or meaning that does not take it

    def _step(self, step: Step, assignment: Assignment) -> tuple[Step, dict[str, TensorSpec]]:
        """The Step as decided, with the specs around it."""
        specs = {n: self._spec(n, assignment) for n in step.uses}
        chosen = [(self.decisions[d], assignment.get(d, 0)) for d in self.own.get(step.outputs[0], ())]
        choices = {**self.chosen[step.outputs[0]], **{d.about: d.values[v] for d, v in chosen if v}}
        if "weights" in choices:
            step = _weighed(step, choices["weights"], specs)
        before = {n: self.program.specs[n] for n in step.outputs}
        step = decided(step, choices, specs, before, self.chip, self.settings)
        specs.update(zip(step.outputs, infer(step, specs, chips=self.program.chips)))
        return step, specs

    def _spec(self, name: str, assignment: Assignment) -> TensorSpec:
        scope = self.scopes.get(name, ())
        values = tuple(assignment.get(d, 0) for d in scope)
        if not any(values):
            return self.program.specs[name]
        key = name, values
        if key not in self._specs:
            self._specs[key] = self._step(self.makers[name], dict(zip(scope, values)))[1][name]
        return self._specs[key]

    def _scopes(self) -> dict[str, tuple[int, ...]]:
        """The decisions that a value's format or place depends on."""
        scopes: dict[str, tuple[int, ...]] = {}
        for step in self.program.body:
            if step.on_host or not step.outputs or step.kernel == "ttnn.deallocate":
                continue
            own = [d for d in self.own.get(step.outputs[0], ()) if self.decisions[d].about in ("result", "memory")]
            pins = pins_format(step) or step.is_transfer
            placed = pins_place(step)
            arriving = {d for n in step.uses for d in scopes.get(n, ())}
            passed = {d for d in arriving if not (pins if self.decisions[d].about == "result" else placed)}
            if own or passed:
                scope = tuple(sorted({*own, *passed}))
                scopes.update(dict.fromkeys(step.outputs, scope))
        return scopes


def _weighed(step: Step, dtype: str, specs: dict[str, TensorSpec]) -> Step:
    held: Weight | None = kernels()[step.kernel].weight
    weight = step.attr(held.operand) if held else None
    assert held is not None
    assert isinstance(weight, Ref)
    if held.order:
        return step.with_attrs(conv_config=conv_config(step, weights_dtype=Name(f"ttnn.{dtype}")))
    specs[weight.name] = replace(specs[weight.name], dtype=dtype)
    return step


def _cost(time: StepTime, settings: Settings) -> int:
    """What a Step adds to a call, as `kernels.cost.program_time` counts it."""
    if time.kernel is None:
        return time.ns
    dispatch = 0 if settings.trace else HOST_NS[USUAL]
    return max(time.ns + TRACED_GAP_NS[USUAL], dispatch) if time.ns else 0


def _specs(step: Step, program: Program) -> list[TensorSpec]:
    return [program.specs[n] for n in (*step.uses, *step.outputs)]


def _shape(spec: TensorSpec) -> tuple[object, ...]:
    return spec.shape, spec.dtype, spec.layout


def _starred(name: str) -> str:
    module, _, kernel = name.partition(":")
    return ".".join("*" if part.isdecimal() else part for part in module.split(".")) + ":" + kernel
