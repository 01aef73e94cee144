"""A product, the row added to it and the activation after it become one `ttnn.linear`."""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.configure_products import INSIDE
from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, either_way, fuse, is_plain, is_row
from proveout.compiler.program_passes.pack_weights import conv_config
from proveout.kernels.table import kernels, kind_of
from proveout.program import Arg, Program, Ref, Step

GELU = {"ttnn.GeluVariant.Accurate": "gelu", "ttnn.GeluVariant.Tanh": "gelu_tanh"}
"""ttnn's names for exact functions; `gelu_approx` and `sigmoid_approx` are others."""

PACKED = ("bfloat8_b", "bfloat4_b")
"""A weight may be packed; the row beside it need not be."""

SUMS = ("ttnn.add", "ttnn.subtract")
"""Kernels that take activations for what they give."""


def fuse_bias(program: Program, policy: Policy) -> Program:
    """The sum is rounded once instead of twice: ttnn adds the row to the accumulator."""
    return fuse(program, _find_bias, policy)


def fuse_activation(program: Program, policy: Policy) -> Program:
    """After a product ttnn applies it to the rounded result, in a device operation of its own: a call less, the same
    numbers. Convolutions and sums apply inside what gives the same before they round as after."""
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
    maker = body.maker(step.attr("input_tensor")) if name else None
    if maker is None or (maker.attr("dtype") is not None and kind_of(maker) != "convolution"):
        return None
    if kind_of(maker) == "product" and maker.attr("activation") is None:
        inside: dict[str, Arg] = {"activation": name}
    elif maker.kernel == "ttnn.conv2d" and name in INSIDE:
        if "activation" in conv_config(maker).by_name:
            return None
        inside = {"conv_config": conv_config(maker, activation=INSIDE[name])}
    elif maker.kernel in SUMS and name in INSIDE and is_plain(maker, "input_tensor_a", "input_tensor_b"):
        inside = {"activations": (INSIDE[name],)}
    else:
        return None
    one = replace(maker.with_attrs(**inside), outputs=step.outputs, origin=step.origin)
    return Fusion((maker, step), (one,), rounds_alike=True)


FUSIONS = (Listed("products", 1, fuse_bias), Listed("products", 4, fuse_activation))
