"""A chain of moves becomes the fewest that do the same: often one reshape, sometimes nothing.

`cancel` does so for neighbours in one layout; here a chain may pass a conversion to rows and back.
"""

from __future__ import annotations

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse
from proveout.compiler.program_passes.views import MOVES, Emit, chain_to, unread_but_here
from proveout.program import Program, Ref, Step


def fuse_moves(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    readers = body.readers(step.outputs[0]) if step.outputs else []
    if step.kernel not in MOVES or (readers and all(r.kernel in MOVES for r in readers)):
        return None
    chain = chain_to(body, step.outputs[0])
    source = body.specs[chain.source]
    if not chain.view.is_whole or source.layout != body.specs[step.outputs[0]].layout:
        return None
    new = Emit(body, step)
    new.move(Ref(chain.source), source.shape, chain.view, f"{step.outputs[0]}.moved")
    if not new.steps or len(new.steps) >= len(chain.steps):
        return None
    removed = (*unread_but_here(body, chain.steps[:-1], step), step)
    return Fusion(removed, new.named(step.outputs), rounds_alike=True)


FUSIONS = (Listed("products", 0.5, fuse_moves),)
