"""Moves Steps that depend on weights and constants alone into `setup`, which runs once.

Of a weight that the body writes to, only the copy on the device is made there.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from proveout.program import FROM_TORCH, Program, Step


def hoist(program: Program) -> Program:
    stable = set(program.fixed)
    copies = {weight for weight, _ in program.state}
    setup, body = list(program.setup), []
    for step in program.body:
        if stable.issuperset(step.uses) and _is_pure(step):
            setup.append(step)
            stable.update(step.outputs)
        elif step.kernel == FROM_TORCH and copies.issuperset(step.uses):
            setup.append(step)
        else:
            body.append(step)
    return replace(program, setup=tuple(setup), body=tuple(body))


def _is_pure(step: Step) -> bool:
    """A host op that draws random numbers or writes must run at every call, and so must one of unknown kind."""
    if not step.on_host:
        return True
    namespace, name, overload = step.kernel.split(".")
    op = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    return (
        bool(step.uses)
        and namespace == "aten"
        and not op._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in op.tags
    )
