"""Moves permutes and reshapes below element-wise Steps, so that they meet their inverses and cancel.

A CNN is written channels-first and ttnn convolves channels-last: between two convolutions only element-wise Steps stand
between the permute back and the next permute there.
"""

from __future__ import annotations

import math
from dataclasses import replace

from proveout.kernels.row import Kind
from proveout.kernels.table import kind_of
from proveout.program import Program, Ref, Step
from proveout.types import TensorSpec

ELEMENTWISE: tuple[Kind, ...] = ("unary", "binary", "cast")


def sink(program: Program) -> Program:
    return _sunk(program, (*ELEMENTWISE, "layout"))


def sink_in_layout(program: Program) -> Program:
    """As `sink`, but a conversion stays where `layouts` put it: above it, a move is made in the other layout."""
    return _sunk(program, ELEMENTWISE)


def _sunk(program: Program, kinds: tuple[Kind, ...]) -> Program:
    specs = dict(program.specs)
    uses = _counts(program)
    makers: dict[str, Step] = {}
    body: list[Step] = []

    def emit(step: Step) -> None:
        below = _below(step, makers, uses, specs) if kind_of(step) in kinds else None
        if below is not None:
            inner, step, shape = below
            specs[inner.outputs[0]] = replace(specs[step.outputs[0]], shape=shape)
            uses[inner.outputs[0]] = 1
            emit(inner)
        body.append(step)
        if kind_of(step) in ("view", "order"):
            makers[step.outputs[0]] = step

    for step in program.body:
        emit(step)
    return replace(program, body=tuple(body), specs=specs)


def _below(
    step: Step, producers: dict[str, Step], uses: dict[str, int], specs: dict[str, TensorSpec]
) -> tuple[Step, Step, tuple[int, ...]] | None:
    """The element-wise Step on what was moved, the move after it, and the shape between them; None where that is not
    the same."""
    if not step.uses:
        return None
    moved = [name for name in step.uses if name in producers]
    first = producers[moved[0]] if moved else None
    if first is None or any(_kind(producers[m], specs) != _kind(first, specs) for m in moved):
        return None
    if any(name not in producers and not _is_row_of(name, first, specs) for name in step.uses):
        return None
    if len(moved) == 1 and uses[moved[0]] > 1 and kind_of(step) != "layout":
        return None  # the move would stay for its other users and be made again here
    sources = {name: producers[name].uses[0] if name in producers else name for name in step.uses}
    inner_name = f"{step.outputs[0]}.below"
    attrs = tuple((k, Ref(sources[v.name]) if isinstance(v, Ref) else v) for k, v in step.attrs)
    move_attrs = tuple((k, Ref(inner_name) if isinstance(v, Ref) else v) for k, v in first.attrs)
    move = replace(first, attrs=move_attrs, outputs=step.outputs)
    return replace(step, attrs=attrs, outputs=(inner_name,)), move, specs[first.uses[0]].shape


def _is_row_of(name: str, move: Step, specs: dict[str, TensorSpec]) -> bool:
    """Whether an operand is one row for all rows, as a bias is, and the move leaves rows whole and no more padded."""
    source, out, row = specs[move.uses[0]], specs[move.outputs[0]], specs[name]
    width = source.shape[-1:]
    whole = width == out.shape[-1:] and (move.kernel != "ttnn.permute" or _ends_alike(move))
    small = math.prod(source.padded_shape) <= math.prod(out.padded_shape)
    return whole and small and row.layout == source.layout and row.shape == width


def _ends_alike(permute: Step) -> bool:
    dims = permute.attr("dims")
    return isinstance(dims, tuple) and dims[-1] in (len(dims) - 1, -1)


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
