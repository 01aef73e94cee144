"""A product, the row added to it and the activation after it become one `ttnn.linear`."""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, either_way, fuse, is_plain, is_row
from proveout.kernels.table import kernels
from proveout.program import Program, Ref, Step

GELU = {"ttnn.GeluVariant.Accurate": "gelu", "ttnn.GeluVariant.Tanh": "gelu_tanh"}
"""ttnn's names for exact functions; `gelu_approx` and `sigmoid_approx` are others."""

PACKED = ("bfloat8_b", "bfloat4_b")
"""A weight may be packed; the row beside it need not be."""


def fuse_bias(program: Program, policy: Policy) -> Program:
    """The sum is rounded once instead of twice: ttnn adds the row to the accumulator."""
    return fuse(program, _find_bias, policy)


def fuse_activation(program: Program, policy: Policy) -> Program:
    """ttnn applies it to the rounded result, in a device operation of its own: a call less, the same numbers."""
    return fuse(program, _find_activation, policy)


def _find_bias(body: Body, step: Step) -> Fusion | None:
    if step.kernel != "ttnn.add" or not is_plain(step, "input_tensor_a", "input_tensor_b"):
        return None
    for result, row in either_way(step):
        product = body.maker(result, kind="product")
        if product is None or not isinstance(row, Ref) or not _bare(product):
            continue
        out = body.specs[product.outputs[0]]
        weight = body.spec(product.attr("input_tensor_b"))
        same = body.spec(row).dtype == out.dtype and weight.dtype in (out.dtype, *PACKED)
        # A stack of weights has no bias in ttnn's kernel: it would add it in a second operation.
        if same and len(weight.shape) == 2 and is_row(body.spec(row), out.shape[-1]) and row.name in body.prepared:
            attrs = (*product.attrs, ("bias", row))
            return Fusion((product, step), (Step("ttnn.linear", attrs, step.outputs, step.origin),))
    return None


def _bare(product: Step) -> bool:
    """Without `transpose_a`: with a bias, ttnn 0.81.1 takes the result's rows from the operand as it lies."""
    return is_plain(product, "input_tensor_a", "input_tensor_b", "transpose_b")


def _find_activation(body: Body, step: Step) -> Fusion | None:
    name = "" if step.on_host else kernels()[step.kernel].activation
    if step.kernel == "ttnn.gelu":
        name = GELU.get(str(step.attr("variant")), "")
    product = body.maker(step.attr("input_tensor"), kind="product") if name else None
    if product is None or product.attr("activation") is not None or product.attr("dtype") is not None:
        return None
    attrs = (*product.attrs, ("activation", name))
    return Fusion((product, step), (replace(step, kernel=product.kernel, attrs=attrs),), rounds_alike=True)


FUSIONS = (Listed("products", 1, fuse_bias), Listed("products", 4, fuse_activation))
