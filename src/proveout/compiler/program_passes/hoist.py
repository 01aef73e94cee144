"""Moves Steps that depend on weights and constants alone into `setup`, which runs once."""

from __future__ import annotations

from dataclasses import replace

from proveout.program import Program


def hoist(program: Program) -> Program:
    """Host Steps stay in the body: one may draw random numbers or read the world."""
    stable = {*program.weights, *(c.name for c in program.constants)}
    setup, body = list(program.setup), []
    for step in program.body:
        if not step.on_host and step.kernel != "ttnn.to_torch" and step.uses and stable.issuperset(step.uses):
            setup.append(step)
            stable.update(step.outputs)
        else:
            body.append(step)
    return replace(program, setup=tuple(setup), body=tuple(body))
