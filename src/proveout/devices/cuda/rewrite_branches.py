"""Attention and a feed-forward beside each other, as GPT-J has them: y = x + attention(n) @ w1 + act(n @ u) @ w2. What
both read of n is one product, what both add to x is another, and the rows between lie side by side in one matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proveout.devices.cuda.body import Body, is_view
from proveout.devices.cuda.rewrite_heads import ATTENTION, bounds
from proveout.devices.cuda.rewrite_products import PRODUCT
from proveout.program import Arg, Ref, Step
from proveout.types import TensorSpec

BRANCHES = "proveout.branches.default"
ABREAST, STACKED = "proveout.abreast.default", "proveout.stacked.default"


def join_branches(body: Body) -> None:
    for step in body.steps:
        if step.kernel == PRODUCT:
            block = _block(body, step)
            if block is not None:
                _join(body, block)


@dataclass(frozen=True)
class _Block:
    """The six calls: what is added at the end, and where that comes from."""

    last: Step
    """The product that adds the other branch's result to its own."""
    rest: tuple[Arg, Arg]
    """What it adds besides."""
    attention: Step
    projection: Step
    """The product of attention's result."""
    down: Step
    """The product of the hidden rows."""
    up: Step
    qkv: Step
    starts: tuple[int, ...]


def _block(body: Body, last: Step) -> _Block | None:
    added = (last.attr("residual"), last.attr("second"))
    if last.attr("activation") or last.attr("a_stats") is not None or last.attr("r_stats") is not None:
        return None
    for index, arg in enumerate(added):
        other = _source(body, arg, last, PRODUCT)
        if other is None or not _plain(other, "bias"):
            continue
        rest = (added[1 - index], None)
        for projection, down in ((last, other), (other, last)):
            attention = _source(body, projection.attr("a"), projection, ATTENTION)
            up = _source(body, down.attr("a"), down, PRODUCT)
            if attention is None or up is None or not _plain(up, "bias", "activation", "a_stats", "columns", "a_eps"):
                continue
            if not _in_rows(body, attention, projection.attr("a")):
                continue
            parts = _columns(body, attention)
            if parts is not None and _same_rows(body, up, parts[0]):
                return _Block(last, rest, attention, projection, down, up, *parts)
    return None


def _source(body: Body, arg: Arg, reader: Step, kernel: str) -> Step | None:
    """The call that a value is a view of, if nobody but the reader looks at it."""
    while isinstance(arg, Ref) and body.only_reader(arg.name) is reader:
        step = body.maker(arg)
        if step is None or not is_view(step):
            return step if step is not None and step.kernel == kernel else None
        reader, arg = step, step.attr("input_tensor")
    return None


def _plain(product: Step, *but: str) -> bool:
    """Whether a product has none of what may be around one, except for what is named."""
    return all(not value for key, value in product.attrs if key not in ("a", "w", *but))


def _same_rows(body: Body, up: Step, qkv: Step) -> bool:
    same = all(up.attr(key) == qkv.attr(key) for key in ("a_stats", "a_eps"))
    return same and body.through_views(up.attr("a")) == body.through_views(qkv.attr("a"))


def _in_rows(body: Body, attention: Step, arg: Arg) -> bool:
    """Whether a matrix has a row for each query with all heads' results one after another."""
    batch, heads, length, depth = body.specs[attention.outputs[0]].shape
    made = torch.empty(batch, length, heads, depth, device="meta").transpose(1, 2)
    seen = _viewed(body, made, attention.outputs[0], arg)
    return seen is not None and (*seen.shape, *seen.stride()) == (batch * length, heads * depth, heads * depth, 1)


def _columns(body: Body, attention: Step) -> tuple[Step, tuple[int, ...]] | None:
    """The product that queries, keys and values are slices of, which nobody else reads, and where they begin."""
    args = [attention.attr(name) for name in "qkv"]
    makers = [_behind(body, arg) for arg in args]
    qkv = makers[0]
    if (
        qkv is None
        or any(maker is not qkv for maker in makers)
        or not _plain(qkv, "bias", "a_stats", "columns", "a_eps")
    ):
        return None
    rows, width = body.specs[qkv.outputs[0]].shape
    starts, ends = list[int](), list[int]()
    for arg in args:
        batch, heads, length, depth = body.spec(arg).shape
        seen = _viewed(body, torch.empty(rows, width, device="meta"), qkv.outputs[0], arg)
        if seen is None or seen.stride() != (length * width, depth, width, 1) or batch * length != rows:
            return None
        starts.append(int(seen.storage_offset()))
        ends.append(starts[-1] + heads * depth)
    if sorted([0, *ends]) != sorted([*starts, width]) or not _read_by(body, qkv.outputs[0], attention):
        return None
    return qkv, tuple(starts)


def _behind(body: Body, arg: Arg) -> Step | None:
    step = body.maker(arg)
    while step is not None and is_view(step):
        step = body.maker(step.attr("input_tensor"))
    return step if step is not None and step.kernel == PRODUCT else None


def _read_by(body: Body, name: str, reader: Step) -> bool:
    """Whether all that look at a value, or at views of it, are one Step."""
    if name in body.results:
        return False
    return all(
        step is reader or (is_view(step) and _read_by(body, step.outputs[0], reader)) for step in body.readers(name)
    )


def _viewed(body: Body, tensor: torch.Tensor, name: str, arg: Arg) -> torch.Tensor | None:
    """A value as it lies in the memory of the one it is a view of; None where it would be a copy."""
    steps: list[Step] = []
    while arg != Ref(name):
        step = body.maker(arg)
        assert step is not None
        steps.append(step)
        arg = step.attr("input_tensor")
    for step in reversed(steps):
        if step.kernel == "ttnn.permute":
            tensor = tensor.permute(step.attr("dims"))  # type: ignore[arg-type]
        elif step.kernel == "ttnn.slice":
            tensor = tensor[tuple(slice(*bound) for bound in bounds(body, step))]
        else:
            try:
                tensor = tensor.view(body.specs[step.outputs[0]].shape)
            except RuntimeError:
                return None
    return tensor


def _join(body: Body, block: _Block) -> None:
    up, qkv, attention, name = block.up, block.qkv, block.attention, block.last.outputs[0]
    hidden, width = (body.specs[step.outputs[0]].shape[-1] for step in (up, qkv))
    batch, heads, length, depth = body.spec(attention.attr("q")).shape
    dtype = body.specs[name].dtype
    w, bias = _prepared(body, ABREAST, up, qkv, f"{name}.abreast", (body.spec(up.attr("w")).shape[0], hidden + width))
    columns: Arg = None
    if up.attr("columns") is not None:
        both = (up.attr("columns"), qkv.attr("columns"))
        columns = Ref(body.fresh(f"{name}.abreast.columns", (hidden + width,), "float32"))
        body.prepare(Step("ttnn.concat", (("tensors", both), ("dim", 0)), (columns.name,)))
    attrs: dict[str, Arg] = {"a": up.attr("a"), "w": w, "bias": bias, "activation": up.attr("activation")}
    attrs |= {"a_stats": up.attr("a_stats"), "columns": columns, "a_eps": up.attr("a_eps")}
    attrs |= {"starts": tuple(hidden + start for start in block.starts)}
    attrs |= {"sizes": (batch, heads, body.spec(attention.attr("k")).shape[1], depth)}
    attrs |= {key: attention.attr(key) for key in ("mask", "causal", "scale", "cos", "sin", "turn")}
    inner = heads * depth + hidden
    rows = body.fresh(f"{name}.branches", (batch * length, inner), dtype)
    w, bias = _prepared(
        body, STACKED, block.projection, block.down, f"{name}.stacked", (inner, body.specs[name].shape[1])
    )
    last = block.last.with_attrs(a=Ref(rows), w=w, bias=bias, residual=block.rest[0], second=block.rest[1])
    body.substitute([block.last], [Step(BRANCHES, tuple(attrs.items()), (rows,), attention.origin), last], name)


def _prepared(body: Body, kernel: str, first: Step, second: Step, name: str, shape: tuple[int, int]) -> tuple[Ref, Ref]:
    w, bias = body.fresh(f"{name}.weight", shape, body.spec(first.attr("w")).dtype), f"{name}.bias"
    body.specs[bias] = TensorSpec(shape[1:], "float32")
    attrs: dict[str, Arg] = {"first": first.attr("w"), "second": second.attr("w")}
    attrs |= {"first_bias": first.attr("bias"), "second_bias": second.attr("bias")}
    body.prepare(Step(kernel, tuple(attrs.items()), (w, bias)))
    return Ref(w), Ref(bias)
