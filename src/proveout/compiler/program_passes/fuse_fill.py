"""Prompts go into a cache of whole users by `ttnn.fill_cache`, one call a user, which writes no other position.

A static cache's prefill is lowered to what is new before what stays: a copy of the whole cache, however long it is.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.fuse_decode import Calls, Decoding, with_attrs
from proveout.compiler.program_passes.match import Listed, Policy
from proveout.kernels.table import LAYOUT_NAMES
from proveout.program import Arg, Program, Ref, Step
from proveout.types import TILE


def fuse_fill(program: Program, policy: Policy) -> Program:
    if policy.one_chip:
        for _, value in program.state:
            program = _filled(Decoding(program, policy), value) or program
    return program


def _filled(decoding: Decoding, value: str) -> Program | None:
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
    users, heads, _, size = shape
    length = body.spec(prompts).shape[2]
    asked = tuple(stays.attr(f"slice_{name}") for name in ("start", "end", "step"))
    if asked not in (((0, 0, length, 0), shape, (1,) * 4), ((0, 0, length, 0), shape, None)) or length % TILE:
        return None
    source, conversions = decoding.back(stays.attr("input_tensor"), "layout")
    copy = decoding.copies.get(source.name)
    inside = (*conversions, stays, joined)
    if copy is None or copy.uses != (decoding.state[value],):
        return None
    if body.read_elsewhere({*copy.outputs, *(n for s in inside[:-1] for n in s.outputs)}, inside):
        return None
    new = Calls(body, joined)
    cache = Ref(copy.outputs[0])
    new.specs[cache.name] = replace(body.specs[cache.name], layout="tile")
    for user in range(users):
        one = prompts
        if users > 1:
            begin, end = (user, 0, 0, 0), (user + 1, heads, length, size)
            one = new.call("ttnn.slice", "prompt", input_tensor=prompts, slice_start=begin, slice_end=end)
        name = value if user == users - 1 else body.fresh(f"{value}.filled")
        attrs: tuple[tuple[str, Arg], ...] = (("cache_tensor", cache), ("input_tensor", one), ("batch_idx", user))
        cache = new.add(Step("ttnn.fill_cache", attrs, (name,), joined.origin))
    steps = new.taken()
    if not new.same(value) or not new.accepted(steps) or not decoding.pays(list(inside), steps, new.specs):
        return None
    gone = {id(s) for s in inside[:-1]}
    program = decoding.program
    changed = tuple(s for old in program.body if id(old) not in gone for s in (steps if old is joined else [old]))
    setup = tuple(with_attrs(s, layout=LAYOUT_NAMES["tile"]) if s is copy else s for s in program.setup)
    lost = {n for s in inside[:-1] for n in s.outputs}
    return replace(program, setup=setup, body=changed, specs={n: s for n, s in new.specs.items() if n not in lost})


FUSIONS = (Listed("formulas", 4.7, fuse_fill),)
