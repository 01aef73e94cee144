"""Reductions over an image's pixels are taken where convolutions leave them, channels last: one column of tiles.

Channels first, every channel would be a tile of its own, however few pixels it has, after a transposition of them all.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse
from proveout.kernels.table import kind_of
from proveout.program import Arg, Program, Ref, Step

CHANNELS_FIRST = (0, 3, 1, 2)


def fuse_means(program: Program, policy: Policy) -> Program:
    """Each channel's pixels are the same ones; the order in which they are added is not."""
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    if kind_of(step) != "reduction":
        return None
    tiled = body.maker(step.attr("input_tensor"), "ttnn.to_layout")
    turn = body.maker(tiled.attr("tensor") if tiled else step.attr("input_tensor"), "ttnn.permute")
    dims = step.attr("dim")
    if turn is None or turn.attr("dims") != CHANNELS_FIRST or not isinstance(dims, tuple) or len(step.outputs) != 1:
        return None
    if sorted(d % 4 for d in dims if isinstance(d, int)) != [2, 3]:
        return None
    batch, height, width, channels = body.spec(turn.attr("input_tensor")).shape
    rows, result = (body.fresh(f"{step.outputs[0]}.{name}") for name in ("rows", "row"))
    steps = [_reshape(turn.attr("input_tensor"), (batch, 1, height * width, channels), rows, turn)]
    if tiled is not None:
        tiles = body.fresh(f"{rows}.tiles")
        steps.append(replace(tiled.with_attrs(tensor=Ref(rows)), outputs=(tiles,)))
        rows = tiles
    about: tuple[tuple[str, Arg], ...] = (("input_tensor", Ref(rows)), ("dim", 2), ("keepdim", True))
    steps.append(Step(step.kernel, about, (result,), step.origin))
    steps.append(_reshape(Ref(result), body.specs[step.outputs[0]].shape, step.outputs[0], step))
    removed = (*([tiled] if tiled else []), turn, step)
    return Fusion(removed, tuple(steps), rounds_alike=True)


def _reshape(source: Arg, shape: tuple[int, ...], new: str, at: Step) -> Step:
    return Step("ttnn.reshape", (("input_tensor", source), ("shape", shape)), (new,), at.origin)


FUSIONS = (Listed("formulas", 9, fuse_means),)
