"""Drops Steps whose results nobody reads, and constants and specs that no Step uses."""

from __future__ import annotations

from dataclasses import replace

from proveout.program import Program, Step


def prune(program: Program) -> Program:
    needed = set(program.results)

    def sweep(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        kept = []
        for step in reversed(steps):
            if not step.outputs or step.on_host or needed.intersection(step.outputs):
                kept.append(step)
                needed.update(step.uses)
        return tuple(reversed(kept))

    body = sweep(program.body)
    setup = sweep(program.setup)
    defined = {n for s in setup + body for n in s.outputs} | {*program.inputs, *program.weights}
    constants = tuple(c for c in program.constants if c.name in needed)
    defined |= {c.name for c in constants}
    specs = {n: s for n, s in program.specs.items() if n in defined}
    return replace(program, setup=setup, body=body, constants=constants, specs=specs)
