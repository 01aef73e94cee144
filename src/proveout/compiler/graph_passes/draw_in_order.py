"""Random bits for a tensor that lies permuted in memory are drawn in the order of memory, as eager's `bernoulli_` does.

Functionalised, an in-place dropout becomes `bernoulli(empty_permuted(…))`, and that draws in the order of indices:
other numbers for the same elements. An uninitialised operand tells that it was a fill.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
ALLOCATIONS = (
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.empty_like.default,
    aten.new_empty_strided.default,
)


def draw_in_order(gm: GraphModule) -> GraphModule:
    for node in list(gm.graph.nodes):
        if node.target is aten.bernoulli.p:
            blank = node.args[0]
            assert isinstance(blank, Node)
            value = blank.meta["val"]
            order = sorted(range(value.dim()), key=lambda d: value.stride(d), reverse=True)
            if blank.target in ALLOCATIONS and order != list(range(value.dim())):
                _rewrite(gm, node, blank, order)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _rewrite(gm: GraphModule, node: Node, blank: Node, order: list[int]) -> None:
    value = blank.meta["val"]
    shape = [value.shape[d] for d in order]
    dense = value.new_empty(shape)
    with gm.graph.inserting_before(node):
        zeros = gm.graph.call_function(aten.full.default, (shape, 0), {"dtype": value.dtype})
        zeros.meta = {**blank.meta, "val": dense, "replaces": blank.name}
        draw = gm.graph.call_function(aten.bernoulli.p, (zeros, *node.args[1:]), node.kwargs)
        draw.meta = {**node.meta, "val": dense, "replaces": node.name}
        back = [order.index(d) for d in range(len(order))]
        permuted = gm.graph.call_function(aten.permute.default, (draw, back))
        permuted.meta = {**node.meta, "val": dense.permute(back), "replaces": node.name}
    node.replace_all_uses_with(permuted)
    gm.graph.erase_node(node)
