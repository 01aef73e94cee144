"""Two ways to compute one run of Steps, side by side and interchangeable Step by Step."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from proveout.check.exact import draws, exactly, joined, wide
from proveout.devices.execute import is_placement
from proveout.kernels.faithful import as_read
from proveout.kernels.pieces import Pieces
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.table import kernels, kind_of, specs_of, torch_dtype
from proveout.program import DEALLOCATE, Loaded, Program, Ref, Step, with_refs
from proveout.types import TensorSpec

Values = Mapping[str, Any]
Change = Callable[[torch.Tensor], torch.Tensor]
OTHER_WEIGHTS = "other weights"
"""The name of what takes the place of a product's weights."""


@dataclass(frozen=True)
class Side:
    """One way. `steps` name values as both sides do, so that the graph can be followed; what runs is the Program's own
    Step, whose operands' specs decide how."""

    steps: tuple[Step, ...]
    run: Callable[[int, Values], tuple[Any, ...]]
    """The results of one Step on values of either side, by their shared names."""


@dataclass(frozen=True)
class Formats:
    """What a Step reads and writes its numbers in, and how long its sums are."""

    operands: tuple[str, ...]
    results: tuple[str, ...]
    terms: float = 0.0
    """Products that are summed to one number of its result; 0 for what does not run on the matrix unit."""


@dataclass(frozen=True)
class Pair:
    """A device and what it is held against, with what a run starts from and ends in."""

    device: Side
    other: Side
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Those that are floating-point tensors."""
    formats: tuple[Formats, ...]
    """Of each Step on the device."""
    weighted: Callable[[int, Values, Change], tuple[Any, ...]] = lambda index, values, change: ()
    """The other side's results of a product with other weights than the device's; nothing of other Steps."""
    read: Callable[[int, Values], tuple[Any, ...]] = lambda index, values: ()
    """The other side's results on what a chip's matrix unit keeps of float32 operands; nothing where it reads none."""


def against_float32(loaded: Loaded) -> Pair:
    """A loaded Program against the float32 meaning of the same Steps."""
    program = loaded.program
    body = computing(program)
    drawn: dict[int, tuple[Any, ...]] = {}
    held = (*program.weights, *(c.name for c in program.constants))
    exact: dict[str, Any] = {n: wide(at_home(loaded.value(n))) for n in held}
    with torch.no_grad():
        for step in program.setup:
            if step.kernel != DEALLOCATE:
                exact.update(zip(step.outputs, map(wide, exactly(step, exact, (), program.chips))))

    def on_device(index: int, values: Values) -> tuple[Any, ...]:
        results = tuple(map(at_home, body.run(loaded, index, values)))
        if draws(body.own[index]):
            drawn[index] = results
        return results

    def in_float32(index: int, values: Values) -> tuple[Any, ...]:
        step = body.shared[index]
        operands = {n: wide(values[n]) if n in values else exact[n] for n in step.uses}
        return tuple(map(wide, exactly(step, operands, drawn.get(index, ()), program.chips)))

    def weighted(index: int, values: Values, change: Change) -> tuple[Any, ...]:
        step, shared = body.own[index], body.shared[index]
        weight = kernels()[step.kernel].weight if kind_of(step) in MATRIX_UNIT else None
        held = step.attr(weight.operand) if weight else None
        if weight is None or not isinstance(held, Ref):
            return ()
        value = values[body.names[held.name]] if held.name in body.names else at_home(loaded.value(held.name))
        changed = _changed(wide(value), change)
        attrs = tuple((k, Ref(OTHER_WEIGHTS) if k == weight.operand else v) for k, v in shared.attrs)
        step = replace(shared, attrs=attrs)
        operands = {n: wide(values[n]) if n in values else exact[n] for n in step.uses if n != OTHER_WEIGHTS}
        return exactly(step, {**operands, OTHER_WEIGHTS: changed}, (), program.chips)

    def read(index: int, values: Values) -> tuple[Any, ...]:
        step, shared = body.own[index], body.shared[index]
        kept = as_read(step, program.specs)
        if kept is None:
            return ()
        operands = {n: wide(values[n]) if n in values else exact[n] for n in shared.uses}
        cut = {name for own, name in zip(step.uses, shared.uses) if program.specs[own].dtype == "float32"}
        operands = {n: _changed(v, kept) if n in cut else v for n, v in operands.items()}
        return tuple(map(wide, exactly(shared, operands, (), program.chips)))

    ends, formats = output_names(program, body), _formats(program, body)
    sides = Side(body.shared, on_device), Side(body.shared, in_float32)
    return Pair(*sides, program.inputs, ends, formats, weighted, read)


def _changed(value: Any, change: Change) -> Any:
    return Pieces(map(change, value)) if isinstance(value, Pieces) else change(value)


def against_another(loaded: Loaded, other: Loaded) -> Pair | str:
    """A loaded Program against the same Steps on another device or under other settings, or why they are not the same
    Steps."""
    ours, theirs = computing(loaded.program), computing(other.program)
    if len(loaded.program.inputs) != len(other.program.inputs):
        return "they take other inputs"
    if len(ours.own) != len(theirs.own):
        return f"one has {len(ours.own)} Steps and the other {len(theirs.own)}"
    names = dict(zip(other.program.inputs, loaded.program.inputs))
    for mine, yours in zip(ours.shared, theirs.shared):
        if mine.kernel != yours.kernel or len(mine.outputs) != len(yours.outputs):
            return f"where one calls {mine.kernel} the other calls {yours.kernel}"
        if [names[n] for n in theirs.changing(yours)] != ours.changing(mine):
            return f"{mine.kernel} reads other values"
        names.update(zip(yours.outputs, mine.outputs))
    renamed = replace(theirs, names={own: names[n] for own, n in theirs.names.items() if n in names})
    run_ours, run_theirs = functools.partial(ours.run, loaded), functools.partial(renamed.run, other)
    ends, formats = output_names(loaded.program, ours), _formats(loaded.program, ours)
    return Pair(Side(ours.shared, run_ours), Side(ours.shared, run_theirs), loaded.program.inputs, ends, formats)


def _formats(program: Program, body: Body) -> tuple[Formats, ...]:
    specs = program.specs
    return tuple(
        Formats(
            tuple(specs[n].dtype for n in step.uses), tuple(specs[n].dtype for n in step.outputs), terms(step, specs)
        )
        for step in body.own
    )


def terms(step: Step, specs: Mapping[str, TensorSpec]) -> float:
    """Products that are summed to one number of a Step's result; of attention, those of both its products."""
    if kind_of(step) not in (*MATRIX_UNIT, "attention"):
        return 0.0
    result = specs[step.outputs[0]]
    counted = result.padded_shape if kind_of(step) == "product" else result.shape
    return kernels()[step.kernel].work(specs_of(step, specs), (result,)).ops / 2 / max(math.prod(counted), 1)


@dataclass(frozen=True)
class Body:
    """A Program's Steps without those that free memory or move a value as it is."""

    own: tuple[Step, ...]
    shared: tuple[Step, ...]
    """The same, with a moved value called as the one that it is."""
    names: Mapping[str, str]
    """Own name to shared name, of all that changes from call to call."""

    def run(self, loaded: Loaded, index: int, values: Values) -> tuple[Any, ...]:
        """One Step as its device computes it."""
        program, step = loaded.program, self.own[index]
        operands = {
            n: _fitted(values[self.names[n]], n, program) if n in self.names else loaded.value(n) for n in step.uses
        }
        return loaded.run_step(step, operands)

    def changing(self, step: Step) -> list[str]:
        """What a Step reads that is not made of weights alone, by shared names."""
        known = set(self.names.values())
        return [n for n in step.uses if n in known]


def computing(program: Program) -> Body:
    """A Program's Steps that compute, in order."""
    names = {n: n for n in program.inputs}
    own, shared = [], []
    for step in program.body:
        if step.kernel == DEALLOCATE:
            continue
        renamed = with_refs(step, lambda ref: Ref(names.get(ref.name, ref.name)))
        moved = is_placement(step) and "dtype" not in dict(step.attrs) and len(step.uses) == 1
        if moved and step.uses[0] in names:
            names[step.outputs[0]] = names[step.uses[0]]
        else:
            names.update((n, n) for n in step.outputs)
            own.append(step)
            shared.append(renamed)
    return Body(tuple(own), tuple(shared), names)


def _fitted(value: Any, name: str, program: Program) -> Any:
    """A value of either side in the dtype that this side's Steps read."""
    wanted = torch_dtype(program.specs[name].dtype)
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != wanted:
        return value.to(wanted)
    return value


def output_names(program: Program, body: Body) -> tuple[str, ...]:
    """Outputs that are floating-point tensors of their own, by shared names."""
    return tuple(dict.fromkeys(named_outputs(program, body).values()))


def named_outputs(program: Program, body: Body) -> dict[int, str]:
    """Likewise, by their places."""
    kinds = ("float", "bfloat", "complex")
    computed = {n for s in body.own for n in s.outputs}
    named = {i: body.names.get(o.name, o.name) for i, o in enumerate(program.outputs) if isinstance(o, Ref)}
    return {i: n for i, n in named.items() if n in computed and program.specs[n].dtype.startswith(kinds)}


def at_home(value: Any) -> Any:
    """A value of any device in this machine's memory, where float32 is computed."""
    return value.cpu() if isinstance(value, torch.Tensor) else value


def as_double(value: Any) -> torch.Tensor:
    """A value of either side as one vector of float64."""
    tensor = joined(value).detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double().flatten()
