"""Rows of several users share their tiles: what works row by row on [users, 1, width] does so on [users, width].

A tile has 32 rows. Of a decoder's [32, 1, 2048], a row for each user, one row in 32 counts, and a norm of it takes as
long as one of 1,024 rows.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.cancel import cancel
from proveout.compiler.program_passes.match import Listed, Policy
from proveout.compiler.program_passes.prune import prune
from proveout.kernels.cost import program_ns, step_times
from proveout.kernels.row import Kind
from proveout.kernels.table import infer, kernels, kind_of, refusal, specs_of
from proveout.program import Program, Ref, Step, with_refs
from proveout.types import TensorSpec

BY_ROW: tuple[Kind, ...] = ("unary", "binary", "cast", "norm")


def fuse_flat(program: Program, policy: Policy) -> Program:
    """All such Steps at once, where that is modelled to be quicker: one alone would pay for its reshapes."""
    if policy.chip is None:
        return program
    specs, body = dict(program.specs), []
    flat_of: dict[str, str] = {}
    for step in program.body:
        body += _flat(step, specs, flat_of) if _is_apart(step, specs) else [step]
    if len(body) == len(program.body):
        return program
    flat = prune(cancel(replace(program, body=tuple(body), specs=specs)))
    after, before = (program_ns(step_times(p, policy.chip, policy.settings), policy.settings) for p in (flat, program))
    return flat if after < before else program


def _is_apart(step: Step, specs: dict[str, TensorSpec]) -> bool:
    """Whether a Step works on rows that have a tile each; others of its operands are one row for all."""
    if step.on_host or kind_of(step) not in BY_ROW or len(step.outputs) != 1:
        return False
    out = specs[step.outputs[0]]
    if len(out.shape) != 3 or out.shape[0] == 1 or out.shape[1] != 1 or out.layout != "tile":
        return False
    others = [specs[name] for name in step.uses if specs[name].shape != out.shape]
    return len(others) < len(step.uses) and all(spec.shape == out.shape[-1:] for spec in others)


def _flat(step: Step, specs: dict[str, TensorSpec], flat_of: dict[str, str]) -> list[Step]:
    """The Step on operands that are reshaped where they are not already, and a reshape of its result for who wants it
    so; as it is where ttnn refuses the Step."""
    (out,) = step.outputs
    shape = specs[out].shape
    moves = []
    for source in dict.fromkeys(step.uses):
        if specs[source].shape == shape and source not in flat_of:
            flat_of[source] = f"{source}.flat"
            specs[flat_of[source]] = replace(specs[source], shape=shape[::2])
            moves.append(_reshape(step, source, flat_of[source], shape[::2]))
    inside = replace(with_refs(step, lambda ref: Ref(flat_of.get(ref.name, ref.name))), outputs=(f"{out}.flat",))
    if refusal(kernels()[step.kernel], specs_of(inside, specs)) is not None:
        return [*moves, step]
    flat_of[out] = f"{out}.flat"
    (specs[flat_of[out]],) = infer(inside, specs)
    return [*moves, inside, _reshape(step, flat_of[out], out, shape)]


def _reshape(like: Step, source: str, name: str, shape: tuple[int, ...]) -> Step:
    return Step("ttnn.reshape", (("input_tensor", Ref(source)), ("shape", shape)), (name,), like.origin)


FUSIONS = (Listed("formulas", 9, fuse_flat),)
