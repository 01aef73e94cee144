"""Makes what a call leaves in a state the same kind of tensor that the next call reads: its dtype, layout and place.

Where that cannot be, the weight is sent at every call, as an input is; nothing may move its copy to `setup` afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.kernels.table import LAYOUT_NAMES
from proveout.program import FROM_TORCH, Program, Ref, Step
from proveout.types import HOST


def settle_state(program: Program) -> Program:
    """The Program with every state that can be one, converted at the end of the body where need be."""
    specs = dict(program.specs)
    state: list[tuple[str, str]] = []
    sent: list[Step] = []
    converted: list[Step] = []
    on_device = {n for s in program.steps if not s.on_host for n in s.outputs if specs[n].memory != HOST}
    for weight, value in program.state:
        copies = [s for s in program.setup if s.kernel == FROM_TORCH and s.uses == (weight,)]
        wanted = specs[copies[0].outputs[0]] if len(copies) == 1 else None
        if wanted is None or value not in on_device or replace(specs[value], layout=wanted.layout) != wanted:
            sent += copies
            continue
        if specs[value] != wanted:
            attrs = (("tensor", Ref(value)), ("layout", LAYOUT_NAMES[wanted.layout]))
            converted.append(Step("ttnn.to_layout", attrs, (f"{value}.kept",)))
            value = converted[-1].outputs[0]
            specs[value] = wanted
        state.append((weight, value))
    setup = tuple(s for s in program.setup if s not in sent)
    return replace(program, setup=setup, body=(*sent, *program.body, *converted), specs=specs, state=tuple(state))


def without_state(program: Program) -> Program:
    """The same with nothing kept between calls: each weight that the body writes to is sent before its first use."""
    written = {weight for weight, _ in program.state}
    copies = {s.outputs[0]: s for s in program.setup if not written.isdisjoint(s.uses)}
    body: list[Step] = []
    for step in program.body:
        body += [copies.pop(name) for name in step.uses if name in copies]
        body.append(step)
    setup = tuple(s for s in program.setup if written.isdisjoint(s.uses))
    return replace(program, setup=setup, body=tuple(body), state=())
