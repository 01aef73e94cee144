"""Turns `as_strided` and its scatter into reshapes, slices and a permute where the strides are those of a view.

Sorted from the longest stride to the shortest, the dimensions of such a view nest: each steps over whole blocks of the
next. Rows of `stride` elements are then cut off the flat base, and each row again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten


@dataclass(frozen=True)
class Box:
    """A view's dimensions from the longest stride to the shortest, those that repeat an element (stride 0) apart."""

    order: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def nests(self) -> bool:
        inner = (*(n * s for n, s in zip(self.sizes[1:], self.strides[1:])), 1)
        return all(stride >= size for stride, size in zip(self.strides, inner))


def strided_views(gm: GraphModule) -> GraphModule:
    for node in list(gm.graph.nodes):
        rewrite = REWRITES.get(node.target)
        if rewrite is not None and _is_dense(node.args[0]):
            with gm.graph.inserting_before(node):
                result = rewrite(_Rewriter(gm, node))
            if result is not None:
                node.replace_all_uses_with(result)
                gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _is_dense(base: Any) -> bool:
    """Whether a tensor's memory is its elements in order, from its first on."""
    value = base.meta.get("val") if isinstance(base, Node) else None
    return isinstance(value, torch.Tensor) and value.is_contiguous() and value.storage_offset() == 0


class _Rewriter:
    """Adds nodes in another's place, each evaluated on the value that its operand stands for."""

    def __init__(self, gm: GraphModule, node: Node) -> None:
        self.gm, self.node = gm, node
        names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
        self.given = {**dict(zip(names, node.args)), **node.kwargs}

    def add(self, op: Any, *args: Any, **kwargs: Any) -> Node:
        node = self.gm.graph.call_function(op, args, kwargs)
        values = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
        node.meta = {**self.node.meta, "val": op(*values, **kwargs), "replaces": self.node.name}
        return node

    def constant(self, tensor: torch.Tensor) -> Node:
        name = f"_inside_{self.node.name}"
        self.gm.register_buffer(name, tensor, persistent=False)
        node = self.gm.graph.get_attr(name)
        node.meta = {"val": self.node.meta["val"].new_empty(tensor.shape, dtype=tensor.dtype)}
        return node

    def view(self, node: Node, *shape: int) -> Node:
        return node if tuple(node.meta["val"].shape) == shape else self.add(aten.view.default, node, list(shape))

    def cut(self, node: Node, start: int, length: int) -> Node:
        """`length` elements of the last dimension, from `start` on; zeros past its end, where nothing is read."""
        size = node.meta["val"].shape[-1]
        if (start, length) == (0, size):
            return node
        if start + length > size:
            node = self.add(aten.constant_pad_nd.default, node, [0, start + length - size])
        return self.add(aten.slice.Tensor, node, -1, start, start + length)

    def box(self) -> Box | None:
        sizes, strides = tuple(self.given["size"]), tuple(self.given["stride"])
        if not all(isinstance(number, int) for number in (*sizes, *strides)) or 0 in sizes:
            return None
        steps = [d for d, (size, stride) in enumerate(zip(sizes, strides)) if size > 1 and stride > 0]
        order = tuple(sorted(steps, key=lambda d: -strides[d]))
        picked = tuple(sizes[d] for d in order), tuple(strides[d] for d in order)
        box = Box(order, *picked, int(self.given.get("storage_offset") or 0))
        return box if box.nests else None


def _viewed(to: _Rewriter) -> Node | None:
    box, base = to.box(), to.given["self"]
    if box is None:
        return None
    size = math.prod(base.meta["val"].shape)
    row = to.view(base, size)
    rows = _lengths(box)
    row = to.cut(row, box.offset, rows[0])
    for level, (count, stride) in enumerate(zip(box.sizes, box.strides)):
        shape = (*box.sizes[:level], count, stride)
        row = to.cut(to.view(row, *shape), 0, rows[level + 1])
    out = tuple(to.given["size"])
    row = to.view(row, *box.sizes)
    if box.order != tuple(sorted(box.order)):
        row = to.add(aten.permute.default, row, [box.order.index(d) for d in sorted(box.order)])
    row = to.view(row, *(n if d in box.order else 1 for d, n in enumerate(out)))
    row = row if tuple(row.meta["val"].shape) == out else to.add(aten.expand.default, row, list(out))
    return to.add(aten.clone.default, row) if row is base else row


def _scattered(to: _Rewriter) -> Node | None:
    """What is written, spread over zeros as the base lies in memory, where it is inside the view; else the base."""
    box, base, source = to.box(), to.given["self"], to.given["src"]
    if box is None or math.prod(to.given["size"]) != math.prod(box.sizes):
        return None  # several elements of the source for one of the base: which of them wins is eager's business
    shape, dtype = tuple(base.meta["val"].shape), base.meta["val"].dtype
    if source.meta["val"].dtype != dtype:
        return None
    size, rows = math.prod(shape), _lengths(box)
    places = [d for d in range(len(to.given["size"])) if d in box.order]
    row = to.view(source, *(to.given["size"][d] for d in places))
    if box.order != tuple(places):
        row = to.add(aten.permute.default, row, [places.index(d) for d in box.order])
        row = to.add(aten.clone.default, row, memory_format=torch.contiguous_format)
    row = to.view(row, *box.sizes, 1)
    for level in reversed(range(len(box.sizes))):
        row = to.cut(row, 0, box.strides[level])
        row = to.view(row, *box.sizes[:level], rows[level])
    if box.offset:
        row = to.add(aten.constant_pad_nd.default, row, [box.offset, 0])
    row = to.view(to.cut(row, 0, size), *shape)
    inside = torch.zeros(size, dtype=torch.bool)
    inside.as_strided(box.sizes, box.strides, box.offset).fill_(True)
    return row if bool(inside.all()) else to.add(aten.where.self, to.constant(inside.view(shape)), row, base)


def _lengths(box: Box) -> tuple[int, ...]:
    """Of a row of each level, from the flat base to a single element."""
    return (*(n * s for n, s in zip(box.sizes, box.strides)), 1)


REWRITES = {
    aten.as_strided.default: _viewed,
    aten.as_strided_copy.default: _viewed,
    aten.as_strided_scatter.default: _scattered,
}
