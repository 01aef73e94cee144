"""Frees every device tensor after its last use: of the body, and of setup where the body does not read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from proveout.kernels.table import kernels
from proveout.program import DEALLOCATE, Program, Ref, Step
from proveout.types import HOST, TensorSpec


def deallocate(program: Program) -> Program:
    read_later = {n for s in program.body for n in s.uses} | program.results
    setup = _with_deallocations(program.setup, freed_after(program.setup, program.specs, keep=read_later))
    body = _with_deallocations(program.body, freed_after(program.body, program.specs, keep=program.results))
    return replace(program, setup=setup, body=body)


def _with_deallocations(steps: Sequence[Step], freed: Mapping[int, Sequence[str]]) -> tuple[Step, ...]:
    out: list[Step] = []
    for index, step in enumerate(steps):
        out.append(step)
        out += [Step(DEALLOCATE, (("tensor", Ref(name)),), (), step.origin) for name in freed.get(index, ())]
    return tuple(out)


def sharing(steps: Sequence[Step]) -> dict[str, str]:
    """Values that may lie in one buffer with others that these Steps make, each with the first of them: they are freed
    together, at the last use of any."""
    computed = {name for step in steps for name in step.outputs}
    first: dict[str, str] = {}
    for step in steps:
        if not step.on_host and kernels()[step.kernel].shares_buffer and step.uses[0] in computed:
            root = first.setdefault(step.uses[0], step.uses[0])
            first.update(dict.fromkeys(step.outputs, root))
    return first


def freed_after(
    steps: Sequence[Step], specs: Mapping[str, TensorSpec], keep: Collection[str] = ()
) -> dict[int, list[str]]:
    """For each position, the device tensors that these Steps make whose buffers are free after that Step."""
    group = sharing(steps)
    kept = {group.get(n, n) for n in keep}
    owners = {n: group.get(n, n) for s in steps for n in s.outputs if specs[n].memory != HOST}
    last = {g: i for i, step in enumerate(steps) for n in (*step.uses, *step.outputs) if (g := owners.get(n))}
    freed: dict[int, list[str]] = {}
    for name, g in owners.items():
        if g not in kept:
            freed.setdefault(last[g], []).append(name)
    return freed
