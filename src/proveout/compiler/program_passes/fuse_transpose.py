"""A product with a transposed operand: the matmul kernel reads it transposed, and the permute goes."""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse
from proveout.kernels.table import kind_of
from proveout.program import Program, Ref, Step


def fuse_transpose(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    if kind_of(step) != "product":
        return None
    biased = step.attr("bias") is not None  # ttnn 0.81.1 then takes the result's rows from operand a as it lies
    for side in "b" if biased else "ab":
        operand = step.attr(f"input_tensor_{side}")
        turn = body.maker(operand, "ttnn.permute")
        if turn is None or not swaps_last_two(turn.attr("dims")) or body.readers(turn.outputs[0]) != [step]:
            continue
        attrs = dict(step.attrs)
        if any(v == operand for k, v in attrs.items() if k != f"input_tensor_{side}"):
            continue
        attrs[f"input_tensor_{side}"] = Ref(turn.uses[0])
        if not attrs.pop(f"transpose_{side}", False):
            attrs[f"transpose_{side}"] = True
        return Fusion((turn, step), (replace(step, attrs=tuple(attrs.items())),), rounds_alike=True)
    return None


def swaps_last_two(dims: object) -> bool:
    """Whether a permutation exchanges the last two dimensions and nothing else."""
    if not isinstance(dims, tuple) or len(dims) < 2:
        return False
    rank = len(dims)
    return dims == (*range(rank - 2), rank - 1, rank - 2)


FUSIONS = (Listed("products", 5, fuse_transpose),)
