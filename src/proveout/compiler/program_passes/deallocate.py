"""Frees every device tensor of the body after its last use."""

from __future__ import annotations

from dataclasses import replace

from proveout.program import DEALLOCATE, Program, Ref, Step
from proveout.types import HOST

MAY_SHARE = ("ttnn.reshape",)
"""ttnn may give a reshape its operand's own buffer, so the two are freed together, at the later one's last use."""


def deallocate(program: Program) -> Program:
    group: dict[str, str] = {}
    for step in program.body:
        for name in step.outputs:
            group[name] = group.get(step.uses[0], name) if step.kernel in MAY_SHARE else name
    made = {n: g for n, g in group.items() if program.specs[n].memory != HOST}
    last = {g: i for i, step in enumerate(program.body) for n in (*step.uses, *step.outputs) if (g := made.get(n))}
    body: list[Step] = []
    for index, step in enumerate(program.body):
        body.append(step)
        for name in [n for n, g in made.items() if last[g] == index]:
            body.append(Step(DEALLOCATE, (("tensor", Ref(name)),), (), step.origin))
    return replace(program, body=tuple(body))
