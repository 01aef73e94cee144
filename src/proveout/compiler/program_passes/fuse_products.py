"""Several products of one value with weights side by side: the weights are joined once, in setup, and one product does.

Slices cut its result, and they cost more than small products save: the modelled time decides. Queries, keys and values
are cut by `fuse_heads`, in one call.
"""

from __future__ import annotations

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse, is_plain
from proveout.kernels.table import kind_of
from proveout.program import Arg, Program, Ref, Step
from proveout.types import TILE


def fuse_products(program: Program, policy: Policy) -> Program:
    return fuse(program, _find_products, policy)


def _find_products(body: Body, step: Step) -> Fusion | None:
    products = tuple(siblings(body, step))
    if len(products) < 2 or products[-1] is not step or any(width_of(body, p) % TILE for p in products):
        return None
    joined, setup, whole = joined_product(body, products)
    out = body.specs[step.outputs[0]].shape
    slices, start = [], 0
    for product in products:
        end = start + width_of(body, product)
        attrs: tuple[tuple[str, Arg], ...] = (
            ("input_tensor", Ref(whole)),
            ("slice_start", (*(0 for _ in out[:-1]), start)),
            ("slice_end", (*out[:-1], end)),
        )
        slices.append(Step("ttnn.slice", attrs, product.outputs, product.origin))
        start = end
    return Fusion(products, (joined, *slices), setup, rounds_alike=True)


def siblings(body: Body, step: Step) -> list[Step]:
    """The products of one value with prepared weights, of one kind, this one among them; in order."""
    if not is_plain_product(body, step):
        return []
    x = step.attr("input_tensor_a")
    assert isinstance(x, Ref)
    kind = {k for k, _ in step.attrs}
    return [
        s
        for s in body.readers(x.name)
        if s.kernel == step.kernel
        and is_plain_product(body, s)
        and s.attr("input_tensor_a") == x
        and {k for k, _ in s.attrs} == kind
    ]


def is_plain_product(body: Body, step: Step) -> bool:
    if kind_of(step) != "product":
        return False
    if not is_plain(step, "input_tensor_a", "input_tensor_b", "bias"):
        return False
    weight, bias = step.attr("input_tensor_b"), step.attr("bias")
    prepared = [r for r in (weight, bias) if isinstance(r, Ref)]
    return (
        all(r.name in body.prepared for r in prepared)
        and len(body.spec(weight).shape) == 2
        and (bias is None or len(body.spec(bias).shape) == 1)
    )


def joined_product(body: Body, products: tuple[Step, ...]) -> tuple[Step, tuple[Step, ...], str]:
    """One product for all, the Steps that join weights and biases in setup, and the name of its result."""
    first = products[0]
    whole = body.fresh(f"{first.outputs[0]}.joined")
    attrs: dict[str, Arg] = {"input_tensor_a": first.attr("input_tensor_a")}
    setup = []
    for key, dim in (("input_tensor_b", 1), ("bias", 0)):
        if first.attr(key) is None:
            continue
        name = body.fresh(f"{whole}.{key}")
        tensors = tuple(p.attr(key) for p in products)
        setup.append(Step("ttnn.concat", (("tensors", tensors), ("dim", dim)), (name,), first.origin))
        attrs[key] = Ref(name)
    return Step(first.kernel, tuple(attrs.items()), (whole,), first.origin), tuple(setup), whole


def width_of(body: Body, step: Step) -> int:
    return body.specs[step.outputs[0]].shape[-1]


FUSIONS = (Listed("products", 3, fuse_products),)
