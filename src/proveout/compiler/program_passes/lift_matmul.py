"""A batched product in the shape that the model wrote: `torch.matmul` of four dimensions comes as a view, a product of
three and a view back, and ttnn multiplies four by itself."""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.match import Body, Fusion, Policy, fuse
from proveout.program import Arg, Program, Ref, Step


def lift_matmul(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    product = body.maker(step.attr("input_tensor"), "ttnn.matmul") if step.kernel == "ttnn.reshape" else None
    if product is None:
        return None
    shape = body.specs[step.outputs[0]].shape
    removed: list[Step] = []
    operands: dict[str, Arg] = {}
    for key in ("input_tensor_a", "input_tensor_b"):
        flat = product.attr(key)
        view = body.maker(flat, "ttnn.reshape")
        if view is None:
            return None
        source = Ref(view.uses[0])
        wide, narrow = body.spec(source).shape, body.spec(flat).shape
        if len(narrow) != 3 or len(shape) != 4 or wide[:-2] != shape[:-2] or wide[-2:] != narrow[-2:]:
            return None
        operands[key] = source
        if body.readers(view.outputs[0]) == [product] and view not in removed:
            removed.append(view)
    if shape[-2:] != body.specs[product.outputs[0]].shape[-2:]:
        return None
    attrs = tuple((k, operands.get(k, v)) for k, v in product.attrs)
    lifted = replace(product, attrs=attrs, outputs=step.outputs, origin=step.origin)
    return Fusion((*removed, product, step), (lifted,), rounds_alike=True)
