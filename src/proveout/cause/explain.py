"""From a compiled model to where its error comes from: every graph that a call runs, its ops, its modules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import torch

from proveout.cause.closeness import closeness
from proveout.cause.findings import COMPILER, Contribution, Explained, Explanation, OutputShare, tree_of, walk
from proveout.cause.local import Pass, expectations, look, suspicious
from proveout.cause.sides import Pair, against_another, against_float32
from proveout.cause.telescope import Reference, Run, Score, Telescope
from proveout.check.nonfinite import first_nonfinite
from proveout.check.outputs import leaves
from proveout.engine.compiled import Compiled, undisturbed
from proveout.engine.graph import GraphFunction, Variant
from proveout.errors import NumericsError, UsageError
from proveout.program import Loaded, Program, Ref
from proveout.tensor_spec import innermost
from proveout.types import Origin

Call = tuple[tuple[Any, ...], dict[str, Any]]
PASSES = 0.045
"""Forward passes that the border may take for each op that differs, beside those from the start."""
FROM_THE_START = 6
"""At most: the model by itself, compiled, and as its graph; both sides op by op, float32 once more on the device's
values."""
FEW_OPS, LEAST_PASSES = 100, 8.0
"""Below so many ops that differ it may take this many: what comes before it is most of the cost there anyway."""
FLOAT32 = "float32, op by op"
NOTABLE = 0.1
SPREAD = 0.2
"""Of the whole: where no op has as large a share, none stands out."""
MOST_SUSPECTS = 3
"""Ops that are looked into one by one whatever their share."""


def explain(compiled: Compiled, call: Call, other: Compiled | None = None, every: bool = False) -> Explained:
    """Where the error of one call comes from: against eager, or against another compilation of the same model.

    `every` looks into every op, whatever it costs."""
    args, kwargs = call
    with undisturbed(compiled.model, call), torch.no_grad():
        wanted = (other or compiled.model)(*args, **kwargs)
    with undisturbed(compiled.model, call):
        outputs, calls = _calls(compiled, call)
    notes, graphs = [], []
    others = _calls(other, call)[1] if other is not None else []
    if other is not None and len(others) != len(calls):
        raise UsageError(f"one side runs {len(calls)} graphs and the other {len(others)}: they cannot be swapped.")
    if other is not None and other.device != compiled.device and compiled.settings.numerics == "fast":
        notes.append("in fast numerics all chips compute alike; each one's own rules: --set numerics=faithful")
    for number, one in enumerate(calls):
        name = f"graph{number}"  # by its place in the call: a Program's own name counts what this process compiled
        if isinstance(one.variant, Variant):
            theirs = others[number] if others else None
            places = _places(one, outputs) if len(calls) == 1 else {}
            eager = dict(leaves(wanted))
            known = {i: v for i, leaf in places.items() if isinstance(v := eager.get(leaf), torch.Tensor)}
            explained = _explained(compiled, one, other, theirs, known, every)
            graphs += [replace(_named(explained, one, places), graph=name)] if explained else []
        else:
            notes.append(f"{name} runs in eager mode: {one.variant}")
    return Explained(closeness(outputs, wanted, compiled.settings.pcc), tuple(graphs), tuple(notes))


@dataclass(frozen=True)
class _GraphCall:
    """One graph as a call ran it."""

    graph: GraphFunction
    variant: Any
    arguments: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def inputs(self) -> list[Any]:
        return [self.arguments[i] for i in self.variant.compiled.input_positions]


def _calls(compiled: Compiled, call: Call) -> tuple[Any, list[_GraphCall]]:
    ran: list[_GraphCall] = []

    def run(graph: GraphFunction, arguments: Sequence[Any]) -> list[Any]:
        kept, versions = list(map(_kept, arguments)), list(map(_version, arguments))
        outputs = graph.run(arguments)
        variant = graph.variant(arguments)
        for place in variant.compiled.weight_positions if isinstance(variant, Variant) else ():
            if _version(arguments[place]) == versions[place]:  # the very tensors that are loaded: others load anew
                kept[place] = arguments[place]
        ran.append(_GraphCall(graph, variant, tuple(kept), tuple(outputs)))
        return outputs

    with compiled.instead_of_graphs(run):
        outputs = compiled(*call[0], **call[1])
    return outputs, ran


def _kept(argument: Any) -> Any:
    whole = isinstance(argument, torch.Tensor) and not isinstance(argument, torch.nn.Parameter)
    return argument.detach().clone() if whole else argument


def _version(argument: Any) -> int | None:
    """What in-place writes count up."""
    counted = isinstance(argument, torch.Tensor) and not argument.is_inference()
    return argument._version if counted else None


def _explained(
    compiled: Compiled,
    one: _GraphCall,
    other: Compiled | None,
    theirs: _GraphCall | None,
    known: dict[int, torch.Tensor],
    every: bool,
) -> Explanation | None:
    loaded = one.variant.ready(one.arguments)
    device = f"{compiled.device}, {_told(compiled, other)}"
    if other is None or theirs is None:
        eager = _eager(one, loaded.program, known)
        return attribute(
            loaded, one.inputs, eager, candidate=device, against="eager" if eager else FLOAT32, every=every
        )
    pair = against_another(loaded, theirs.variant.ready(theirs.arguments))
    if isinstance(pair, str):
        raise UsageError(
            f"the two do not run the same Steps, so that no op can be swapped: {pair}. Explain each of them alone, or "
            "choose settings that change numbers only (numerics, math_fidelity, weights, overrides)."
        )
    return _telescoped(loaded, pair, one.inputs, None, device, f"{other.device}, {_told(other, compiled)}", every=every)


def _told(compiled: Compiled, other: Compiled | None) -> str:
    """The settings that two compilations differ in; of one alone, those that decide its numbers."""
    names: tuple[str, ...] = ("precision", "weights", "overrides", "math_fidelity", "numerics")
    if other is not None:
        names = tuple(n for n in vars(compiled.settings) if getattr(compiled.settings, n) != getattr(other.settings, n))
    return ", ".join(f"{n} {getattr(compiled.settings, n)}" for n in names if getattr(compiled.settings, n)) or "same"


def _eager(one: _GraphCall, program: Program, known: dict[int, torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """The graph's outputs by PyTorch itself, by their names in the Program; None where that rounds, too."""
    floats = [a for a in one.arguments if isinstance(a, torch.Tensor) and a.is_floating_point()]
    if any(a.dtype not in (torch.float32, torch.float64) for a in floats):
        return None
    named = {i: o.name for i, o in enumerate(program.outputs) if isinstance(o, Ref)}
    if not known.keys() >= named.keys():
        with torch.no_grad():
            known = {i: v for i, v in enumerate(one.graph.gm(*one.arguments)) if isinstance(v, torch.Tensor)}
    return {name: known[i] for i, name in named.items() if i in known}


def _places(one: _GraphCall, outputs: Any) -> dict[int, str]:
    """What the model calls the outputs of its only graph, by their places: of those that it hands on as they are."""
    places = {_identity(o): i for i, o in enumerate(one.outputs) if isinstance(o, torch.Tensor)}
    named = ((places.get(_identity(leaf)), name) for name, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor))
    return {place: name for place, name in named if place is not None}


def _named(explained: Explanation, one: _GraphCall, places: Mapping[int, str]) -> Explanation:
    """With the model's own names of its outputs, where it has them, instead of those in the Program."""
    refs = enumerate(one.variant.compiled.program.outputs)
    names = {ref.name: places[i] for i, ref in refs if isinstance(ref, Ref) and i in places}
    parts = (
        replace(part, outputs=tuple(replace(o, output=names.get(o.output, o.output)) for o in part.outputs))
        for part in explained.contributions
    )
    return replace(explained, contributions=tuple(parts))


def _identity(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def attribute(
    loaded: Loaded,
    inputs: Sequence[Any],
    eager: dict[str, torch.Tensor] | None = None,
    *,
    candidate: str = "the device",
    against: str = FLOAT32,
    every: bool = False,
    passes: float | None = None,
) -> Explanation | None:
    """One loaded Program's error by its ops; None where no output is a floating-point tensor of its own."""
    return _telescoped(loaded, against_float32(loaded), inputs, eager, candidate, against, every=every, passes=passes)


def _telescoped(
    loaded: Loaded,
    pair: Pair,
    inputs: Sequence[Any],
    eager: dict[str, torch.Tensor] | None,
    candidate: str,
    against: str,
    *,
    every: bool = False,
    passes: float | None = None,
) -> Explanation | None:
    if not pair.outputs:
        return None
    seen = look(pair, inputs)
    wanted = [(eager or {}).get(n, o) for n, o in zip(pair.outputs, seen.other_outputs)]
    telescope = Telescope(pair, seen, Reference.of(wanted))
    whole = telescope.places[len(telescope.differing)].whole
    if not math.isfinite(whole):
        blamed = first_nonfinite(loaded, inputs)
        raise NumericsError(
            f"the outputs hold numbers that are not finite: {blamed or 'no Step on the device made them'}."
        )
    ops = len(telescope.differing)
    granted = passes or (LEAST_PASSES if ops < FEW_OPS else PASSES * ops)
    expected = expectations(pair, seen)
    runs = telescope.search(float("inf") if every else granted, suspicious(seen, expected)[:MOST_SUSPECTS])
    parts = [_contribution(telescope, run, expected) for run in runs]
    start = telescope.places[0]
    if start.whole > 0:
        outputs = _output_shares(pair, Score((), (), (), ()), start)
        parts.append(Contribution(COMPILER, "", Origin(), -1, 0, start.whole, start.whole, "adds", outputs=outputs))
    parts.sort(key=lambda part: _rank(part, whole))
    passes_run = FROM_THE_START + telescope.steps_run / max(len(telescope._needed), 1)
    exact = len(seen.locals) - len(telescope.differing)
    said = tuple(_said(pair, seen, parts, whole))
    return Explanation(loaded.program.name, candidate, against, whole, tuple(parts), exact, passes_run, said)


def _contribution(telescope: Telescope, run: Run, expected: Mapping[int, float]) -> Contribution:
    start, end = telescope.score(run.start), telescope.score(run.end)
    ops = telescope.differing[run.start : run.end]
    steps = [telescope.pair.device.steps[i] for i in ops]
    share, own, value = end.whole - start.whole, telescope.own(run), steps[-1].outputs[0] if steps[-1].outputs else ""
    outputs = _output_shares(telescope.pair, start, end)
    if len(steps) > 1:
        module = innermost([s.origin.module for s in steps])
        return Contribution(
            f"{len(steps)} ops",
            value,
            Origin(module=module),
            ops[0],
            len(steps),
            share,
            own,
            "several",
            outputs=outputs,
        )
    local = telescope.seen.locals[ops[0]]
    return Contribution(
        steps[0].kernel, value, steps[0].origin, ops[0], 1, share, own, local.role,
        local.adds, local.incoming, local.gain, outputs, expected.get(ops[0]),
    )  # fmt: skip


def _rank(part: Contribution, whole: float) -> tuple[float, float]:
    """What is not as expected first, by what it does to the outputs: a Program that is off as such, and suspects."""
    off = part.op == COMPILER and part.share > NOTABLE * whole
    return -(part.own if off else part.beyond), -part.share


def _output_shares(pair: Pair, start: Score, end: Score) -> tuple[OutputShare, ...]:
    none = (0.0, 0.0, 0.0)
    out = []
    for i, name in enumerate(pair.outputs):
        before = start.squared[i] if start.squared else none
        classes = tuple(b - a for a, b in zip(before, end.squared[i]))
        flips = end.flips[i] - (start.flips[i] if start.flips else 0)
        argmax = end.argmax[i] - (start.argmax[i] if start.argmax else 0)
        out.append(OutputShare(name, sum(classes), classes, flips, argmax))  # type: ignore[arg-type]
    return tuple(out)


def _said(pair: Pair, seen: Pass, parts: Sequence[Contribution], whole: float) -> list[str]:
    if not parts or not whole:
        return ["Both sides give the same: there is no error to explain."]
    top, largest = parts[0], max(parts, key=lambda part: part.share)
    if top.op == COMPILER:
        return [
            f"{top.share / whole:.0%} of the error is there before any op runs on the device: the Program in float32 "
            "is off. A pass or a lowering changes what the model means; dump the graphs (`proveout compile --dump`)."
        ]
    if not top.is_suspect and largest.share < SPREAD * whole:
        return [*_spread(parts, largest, whole), *_together(parts, whole)]
    out = [f"{_where(top)} makes {top.share / whole:.0%} of the error{_adds(top)}."]
    if top.is_suspect and top.times is not None:
        out.append(f"That is {top.times:.1f} × what is expected of it ({top.expected:.2%}): look here first.")
    if top.adds and top.arrives >= 2 * top.adds:
        reason = f"What it adds arrives at the outputs {top.arrives / top.adds:.0f} × larger"
        magnifier = _magnifier(pair, seen, top.position)
        out.append(f"{reason}: amplification{f', most of it in {magnifier}' if magnifier else ' along the way'}.")
    if largest is not top:
        out.append(f"The largest share is that of {_where(largest)}: {largest.share / whole:.0%}{_adds(largest)}.")
    return [*out, *_together(parts, whole)]


def _spread(parts: Sequence[Contribution], largest: Contribution, whole: float) -> list[str]:
    """Where no op stands out: how many there are, and the module that most of them are in."""
    out = [
        f"No op stands out: the error is spread over {sum(part.ops for part in parts)} ops. The largest share is "
        f"{largest.share / whole:.0%}, of {_where(largest)}{_adds(largest)}."
    ]
    modules = [branch for _, branch in walk(tree_of(parts)) if branch.share > SPREAD * whole and branch.is_module]
    if len(modules) > 1:  # the first is the whole model
        inner = modules[-1]
        out.append(f"{inner.share / whole:.0%} of it comes from {inner.path} ({inner.ops} ops).")
    return out


def _together(parts: Sequence[Contribution], whole: float) -> list[str]:
    together = sum(part.interaction for part in parts)
    if abs(together) <= NOTABLE * whole:
        return []
    if together > 0:
        how = f"{together / whole:.0%} of the error is there only because errors of several ops point the same way"
    else:
        how = f"Errors of several ops cancel: one by one they would make {1 - together / whole:.1f} × as much"
    return [f"{how} (interaction)."]


def _where(part: Contribution) -> str:
    if part.role == "several":
        return f"{part.op} in {part.origin.module or 'the model'}"
    places = ", ".join(filter(None, (part.origin.module, PurePath(part.origin.source).name)))
    return f"{part.op}{f' ({places})' if places else ''}"


def _adds(part: Contribution) -> str:
    if part.adds is None:
        return ""
    return f": it adds {part.adds:.2%}, and {part.arrives:.2%} arrives"


def _magnifier(pair: Pair, seen: Pass, position: int) -> str:
    """The op after this one that makes what it gives the largest number of times larger."""
    reached = set(pair.device.steps[position].outputs)
    best, name = 0.0, ""
    for index in range(position + 1, len(pair.device.steps)):
        step, local = pair.device.steps[index], seen.locals[index]
        if reached.intersection(step.uses):
            reached.update(step.outputs)
            if local.gain is not None and local.gain > best and local.role == "magnifies":
                best, name = local.gain, f"{step.kernel}{f' ({step.origin.module})' if step.origin.module else ''}"
    return f"{name}, which makes it {best:.1f} × larger" if name else ""
