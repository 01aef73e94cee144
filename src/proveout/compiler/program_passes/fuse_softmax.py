"""softmax(x · scale + mask) becomes one `ttnn.scale_mask_softmax`, for the masks that it takes: one row a batch."""

from __future__ import annotations

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, either_way, fuse, is_plain, number
from proveout.program import Arg, Program, Ref, Step


def fuse_softmax(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    if step.kernel != "ttnn.softmax":
        return None
    rank = len(body.specs[step.outputs[0]].shape)
    total = body.maker(step.attr("input_tensor"), "ttnn.add") if step.attr("dim") in (rank - 1, -1) else None
    if total is None or not is_plain(total, "input_tensor_a", "input_tensor_b"):
        return None
    for x, mask in either_way(total):
        if not isinstance(x, Ref) or not isinstance(mask, Ref):
            continue
        if body.spec(x).shape != body.specs[step.outputs[0]].shape:
            continue
        attrs: dict[str, Arg] = {"input_tensor": x, "mask": mask}
        scaled = body.maker(x, "ttnn.multiply", "ttnn.div")
        value = number(scaled) if scaled is not None else None
        removed: tuple[Step, ...] = (total, step)
        if scaled is not None and value and body.readers(scaled.outputs[0]) == [total]:
            attrs["input_tensor"] = scaled.attr("input_tensor_a")
            attrs["scale"] = value if scaled.kernel == "ttnn.multiply" else 1 / value
            removed = (scaled, *removed)
        if body.spec(mask).shape == body.spec(x).shape:
            continue
        return Fusion(removed, (Step("ttnn.scale_mask_softmax", tuple(attrs.items()), step.outputs, step.origin),))
    return None


FUSIONS = (Listed("formulas", 5, fuse_softmax),)
