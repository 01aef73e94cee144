"""Turns `as_strided` and its scatter into reshapes, slices and a permute where the strides are those of a view.

Such a view is one of memory: the base is the tensor that fills it, however many views lie between, laid out in the
order of that memory. Sorted from the longest stride to the shortest, the dimensions of such a view nest: each steps
over whole blocks of the next. Rows of `stride` elements are then cut off the flat base, and each row again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        memory = memory_of(node.args[0]) if rewrite is not None else None
        if rewrite is not None and memory is not None:
            with gm.graph.inserting_before(node):
                result = rewrite(_Rewriter(gm, node, memory))
            if result is not None:
                node.replace_all_uses_with(result)
                gm.graph.erase_node(node)
    gm.recompile()
    return gm


@dataclass(frozen=True)
class StridedMemory:
    """The tensor that fills an operand's memory."""

    node: Node
    order: tuple[int, ...]
    """Its dimensions from the longest stride to the shortest: in this order its elements lie one after the other."""
    views: tuple[Node, ...]
    """From it to the operand, each a look at the one before."""


def memory_of(operand: Any) -> StridedMemory | None:
    """Whose memory an operand of `as_strided` looks at; None where no tensor of the graph is all of it."""
    views: list[Node] = []
    node = operand
    while isinstance(node, Node):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.is_conj() or value.is_neg():
            return None  # the memory holds other numbers than those that are read
        order = _order_in_memory(value)
        if order is not None:
            return StridedMemory(node, order, tuple(reversed(views)))
        if not _is_view(node):
            return None
        views.append(node)
        node = node.args[0]
    return None


def lies_elsewhere(node: Node) -> bool:
    """Whether a node looks by strides at memory that no tensor here has: neither an argument nor one that fills it."""
    base = node.args[0] if node.target in REWRITES else None
    return isinstance(base, Node) and base.op != "placeholder" and memory_of(base) is None


def _is_view(node: Node) -> bool:
    """Whether a node looks at the memory of its first argument and writes nothing."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.args:
        return False
    schema = node.target._schema
    first = schema.arguments[0].alias_info
    looks = len(schema.returns) == 1 and schema.returns[0].alias_info is not None
    return looks and first is not None and not first.is_write


def _order_in_memory(value: torch.Tensor) -> tuple[int, ...] | None:
    """A tensor's dimensions from the longest stride to the shortest, where each element of its memory is one of its."""
    if not all(isinstance(number, int) for number in (*value.shape, *value.stride(), value.storage_offset())):
        return None
    if value.storage_offset() or value.numel() * value.element_size() != value.untyped_storage().nbytes():
        return None
    order = tuple(sorted(range(value.dim()), key=lambda d: (-value.stride()[d], value.shape[d])))
    return order if value.permute(order).is_contiguous() else None


class _Rewriter:
    """Adds nodes in another's place, each evaluated on the value that its operand stands for."""

    def __init__(self, gm: GraphModule, node: Node, memory: StridedMemory) -> None:
        self.gm, self.node, self.memory = gm, node, memory
        names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
        self.given = {**dict(zip(names, node.args)), **node.kwargs}
        offset = self.given.get("storage_offset")
        self.offset = self.given["self"].meta["val"].storage_offset() if offset is None else offset
        self.dtype = self.given["self"].meta["val"].dtype
        self.base = self.seen_as(self.permute(memory.node, memory.order), self.dtype)

    def permute(self, node: Node, order: Sequence[int]) -> Node:
        return node if list(order) == sorted(order) else self.add(aten.permute.default, node, list(order))

    def seen_as(self, node: Node, dtype: torch.dtype) -> Node:
        """The bytes of a contiguous tensor as numbers of another dtype, in one dimension; itself where it has it."""
        value = node.meta["val"]
        return node if value.dtype == dtype else self.add(aten.view.dtype, self.view(node, value.numel()), dtype)

    def operand_of(self, base: Node) -> Node:
        """What the operand is where its memory holds these numbers."""
        filled, order = self.memory.node.meta["val"], self.memory.order
        node = self.view(self.seen_as(base, filled.dtype), *(filled.shape[d] for d in order))
        node = self.permute(node, [order.index(d) for d in range(len(order))])
        for view in self.memory.views:
            node = self.add(view.target, node, *view.args[1:], **view.kwargs)
        return node

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
        if not all(isinstance(number, int) for number in (*sizes, *strides, self.offset)) or 0 in sizes:
            return None
        steps = [d for d, (size, stride) in enumerate(zip(sizes, strides)) if size > 1 and stride > 0]
        order = tuple(sorted(steps, key=lambda d: -strides[d]))
        picked = tuple(sizes[d] for d in order), tuple(strides[d] for d in order)
        box = Box(order, *picked, self.offset)
        return box if box.nests else None


def _viewed(to: _Rewriter) -> Node | None:
    box, base = to.box(), to.base
    if box is None:
        if base is to.given["self"]:
            return None
        return to.add(aten.as_strided_copy.default, base, to.given["size"], to.given["stride"], to.offset)
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
    return to.add(aten.clone.default, row) if row is to.memory.node else row


def _scattered(to: _Rewriter) -> Node | None:
    """What is written, spread over zeros as the base lies in memory, where it is inside the view; else the base."""
    box, base, source = to.box(), to.base, to.given["src"]
    shape = tuple(base.meta["val"].shape)
    # Several elements of the source for one of the base: which of them wins is eager's business.
    once = box is not None and math.prod(to.given["size"]) == math.prod(box.sizes)
    if box is None or not once or source.meta["val"].dtype != to.dtype:
        if base is to.given["self"]:
            return None
        where = to.given["size"], to.given["stride"], to.offset
        return to.operand_of(to.add(aten.as_strided_scatter.default, base, source, *where))
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
    if not bool(inside.all()):
        row = to.add(aten.where.self, to.constant(inside.view(shape)), row, base)
    return to.operand_of(row)


def _lengths(box: Box) -> tuple[int, ...]:
    """Of a row of each level, from the flat base to a single element."""
    return (*(n * s for n, s in zip(box.sizes, box.strides)), 1)


REWRITES = {
    aten.as_strided.default: _viewed,
    aten.as_strided_copy.default: _viewed,
    aten.as_strided_scatter.default: _scattered,
}
