"""From a compiled model to where its error comes from: every graph that a call runs, its ops, its modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from proveout.cause.attribute import FLOAT32, Ran, attribute, difference
from proveout.cause.closeness import closeness
from proveout.cause.findings import Explained, Explanation
from proveout.check.outputs import leaves
from proveout.devices.registry import find
from proveout.engine.compiled import Compiled, undisturbed
from proveout.engine.graph import GraphFunction, Variant
from proveout.errors import UsageError
from proveout.program import Program, Ref

Call = tuple[tuple[Any, ...], dict[str, Any]]
NO_SHARES = "computes no floating-point output: integers are right or wrong, and have no shares (see proveout check)"


def explain(compiled: Compiled, call: Call, other: Compiled | None = None, every: bool = False) -> Explained:
    """Where the error of one call comes from: against eager, or against another compilation of the same model.

    `every` looks into every op, whatever it costs."""
    args, kwargs = call
    with undisturbed(compiled.model, call), torch.no_grad():
        wanted = (other or compiled.model)(*args, **kwargs)
    with undisturbed(compiled.model, call):
        outputs, calls = _calls(compiled, call)
    notes: list[str] = []
    graphs: list[Explanation] = []
    with undisturbed(compiled.model, call):
        others = _calls(other, call)[1] if other is not None else []
    if other is not None and len(others) != len(calls):
        raise UsageError(f"one side runs {len(calls)} graphs and the other {len(others)}: they cannot be swapped.")
    devices = {one.device for one in (compiled, other or compiled)}
    if len(devices) > 1 and all(find(d).numerics for d in devices) and compiled.settings.numerics == "fast":
        notes.append("in fast numerics all chips compute alike; each one's own rules: --set numerics=faithful")
    for number, one in enumerate(calls):
        name = f"graph{number}"  # by its place in the call: a Program's own name counts what this process compiled
        theirs = others[number] if others else None
        eagerly = next((c.variant for c in (one, theirs) if c and not isinstance(c.variant, Variant)), None)
        if eagerly is None:
            places = _places(one, outputs) if len(calls) == 1 else {}
            only = list(places) if compiled.model.training else []  # the others are kept for the backward pass
            eager = dict(leaves(wanted))
            known = {i: v for i, leaf in places.items() if isinstance(v := eager.get(leaf), torch.Tensor)}
            explained = _explained(compiled, one, other, theirs, known, every, only)
            if explained is None:
                notes.append(f"{name} {NO_SHARES}")
            else:
                graphs.append(replace(_named(explained, one, places), graph=name))
        else:
            notes.append(f"{name} runs in eager mode: {eagerly}")
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
    only: Sequence[int],
) -> Explanation | None:
    loaded = one.variant.ready(one.arguments)
    device = f"{compiled.device}, {_told(compiled, other)}"
    if other is None or theirs is None:
        eager = _eager(one, loaded.program, known)
        return attribute(
            loaded, one.inputs, eager, candidate=device, against="eager" if eager else FLOAT32, every=every,
            phases=_in_phases(compiled), only=only,
        )  # fmt: skip
    told = _told(other, compiled)
    chips = compiled.device, other.device
    sides = chips if chips[0] != chips[1] else (_told(compiled, other), told)
    return difference(
        Ran(loaded, one.inputs, one.outputs, sides[0], _in_phases(compiled)),
        Ran(theirs.variant.ready(theirs.arguments), theirs.inputs, theirs.outputs, sides[1], _in_phases(other)),
        candidate=device,
        against=f"{other.device}, {told}",
        every=every,
        only=only,
    )


def _in_phases(compiled: Compiled) -> bool:
    """Whether its device multiplies as a chip does, by its own rules."""
    info = find(compiled.device)
    return info.target == "ttnn" and (not info.numerics or compiled.settings.numerics == "faithful")


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
