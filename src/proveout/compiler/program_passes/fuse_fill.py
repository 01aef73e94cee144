"""Prompts go into a cache of whole users by `ttnn.fill_cache`, one call a user, which writes no other position.

A static cache's prefill is lowered to what is new before what stays: a copy of the whole cache, however long it is.
"""

from __future__ import annotations

from proveout.compiler.program_passes.fuse_decode import DecodeFusion, NewSteps, Put
from proveout.compiler.program_passes.match import Listed, Policy
from proveout.program import Program, Ref
from proveout.types import TILE


def fuse_fill(program: Program, policy: Policy) -> Program:
    if policy.one_chip:
        for _, value in program.state:
            program = _filled(DecodeFusion(program, policy), value) or program
    return program


def _filled(decoding: DecodeFusion, value: str) -> Program | None:
    """The Program with what this state holds put there by fills; None where it is otherwise, or where it would not
    pay."""
    body = decoding.body
    joined = body.maker(Ref(value), "ttnn.concat")
    parts = joined.attr("tensors") if joined is not None else None
    if joined is None or not isinstance(parts, tuple) or len(parts) != 2 or joined.attr("dim") not in (2, -2):
        return None
    prompts, rest = parts
    stays = body.maker(rest, "ttnn.slice")
    shape = body.specs[value].shape
    if stays is None or len(shape) != 4 or not isinstance(prompts, Ref):
        return None
    length = body.spec(prompts).shape[2]
    asked = tuple(stays.attr(f"slice_{name}") for name in ("start", "end", "step"))
    if asked not in (((0, 0, length, 0), shape, (1,) * 4), ((0, 0, length, 0), shape, None)) or length % TILE:
        return None
    source, conversions = decoding.back(stays.attr("input_tensor"), "layout")
    copy = decoding.copies.get(source.name)
    inside = (*conversions, stays, joined)
    if copy is None or copy.uses != (decoding.state[value],):
        return None
    if decoding.read_elsewhere((copy, *inside), value=value):
        return None
    put = Put(decoding.state[value], copy, value, joined, prompts, inside)
    new = NewSteps(body, joined)
    steps = new.fill("ttnn.fill_cache", put, prompts)
    return decoding.replaced(new, {id(joined): steps}, (put,)) if new.same(value) else None


FUSIONS = (Listed("formulas", 4.7, fuse_fill),)
