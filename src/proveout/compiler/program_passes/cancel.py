"""Joins chains of permutes and of reshapes, and drops those that change nothing.

A chain that leaves all numbers in their order is one reshape, however they were turned on the way. A permute that takes
no two dimensions past each other, those of size 1 apart, is a reshape; and one after a reshape that only added
dimensions of size 1 is made before it. An einsum comes as such chains, and a tensor whose last dimensions have size 1
fills a tile with every number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from proveout.compiler.program_passes.views import View, moved
from proveout.program import Arg, Program, Ref, Step, map_refs, with_refs
from proveout.types import TensorSpec

Specs = dict[str, TensorSpec]


def cancel(program: Program) -> Program:
    specs = dict(program.specs)
    makers: dict[str, Step] = {}
    alias: dict[str, str] = {}

    def follow(ref: Ref) -> Arg:
        return Ref(alias.get(ref.name, ref.name))

    body = []
    for original in program.body:
        for step in _rewritten(with_refs(original, follow), makers, specs):
            if step.kernel in ("ttnn.permute", "ttnn.reshape"):
                (source,), (out,) = step.uses, step.outputs
                if specs[source] == specs[out] and _is_identity(step):
                    alias[out] = source
                    continue
                makers[out] = step
            body.append(step)
    outputs = tuple(map_refs(o, follow) for o in program.outputs)
    state = tuple((weight, alias.get(value, value)) for weight, value in program.state)
    return replace(program, body=tuple(body), outputs=outputs, state=state, specs=specs)


def _rewritten(step: Step, producers: dict[str, Step], specs: Specs) -> Iterator[Step]:
    """A Step, joined with the one before where both move; or two in its place."""
    before = producers.get(step.uses[0]) if step.uses else None
    if before is None or step.kernel not in ("ttnn.permute", "ttnn.reshape"):
        yield step
    elif (source := _in_order_from(step, producers, specs)) is not None:
        yield _reshape(step, source, specs)
    elif _is_view(before, specs) and _is_view(step, specs):
        yield _reshape(step, before.uses[0], specs)
    elif step.kernel == before.kernel == "ttnn.permute":
        first, second = _dims(before), _dims(step)
        yield _permute(step, before.uses[0], tuple(first[d] for d in second))
    elif step.kernel == "ttnn.permute" and before.kernel == "ttnn.reshape" and _adds_units(before, specs):
        moved = _before_units(step, before, specs)
        yield moved
        yield _reshape(step, moved.outputs[0], specs)
    else:
        yield step


def _in_order_from(step: Step, producers: dict[str, Step], specs: Specs) -> str | None:
    """The farthest value of which a chain is no more than a reshape."""
    chain: list[Step] = []
    farthest: str | None = None
    above: Step | None = step
    while above is not None and above.kernel in ("ttnn.permute", "ttnn.reshape"):
        chain.insert(0, above)
        source = above.uses[0]
        view: View | None = View.of(specs[source].shape)
        for move in chain:
            view = moved(view, move, specs) if view is not None else None
        if view is None:
            break
        if len(chain) > 1 and view.in_order:
            farthest = source
        above = producers.get(source)
    return farthest


def _before_units(step: Step, before: Step, specs: Specs) -> Step:
    """What a permute does to the dimensions larger than 1, done before a reshape added others."""
    narrow, wide = specs[before.uses[0]], specs[before.outputs[0]].shape
    large = [i for i, size in enumerate(narrow.shape) if size != 1]
    place = dict(zip((i for i, size in enumerate(wide) if size != 1), large, strict=True))
    order = (*(i for i, size in enumerate(narrow.shape) if size == 1), *(place[d] for d in _dims(step) if d in place))
    (out,) = step.outputs
    name = f"{out}.moved"
    specs[name] = replace(specs[out], shape=tuple(narrow.shape[d] for d in order))
    return replace(_permute(step, before.uses[0], order), outputs=(name,))


def _is_view(step: Step, specs: Specs) -> bool:
    """Whether the numbers stay in their order."""
    if step.kernel == "ttnn.reshape":
        return True
    shape = specs[step.uses[0]].shape
    large = [d for d in _dims(step) if shape[d] != 1]
    return large == sorted(large)


def _adds_units(reshape: Step, specs: Specs) -> bool:
    source, out = (specs[name].shape for name in (reshape.uses[0], reshape.outputs[0]))
    return len(out) > len(source) and [n for n in out if n != 1] == [n for n in source if n != 1]


def _reshape(step: Step, source: str, specs: Specs) -> Step:
    shape = specs[step.outputs[0]].shape
    return replace(step, kernel="ttnn.reshape", attrs=(("input_tensor", Ref(source)), ("shape", shape)))


def _permute(step: Step, source: str, dims: tuple[int, ...]) -> Step:
    return replace(step, attrs=(("input_tensor", Ref(source)), ("dims", dims)))


def _dims(permute: Step) -> tuple[int, ...]:
    dims = permute.attr("dims")
    assert isinstance(dims, tuple)
    return dims  # type: ignore[return-value]


def _is_identity(step: Step) -> bool:
    return step.kernel == "ttnn.reshape" or _dims(step) == tuple(range(len(_dims(step))))
