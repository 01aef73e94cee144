"""Several products of one value with weights side by side: the weights are joined once, in setup, and one product does.

Where queries, keys and values are then cut into heads, ttnn cuts them all in one call; elsewhere slices do it, and they
cost more than small products save: the modelled time decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse, is_plain
from proveout.kernels.table import kind_of
from proveout.program import Arg, Program, Ref, Step
from proveout.types import TILE

APART, APART_TRANSPOSED = (0, 2, 1, 3), (0, 2, 3, 1)
"""[batch, length, heads, size] with the heads in front; the second as a key is needed for a product with queries."""


def fuse_heads(program: Program, policy: Policy) -> Program:
    return fuse(program, _find_heads, policy)


def fuse_products(program: Program, policy: Policy) -> Program:
    return fuse(program, _find_products, policy)


@dataclass(frozen=True)
class Heads:
    """Queries, keys or values, and the two Steps that cut them into heads."""

    rows: Step
    view: Step
    turn: Step
    shape: tuple[int, ...]
    """[batch, length, heads, size]"""

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.rows, self.view, self.turn

    @property
    def is_transposed(self) -> bool:
        return self.turn.attr("dims") == APART_TRANSPOSED


def _find_heads(body: Body, step: Step) -> Fusion | None:
    if step.kernel == "ttnn.slice":
        return _cut_from_one(body, step)
    found = [h for s in _siblings(body, step) if (h := _heads(body, s)) is not None]
    if len(found) != 3:
        return None
    found.sort(key=lambda h: -h.shape[2])  # queries first: they may have more heads
    for other in (0, 2):  # and the kernel transposes what stands in the middle
        if found[other].is_transposed and found[other].shape == found[1].shape:
            found[other], found[1] = found[1], found[other]
    joined, setup, whole = _joined(body, tuple(h.rows for h in found))
    rows = body.fresh(f"{whole}.rows")
    split = _split(body, Ref(rows), found)
    if split is None:
        return None
    shape = (*found[0].shape[:2], sum(_width(body, h.rows) for h in found))
    view = Step("ttnn.reshape", (("input_tensor", Ref(whole)), ("shape", shape)), (rows,), joined.origin)
    return Fusion(tuple(s for h in found for s in h.steps), (joined, view, split), setup, rounds_alike=True)


def _cut_from_one(body: Body, step: Step) -> Fusion | None:
    """Slices of one product, as models write it whose weights are joined already."""
    source = step.attr("input_tensor")
    assert isinstance(source, Ref)
    slices = [s for s in body.readers(source.name) if s.kernel == "ttnn.slice"]
    shape = body.spec(source).shape
    if len(slices) != 3 or len(shape) != 3 or step is not slices[0]:
        return None
    slices.sort(key=lambda s: tuple(s.attr("slice_start")))  # type: ignore[arg-type]
    start = 0
    for part in slices:
        end = start + _width(body, part)
        bounds = part.attr("slice_start"), part.attr("slice_end")
        if bounds != ((0, 0, start), (*shape[:2], end)) or part.attr("slice_step") not in (None, (1, 1, 1)):
            return None
        start = end
    found = [h for s in slices if (h := _heads(body, s)) is not None]
    split = _split(body, source, found) if len(found) == 3 and start == shape[-1] else None
    return Fusion(tuple(s for h in found for s in h.steps), (split,), rounds_alike=True) if split else None


def _split(body: Body, rows: Ref, cuts: list[Heads]) -> Step | None:
    """The one call that cuts queries, keys and values, in this order."""
    query, key, value = cuts
    batch, length, heads, size = query.shape
    shared = key.shape[2]
    if query.is_transposed or value.is_transposed or not key.shape == value.shape == (batch, length, shared, size):
        return None
    attrs: dict[str, Arg] = {"input_tensor": rows, "num_heads": heads, "transpose_key": key.is_transposed}
    if shared != heads:
        attrs["num_kv_heads"] = shared
    last = max((h.turn for h in cuts), key=lambda turn: body.position(turn.outputs[0]))
    kernel = "ttnn.transformer.split_query_key_value_and_split_heads"
    return Step(kernel, tuple(attrs.items()), tuple(h.turn.outputs[0] for h in cuts), last.origin)


def _find_products(body: Body, step: Step) -> Fusion | None:
    products = tuple(_siblings(body, step))
    if len(products) < 2 or products[-1] is not step or any(_width(body, p) % TILE for p in products):
        return None
    joined, setup, whole = _joined(body, products)
    out = body.specs[step.outputs[0]].shape
    slices, start = [], 0
    for product in products:
        end = start + _width(body, product)
        attrs: tuple[tuple[str, Arg], ...] = (
            ("input_tensor", Ref(whole)),
            ("slice_start", (*(0 for _ in out[:-1]), start)),
            ("slice_end", (*out[:-1], end)),
        )
        slices.append(Step("ttnn.slice", attrs, product.outputs, product.origin))
        start = end
    return Fusion(products, (joined, *slices), setup, rounds_alike=True)


def _siblings(body: Body, step: Step) -> list[Step]:
    """The products of one value with prepared weights, of one kind, this one among them; in order."""
    if not _is_plain_product(body, step):
        return []
    x = step.attr("input_tensor_a")
    assert isinstance(x, Ref)
    kind = {k for k, _ in step.attrs}
    return [
        s
        for s in body.readers(x.name)
        if s.kernel == step.kernel
        and _is_plain_product(body, s)
        and s.attr("input_tensor_a") == x
        and {k for k, _ in s.attrs} == kind
    ]


def _is_plain_product(body: Body, step: Step) -> bool:
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


def _heads(body: Body, rows: Step) -> Heads | None:
    readers = body.readers(rows.outputs[0])
    view = readers[0] if len(readers) == 1 and readers[0].kernel == "ttnn.reshape" else None
    turns = body.readers(view.outputs[0]) if view else []
    if view is None or len(turns) != 1 or turns[0].kernel != "ttnn.permute":
        return None
    shape = body.specs[view.outputs[0]].shape
    turned = turns[0].attr("dims") in (APART, APART_TRANSPOSED)
    if len(shape) != 4 or not turned or shape[2] * shape[3] != _width(body, rows):
        return None
    return Heads(rows, view, turns[0], shape)


def _joined(body: Body, products: tuple[Step, ...]) -> tuple[Step, tuple[Step, ...], str]:
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


def _width(body: Body, step: Step) -> int:
    return body.specs[step.outputs[0]].shape[-1]


FUSIONS = (Listed("products", 2, fuse_heads), Listed("products", 3, fuse_products))
