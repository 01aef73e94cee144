"""Marks attention that PyTorch takes apart, as with dropout: eager has all of it in float32 and rounds the result.

It is known by its operands: query and key are each scaled by the root of the scale. Attention written by hand is left
as it is, for eager rounds that after every op, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.fx import GraphModule, Node

from proveout.compiler.ranges import VIEWS

aten = torch.ops.aten
PRODUCTS = frozenset({aten.bmm.default, aten.mm.default})
BETWEEN = VIEWS | {aten.add.Tensor, aten.mul.Tensor, aten.where.self, aten.zeros_like.default}
"""What may lie between the products and the softmax: masks, dropout, zeros for a query that sees no key."""
SCALES = (aten.mul.Scalar, aten.mul.Tensor)


def wide_attention(gm: GraphModule) -> GraphModule:
    """`meta["wide"]`: lowered in float32 under every precision."""
    for node in gm.graph.nodes:
        found: set[Node] = set()
        if node.target is aten._softmax.default:
            found = _forward(node)
        elif node.target is aten._softmax_backward_data.default:
            found = _backward(node)
        for part in found:
            part.meta["wide"] = True
    return gm


def _forward(softmax: Node) -> set[Node]:
    before, scores = _reached(softmax, _operands, BETWEEN)
    after, outputs = _reached(softmax, _users, BETWEEN)
    scaled = [_reached(product, _operands, VIEWS, SCALES) for product in scores]
    factors = {abs(n.args[1]) for _, ends in scaled for n in ends if _is_scale(n)}  # type: ignore[arg-type]
    if len(scores) != 1 or not outputs or len(factors) != 1 or sum(len(ends) for _, ends in scaled) != 2:
        return set()
    inside = {softmax, *before, *after, *scores, *outputs, *(n for moves, ends in scaled for n in (*moves, *ends))}
    return inside | {user for n in before for user in n.users if _is_mask(user)}


def _backward(softmax: Node) -> set[Node]:
    before, products = _reached(softmax, _operands, BETWEEN)
    after, gradients = _reached(softmax, _users, VIEWS)
    scaled = [_reached(gradient, _users, VIEWS, SCALES) for gradient in gradients]
    factors = {abs(n.args[1]) for _, ends in scaled for n in ends if _is_scale(n)}  # type: ignore[arg-type]
    if not products or len(factors) != 1 or not all(ends for _, ends in scaled):
        return set()
    values = {user for p in products for grad in _operands(p) for user in grad.users if user.target in PRODUCTS}
    inside = {softmax, *before, *after, *products, *gradients, *values}
    inside |= {n for product in (*gradients, *values) for n in _reached(product, _operands, VIEWS)[0]}
    return inside | {n for moves, ends in scaled for n in (*moves, *ends)}


def _reached(
    start: Node,
    steps: Callable[[Node], Iterator[Node]],
    through: frozenset[object] | set[object],
    to: frozenset[object] | tuple[object, ...] = PRODUCTS,
) -> tuple[list[Node], list[Node]]:
    """Nodes on the way from a node and the first products there, upwards or downwards."""
    way: dict[Node, None] = {}
    ends: dict[Node, None] = {}
    rest = list(steps(start))
    while rest:
        node = rest.pop()
        if node.target in to:
            ends[node] = None
        elif node.target in through and node not in way and is_float(node):
            way[node] = None
            rest.extend(steps(node))
    return list(way), list(ends)


def _operands(node: Node) -> Iterator[Node]:
    return iter(node.all_input_nodes)


def _users(node: Node) -> Iterator[Node]:
    return iter(node.users)


def _is_scale(node: Node) -> bool:
    return len(node.args) == 2 and isinstance(node.args[1], float)


def is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _is_mask(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.bool
