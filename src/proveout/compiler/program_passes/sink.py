"""Moves permutes and reshapes below element-wise Steps, so that they meet their inverses and cancel.

A CNN is written channels-first and ttnn convolves channels-last: between two convolutions only element-wise Steps stand
between the permute back and the next permute there.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.kernels.row import Kind
from proveout.kernels.table import kind_of
from proveout.program import Program, Ref, Step
from proveout.types import TensorSpec

ELEMENTWISE: tuple[Kind, ...] = ("unary", "binary", "cast", "layout")


def sink(program: Program) -> Program:
    specs = dict(program.specs)
    uses = _counts(program)
    made: dict[str, Step] = {}
    body: list[Step] = []

    def emit(step: Step) -> None:
        below = _below(step, made, uses, specs)
        if below is not None:
            inner, step = below
            specs[inner.outputs[0]] = replace(specs[step.outputs[0]], shape=specs[inner.uses[0]].shape)
            uses[inner.outputs[0]] = 1
            emit(inner)
        body.append(step)
        if kind_of(step) in ("view", "order"):
            made[step.outputs[0]] = step

    for step in program.body:
        emit(step)
    return replace(program, body=tuple(body), specs=specs)


def _below(
    step: Step, producers: dict[str, Step], uses: dict[str, int], specs: dict[str, TensorSpec]
) -> tuple[Step, Step] | None:
    """The element-wise Step on what was moved, and the move after it; None where that is not the same."""
    if kind_of(step) not in ELEMENTWISE or not step.uses:
        return None
    moves = [producers.get(name) for name in step.uses]
    first = moves[0]
    if first is None or any(m is None or _kind(m, specs) != _kind(first, specs) for m in moves):
        return None
    if len(step.uses) == 1 and uses[step.uses[0]] > 1 and kind_of(step) != "layout":
        return None  # the move would stay for its other users and be made again here
    sources = {name: producers[name].uses[0] for name in step.uses}
    inner_name = f"{step.outputs[0]}.below"
    attrs = tuple((k, Ref(sources[v.name]) if isinstance(v, Ref) else v) for k, v in step.attrs)
    move_attrs = tuple((k, Ref(inner_name) if isinstance(v, Ref) else v) for k, v in first.attrs)
    return replace(step, attrs=attrs, outputs=(inner_name,)), replace(first, attrs=move_attrs, outputs=step.outputs)


def _kind(move: Step, specs: dict[str, TensorSpec]) -> tuple[object, ...]:
    """Two moves are the same if they take one shape to another in one way."""
    source, out = specs[move.uses[0]], specs[move.outputs[0]]
    how = tuple(move.attr(name) for name in ("dims", "dim1", "dim2"))
    return move.kernel, how, source.shape, out.shape, source.layout


def _counts(program: Program) -> dict[str, int]:
    counts: dict[str, int] = {}
    for step in program.body:
        for name in step.uses:
            counts[name] = counts.get(name, 0) + 1
    for name in program.results:
        counts[name] = counts.get(name, 0) + 1
    return counts
