"""Joins chains of permutes and of reshapes, and drops those that change nothing."""

from __future__ import annotations

from dataclasses import replace

from proveout.program import Arg, Program, Ref, Step, map_refs, with_refs


def cancel(program: Program) -> Program:
    made: dict[str, Step] = {}
    alias: dict[str, str] = {}

    def follow(ref: Ref) -> Arg:
        return Ref(alias.get(ref.name, ref.name))

    body = []
    for original in program.body:
        step = with_refs(original, follow)
        if step.kernel in ("ttnn.permute", "ttnn.reshape"):
            step = _join(step, made)
            (source,), (out,) = step.uses, step.outputs
            if program.specs[source] == program.specs[out] and _is_identity(step):
                alias[out] = source
                continue
            made[out] = step
        body.append(step)
    outputs = tuple(map_refs(o, follow) for o in program.outputs)
    state = tuple((weight, alias.get(value, value)) for weight, value in program.state)
    return replace(program, body=tuple(body), outputs=outputs, state=state)


def _join(step: Step, made: dict[str, Step]) -> Step:
    before = made.get(step.uses[0])
    if before is None or before.kernel != step.kernel:
        return step
    attrs = dict(step.attrs)
    attrs["input_tensor"] = Ref(before.uses[0])
    if step.kernel == "ttnn.permute":
        first, second = before.attr("dims"), step.attr("dims")
        assert isinstance(first, tuple)
        assert isinstance(second, tuple)
        attrs["dims"] = tuple(first[d] for d in second)  # type: ignore[index]
    return replace(step, attrs=tuple(attrs.items()))


def _is_identity(step: Step) -> bool:
    dims = step.attr("dims")
    return not isinstance(dims, tuple) or dims == tuple(range(len(dims)))
