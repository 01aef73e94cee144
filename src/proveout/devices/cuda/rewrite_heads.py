"""What lies between a product and attention: turning queries and keys by their positions (rotary embeddings), which
attention does while it reads them, and views of the product's columns that no strides can say, for which the weights'
columns are put into the order that attention reads them in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from proveout.devices.cuda.body import Body, is_view, permute, reshape
from proveout.devices.cuda.rewrite_products import COLUMNS, is_product
from proveout.program import Arg, Ref, Step

ATTENTION = "proveout.attention.default"
HEADS_FIRST = (0, 2, 1, 3)


def tidy_heads(body: Body) -> None:
    for step in body.steps:
        if step.kernel == ATTENTION:
            _take_in_rotary(body, step)
    body.drop_unread()
    for step in body.steps:
        if step.kernel == ATTENTION:
            _order_columns(body, step)


# --- rotary embeddings --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rotary:
    """`source` turned: x cos + partner(x) sin over its first elements, the partner by `turn` (as in `ops.turned`)."""

    source: Ref
    cos: Ref
    sin: Ref
    turn: str
    heads_first: bool
    """Whether the source has its heads before its rows."""


def _take_in_rotary(body: Body, step: Step) -> None:
    q, k = (_rotary(body, step.attr(name)) for name in "qk")
    same = q is not None and k is not None and (q.cos, q.sin, q.turn) == (k.cos, k.sin, k.turn)
    if q is None or k is None or not same or step.attr("cos") is not None:
        return
    length, angles = body.spec(step.attr("q")).shape[2], body.spec(q.cos).shape[-1]
    depth = body.spec(step.attr("q")).shape[3]
    apart = q.turn == "halves" and (
        angles != depth or depth & (depth - 1)
    )  # halves that a kernel cannot cut a head into
    if apart or body.spec(step.attr("k")).shape[2] != length:
        return
    attrs, steps = dict(step.attrs), list[Step]()
    for name, rotary in (("q", q), ("k", k)):
        attrs[name] = rotary.source
        if not rotary.heads_first:
            spec = body.spec(step.attr(name))
            heads = body.fresh(f"{rotary.source.name}.heads", spec.shape, spec.dtype)
            steps.append(permute(rotary.source, HEADS_FIRST, heads))
            attrs[name] = Ref(heads)
    for name, table in (("cos", q.cos), ("sin", q.sin)):
        rows = body.fresh(f"{table.name}.table", (length, angles), body.spec(table).dtype)
        view = reshape(table, (length, angles), rows)
        body.prepare(view) if body.is_prepared(table) else steps.append(view)
        attrs[name] = Ref(rows)
    whole = step.with_attrs(**(attrs | {"turn": q.turn}))
    body.substitute([step], [*steps, whole], step.outputs[0])


def _rotary(body: Body, arg: Arg) -> Rotary | None:
    turned = body.maker(arg, "ttnn.permute")
    inner = arg if turned is None else turned.attr("input_tensor")
    if turned is not None and turned.attr("dims") != HEADS_FIRST:
        return None
    whole, rest = body.maker(inner, "ttnn.concat"), None
    if whole is not None:
        parts = whole.attr("tensors")
        if not isinstance(parts, tuple) or len(parts) != 2 or not _is_last(body, whole):
            return None
        inner, rest = parts
    total = body.maker(inner, "ttnn.add")
    if total is None:
        return None
    for plain, other in (("input_tensor_a", "input_tensor_b"), ("input_tensor_b", "input_tensor_a")):
        straight, crossed = (_times_table(body, total.attr(x), turned is None) for x in (plain, other))
        if straight is None or crossed is None:
            continue
        (x, cos), (partner, sin) = straight, crossed
        turn = _turn(body, partner, x)
        if turn is None:
            continue
        source = x
        if rest is not None:  # the first part of each head is turned
            angles = body.spec(x).shape[-1]
            source, *part = _cut(body, x)
            if part != [0, angles, 1] or _cut(body, rest) != (source, angles, body.spec(source).shape[-1], 1):
                return None
        return Rotary(source, cos, sin, turn, turned is None) if isinstance(source, Ref) else None
    return None


def _times_table(body: Body, arg: Arg, heads_first: bool) -> tuple[Arg, Ref] | None:
    """x and the table it is multiplied with, which is the same for all heads."""
    step = body.maker(arg, "ttnn.multiply")
    if step is None:
        return None
    a, b = step.attr("input_tensor_a"), step.attr("input_tensor_b")
    if not isinstance(a, Ref) or not isinstance(b, Ref):
        return None
    x, table = (a, b) if body.spec(a).numel >= body.spec(b).numel else (b, a)
    shape, whole = body.spec(table).shape, body.spec(x).shape
    if len(whole) != 4:
        return None
    rows = (1, 1, *whole[2:]) if heads_first else (1, whole[1], 1, whole[3])
    return (x, table) if shape == rows else None


def _turn(body: Body, partner: Arg, x: Arg) -> str | None:
    """How each element's partner is found: (-x1, x0) of pairs, or (-second half, first half)."""
    view = body.maker(partner, "ttnn.reshape")
    joined = body.maker(partner if view is None else view.attr("input_tensor"), "ttnn.concat")
    parts = None if joined is None else joined.attr("tensors")
    if joined is None or not isinstance(parts, tuple) or len(parts) != 2 or not _is_last(body, joined):
        return None
    low, high = ((_unsqueezed(body, part) if view is not None else part) for part in parts)
    negated = body.maker(low, "ttnn.neg")
    if negated is None:
        return None
    angles = body.spec(x).shape[-1]
    cuts = _cut(body, negated.attr("input_tensor")), _cut(body, high)
    if view is not None:
        return "pairs" if cuts == ((x, 1, angles, 2), (x, 0, angles, 2)) else None
    return "halves" if cuts == ((x, angles // 2, angles, 1), (x, 0, angles // 2, 1)) else None


def _unsqueezed(body: Body, arg: Arg) -> Arg:
    step = body.maker(arg, "ttnn.reshape")
    if step is not None and body.spec(arg).shape == (*body.spec(step.attr("input_tensor")).shape, 1):
        return step.attr("input_tensor")
    return None


def _is_last(body: Body, concat: Step) -> bool:
    return concat.attr("dim") in (-1, len(body.specs[concat.outputs[0]].shape) - 1)


def _cut(body: Body, arg: Arg) -> tuple[Arg, int, int, int]:
    """A value as a part of another's last dimension: that one, start, end and step."""
    step = body.maker(arg, "ttnn.slice")
    if step is not None:
        source = step.attr("input_tensor")
        *others, last = bounds(body, step)
        if all(bound == (0, size, 1) for bound, size in zip(others, body.spec(source).shape)):
            return source, *last
    return arg, 0, body.spec(arg).shape[-1] if isinstance(arg, Ref) else 0, 1


def bounds(body: Body, cut: Step) -> list[tuple[int, int, int]]:
    """Start, end and step of each dimension of a slice."""
    starts, ends = (cut.attr(name) for name in ("slice_start", "slice_end"))
    assert isinstance(starts, tuple)
    steps = cut.attr("slice_step") or (1,) * len(starts)
    return list(zip(starts, ends, steps))  # type: ignore[arg-type]


# --- the order of a product's columns -----------------------------------------------------------------------------


def _order_columns(body: Body, step: Step) -> None:
    """Where queries, keys and values are views of one product that no strides can say, its columns are put into order,
    so that each is a slice."""
    chains = [_chain(body, step.attr(name)) for name in "qkv"]
    if any(chain is None for chain in chains):
        return
    (product, q_views), (_, k_views), (_, v_views) = chains  # type: ignore[misc]
    views = {id(s): s for s in (*q_views, *k_views, *v_views)}
    makers = {id(chain[0]) for chain in chains if chain is not None}
    if len(makers) > 1 or any(
        id(reader) not in views and reader is not step
        for maker in (product, *views.values())
        for reader in body.readers(maker.outputs[0])
    ):
        return
    columns = [_columns(body, product, chain) for chain in (q_views, k_views, v_views)]
    if any(c is None for c in columns):
        return
    order = torch.cat([c for c in columns if c is not None])
    width = body.specs[product.outputs[0]].shape[-1]
    straight = all(bool((c.diff() == 1).all()) for c in columns if c is not None)
    if straight or not torch.equal(order.sort().values, torch.arange(width)):
        return
    dtype = body.specs[product.outputs[0]].dtype
    whole = body.fresh(f"{product.outputs[0]}.ordered", body.specs[product.outputs[0]].shape, dtype)
    attrs = {k: v for k, v in product.attrs if k not in ("input_tensor_b", "bias")}
    attrs |= {"input_tensor_b": _ordered(body, product.attr("input_tensor_b"), order)}
    if product.attr("bias") is not None:
        attrs |= {"bias": _ordered(body, product.attr("bias"), order)}
    body.substitute([product], [replace(product, attrs=tuple(attrs.items()), outputs=(whole,))], product.outputs[0])
    steps, parts, start = list[Step](), dict(step.attrs), 0
    rows = body.specs[whole].shape[:-1]
    for name in "qkv":
        batch, heads, length, depth = body.spec(step.attr(name)).shape
        count = heads * depth
        flat = body.fresh(f"{whole}.{name}", (*rows, count), dtype)
        split = body.fresh(f"{flat}.split", (batch, length, heads, depth), dtype)
        turned = body.fresh(f"{flat}.heads", (batch, heads, length, depth), dtype)
        bounds: dict[str, Arg] = {"slice_start": (*(0 for _ in rows), start), "slice_end": (*rows, start + count)}
        steps.append(Step("ttnn.slice", (("input_tensor", Ref(whole)), *bounds.items()), (flat,)))
        steps.append(reshape(Ref(flat), (batch, length, heads, depth), split))
        steps.append(permute(Ref(split), HEADS_FIRST, turned))
        parts[name] = Ref(turned)
        start += count
    body.substitute([step, *views.values()], [*steps, replace(step, attrs=tuple(parts.items()))], step.outputs[0])


def _chain(body: Body, arg: Arg) -> tuple[Step, list[Step]] | None:
    """The product that a value is a view of, and the views from it to the value."""
    views: list[Step] = []
    while True:
        step = body.maker(arg)
        if step is None:
            return None
        if is_product(body, step):
            return step, views[::-1]
        if not is_view(step) or step.outputs[0] in body.results:
            return None
        views.append(step)
        arg = step.attr("input_tensor")


def _columns(body: Body, product: Step, views: list[Step]) -> torch.Tensor | None:
    """Which columns of the product, in order, a row of [batch, heads, rows, depth] consists of; None where rows mix."""
    shape = body.specs[product.outputs[0]].shape
    at = torch.arange(shape[-1]).expand(shape)
    for view in views:
        if view.kernel == "ttnn.reshape":
            at = at.reshape(view.attr("shape"))  # type: ignore[arg-type]
        elif view.kernel == "ttnn.permute":
            at = at.permute(view.attr("dims"))  # type: ignore[arg-type]
        else:
            at = at[tuple(slice(*bound) for bound in bounds(body, view))]
    rows = at.permute(HEADS_FIRST).reshape(at.shape[0] * at.shape[2], -1)
    return rows[0] if bool((rows == rows[0]).all()) else None


def _ordered(body: Body, arg: Arg, order: torch.Tensor) -> Ref:
    """A prepared matrix or row with its columns in another order, made of runs of columns."""
    spec = body.spec(arg)
    assert isinstance(arg, Ref)
    starts = [0, *((order.diff() != 1).nonzero().flatten() + 1).tolist(), len(order)]
    runs = []
    for first, last in pairwise(starts):
        begin, count = int(order[first]), last - first
        name = body.fresh(f"{arg.name}.columns{begin}", (*spec.shape[:-1], count), spec.dtype)
        lead = spec.shape[:-1]
        bounds = (("slice_start", (*(0 for _ in lead), begin)), ("slice_end", (*lead, begin + count)))
        body.prepare(Step("ttnn.slice", (("input_tensor", arg), *bounds), (name,)))
        runs.append(Ref(name))
    joined = body.fresh(f"{arg.name}.ordered", spec.shape, spec.dtype)
    body.prepare(Step("ttnn.concat", (("tensors", tuple(runs)), ("dim", len(spec.shape) - 1)), (joined,)))
    if len(spec.shape) < 2:
        return Ref(joined)
    columns = body.fresh(f"{joined}.turned", spec.shape, spec.dtype)
    body.prepare(Step(COLUMNS, (("w", Ref(joined)),), (columns,)))
    return Ref(columns)
