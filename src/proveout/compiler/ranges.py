"""Which integers are proven to fit 32 bits by how the graph uses them.

Eager raises for an index outside its table, so a tensor that is an index, whole, lies inside it: so does what it is a
view of, and what a number was added to. Views, slices, sums and products need the low 32 bits of their operands alone
for the low 32 bits of their results: where all that reads a value is such an op whose own result is proven, the rest of
its bits is never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from proveout.ops.table import INT32, Range

aten = torch.ops.aten

VIEWS = frozenset({
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default, aten.transpose.int,
    aten.t.default, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.expand.default, aten.clone.default, aten.alias.default, aten.detach.default, aten.repeat.default,
    aten.flip.default,
})  # fmt: skip
"""Every element of the first operand is in the result, and nothing else."""
SHIFTS = {aten.add.Tensor: -1, aten.add.Scalar: -1, aten.sub.Tensor: 1, aten.sub.Scalar: 1}
"""A number is added or taken off: what to do to the result's bounds to have the operand's."""
LOW_BITS = VIEWS | SHIFTS.keys() | {
    aten.slice.Tensor, aten.select.int, aten.mul.Tensor, aten.mul.Scalar, aten.neg.default, aten.cat.default,
}  # fmt: skip
"""The low 32 bits of the result follow from those of the operands."""
LOOKUPS = frozenset({aten.gather.default, aten.index_select.default, aten.index.Tensor})
"""Every element of the result is one of the first operand."""


def proven_ranges(graph: Graph) -> dict[Node, Range]:
    """For integers that a chip has no dtype for: bounds that may be taken for true wherever a Program looks."""
    bounds: dict[Node, Range] = {}
    for node in reversed(graph.nodes):
        if _is_wide(node):
            ranges = [r for user in node.users for r in _bounds_by(user, node, bounds)]
            if ranges:
                bounds[node] = max(r[0] for r in ranges), min(r[1] for r in ranges)
    unseen: dict[Node, Range] = {}
    for node in reversed(graph.nodes):
        is_open = _is_wide(node) and node not in bounds and bool(node.users)
        if is_open and all(_hides_high_bits(user, node, bounds, unseen) for user in node.users):
            unseen[node] = INT32
    return {node: r for node, r in (bounds | unseen).items() if r[0] <= r[1]}


def keeps_low_bits(node: Node) -> bool:
    """Whether a wrapped result of this op is the wrapped result."""
    return node.target in LOW_BITS


def _is_wide(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.int64 and 0 not in value.shape


def _bounds_by(user: Node, node: Node, bounds: dict[Node, Range]) -> Iterator[Range]:
    """What one use proves about every element."""
    yield from (r for index, r in _indices(user) if index is node)
    known = bounds.get(user)
    if known is None:
        return
    if user.target in VIEWS or user.target is aten.cat.default:
        yield known
    elif user.target in SHIFTS and user.args[0] is node and isinstance(user.args[1], int) and not user.kwargs:
        moved = SHIFTS[user.target] * user.args[1]  # type: ignore[index]
        yield known[0] + moved, known[1] + moved


def _indices(node: Node) -> Iterator[tuple[Any, Range]]:
    """The operands of a lookup that are indices, each with the bounds that eager enforces."""
    args: Any = node.args
    if node.target is aten.embedding.default:
        yield args[1], (0, _size(args[0], 0) - 1)
    elif node.target in (aten.index_select.default, aten.gather.default, aten.scatter.src, aten.scatter_add.default):
        yield args[2], (0, _size(args[0], args[1]) - 1)
    elif node.target in (aten.index.Tensor, aten.index_put.default):
        masks = any(i is not None and i.meta["val"].dtype != torch.int64 for i in args[1])
        for dim, index in enumerate(() if masks else args[1]):
            size = _size(args[0], dim)
            yield index, (-size, size - 1)


def _size(table: Any, dim: int) -> int:
    shape = table.meta["val"].shape
    size = shape[dim] if shape else 1
    return size if isinstance(size, int) else INT32[1]


def _hides_high_bits(user: Node, node: Node, bounds: dict[Node, Range], unseen: dict[Node, Range]) -> bool:
    if any(index is node for index, _ in _indices(user)):
        return True
    if user.target is aten._to_copy.default:
        return user.kwargs.get("dtype") == torch.int32
    copies = user.target in LOW_BITS or (user.target in LOOKUPS and user.args[0] is node)
    return copies and (user in bounds or user in unseen)
