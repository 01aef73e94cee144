"""Frees every device tensor after its last use: of the body, and of setup where the body does not read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proveout.program import DEALLOCATE, Program, Ref, Step, refs
from proveout.types import HOST

MAY_SHARE = ("ttnn.reshape",)
"""ttnn may give a reshape its operand's own buffer, so the two are freed together, at the later one's last use."""


def deallocate(program: Program) -> Program:
    freed = freed_after(program)
    body: list[Step] = []
    for index, step in enumerate(program.body):
        body.append(step)
        for name in freed.get(index, ()):
            body.append(Step(DEALLOCATE, (("tensor", Ref(name)),), (), step.origin))
    return replace(program, setup=_setup_without_intermediates(program), body=tuple(body))


def _setup_without_intermediates(program: Program) -> tuple[Step, ...]:
    """Setup frees what only setup reads: a weight before it was transposed, say."""
    read_later = {n for s in program.body for n in s.uses} | {r.name for r in refs(program.outputs)}
    last = {name: i for i, step in enumerate(program.setup) for name in (*step.uses, *step.outputs)}
    shared = {n for s in program.setup if s.kernel in MAY_SHARE for n in (*s.uses, *s.outputs)}
    steps: list[Step] = []
    for index, step in enumerate(program.setup):
        steps.append(step)
        for name in step.uses:
            mine = name in program.specs and program.specs[name].memory != HOST
            if mine and last[name] == index and name not in read_later and name not in shared:
                steps.append(Step(DEALLOCATE, (("tensor", Ref(name)),), (), step.origin))
    return tuple(steps)


def sharing(steps: Sequence[Step]) -> dict[str, str]:
    """Values that may lie in one buffer with others that these Steps make, each with the first of them."""
    made = {name for step in steps for name in step.outputs}
    first: dict[str, str] = {}
    for step in steps:
        if step.kernel in MAY_SHARE and step.uses[0] in made:
            root = first.setdefault(step.uses[0], step.uses[0])
            first.update(dict.fromkeys(step.outputs, root))
    return first


def freed_after(program: Program) -> dict[int, list[str]]:
    """For each position in the body, the device tensors whose buffers are free after that Step."""
    group = sharing(program.body)
    made = {n: group.get(n, n) for s in program.body for n in s.outputs if program.specs[n].memory != HOST}
    last = {g: i for i, step in enumerate(program.body) for n in (*step.uses, *step.outputs) if (g := made.get(n))}
    freed: dict[int, list[str]] = {}
    for name, g in made.items():
        freed.setdefault(last[g], []).append(name)
    return freed
