"""x · cos + rotate_half(x) · sin becomes ttnn's rotary embedding in Hugging Face's form."""

from __future__ import annotations

from dataclasses import dataclass

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, either_way, fuse, is_plain
from proveout.program import Arg, Program, Ref, Step

OPERANDS = ("input_tensor_a", "input_tensor_b")


def fuse_rotary(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


@dataclass(frozen=True)
class Rotation:
    """x · cos + rotate_half(x) · sin, and the Steps that say it."""

    x: Ref
    cos: Ref
    sin: Ref
    steps: tuple[Step, ...]


def _find(body: Body, step: Step) -> Fusion | None:
    """Products and sum are rounded one by one in the kernel too: its buffers between them have the operand's dtype."""
    found = rotation_in(body, step)
    if found is None:
        return None
    attrs: tuple[tuple[str, Arg], ...] = (
        ("input_tensor", found.x),
        ("cos_cache", found.cos),
        ("sin_cache", found.sin),
    )
    whole = Step("ttnn.experimental.rotary_embedding_hf", attrs, step.outputs, step.origin)
    return Fusion(found.steps, (whole,), rounds_alike=True)


def rotation_in(body: Body, step: Step) -> Rotation | None:
    """The rotation that ends in this Step."""
    if step.kernel != "ttnn.add" or not is_plain(step, *OPERANDS):
        return None
    for kept, turned in either_way(step):
        straight, crossed = body.maker(kept, "ttnn.multiply"), body.maker(turned, "ttnn.multiply")
        if straight is None or crossed is None or not (is_plain(straight, *OPERANDS) and is_plain(crossed, *OPERANDS)):
            continue
        for half, sin in either_way(crossed):
            rotated = _rotate_half(body, half)
            if rotated is None or not isinstance(sin, Ref):
                continue
            x, inner = rotated
            cos = next((b for a, b in either_way(straight) if a == x and isinstance(b, Ref)), None)
            if cos is not None:
                return Rotation(x, cos, sin, (*inner, straight, crossed, step))
    return None


def _rotate_half(body: Body, arg: Arg) -> tuple[Ref, tuple[Step, ...]] | None:
    """concat(-x[…, half:], x[…, :half]): the value x and the Steps."""
    joined = body.maker(arg, "ttnn.concat")
    parts = joined.attr("tensors") if joined else None
    if joined is None or not isinstance(parts, tuple) or len(parts) != 2:
        return None
    minus = body.maker(parts[0], "ttnn.neg")
    upper = body.maker(minus.attr("input_tensor"), "ttnn.slice") if minus else None
    lower = body.maker(parts[1], "ttnn.slice")
    if minus is None or upper is None or lower is None or upper.uses != lower.uses:
        return None
    x = Ref(lower.uses[0])
    shape = body.spec(x).shape
    rank, half = len(shape), shape[-1] // 2
    if shape[-1] % 2 or joined.attr("dim") not in (rank - 1, -1):
        return None
    lead = (0,) * (rank - 1)
    if not (_cuts(lower, (*lead, 0), (*shape[:-1], half)) and _cuts(upper, (*lead, half), shape)):
        return None
    return x, (lower, upper, minus, joined)


def _cuts(step: Step, start: tuple[int, ...], end: tuple[int, ...]) -> bool:
    steps = step.attr("slice_step")
    whole = steps is None or (isinstance(steps, tuple) and all(s == 1 for s in steps))
    return whole and step.attr("slice_start") == start and step.attr("slice_end") == end


FUSIONS = (Listed("formulas", 3, fuse_rotary),)
