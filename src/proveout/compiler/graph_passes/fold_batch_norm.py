"""Folds an inference batch norm into the convolution before it.

The new weights are computed from the old ones in the graph, on the host and in float32 whatever the precision, so they
land in `setup` and follow when a weight changes.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
BATCH_NORM = aten._native_batch_norm_legit_no_training.default


def fold_batch_norm(gm: GraphModule) -> GraphModule:
    for norm in [n for n in gm.graph.nodes if n.target is BATCH_NORM]:
        if _folds(norm):
            _fold(gm, norm)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _folds(norm: Node) -> bool:
    """The convolution serves this norm alone, is not transposed, and everything but its input is a given tensor."""
    conv, *parameters = norm.args[:5]
    if not isinstance(conv, Node) or conv.target is not aten.convolution.default or len(conv.users) > 1:
        return False
    if conv.args[6] or conv.meta["val"].dtype != torch.float32:
        return False
    given = [p for p in (*parameters, *conv.args[1:3]) if p is not None]
    used = {user.args[1] for user in norm.users if user.users}
    return used <= {0} and all(isinstance(p, Node) and p.op in ("placeholder", "get_attr") for p in given)


def _fold(gm: GraphModule, norm: Node) -> None:
    conv, gamma, beta, mean, variance = norm.args[:5]
    eps = norm.args[6]
    assert isinstance(conv, Node)
    weight, bias = conv.args[1:3]
    assert isinstance(weight, Node)
    shape = [-1] + [1] * (weight.meta["val"].dim() - 1)

    def add(op: torch._ops.OpOverload, *args: object) -> Node:
        node = gm.graph.call_function(op, args)  # type: ignore[arg-type]
        values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        node.meta = {**norm.meta, "val": op(*values), "prepares": True}
        return node

    with gm.graph.inserting_before(conv):
        scale = add(aten.rsqrt.default, add(aten.add.Tensor, variance, eps))
        scale = add(aten.mul.Tensor, scale, gamma) if gamma is not None else scale
        scaled = add(aten.mul.Tensor, weight, add(aten.view.default, scale, shape))
        centre = add(aten.sub.Tensor, bias, mean) if bias is not None else add(aten.neg.default, mean)
        offset = add(aten.mul.Tensor, centre, scale)
        offset = add(aten.add.Tensor, offset, beta) if beta is not None else offset
    conv.args = (conv.args[0], scaled, offset, *conv.args[3:])
    for user in [u for u in norm.users if u.args[1] == 0]:
        assert user.target is operator.getitem
        user.replace_all_uses_with(conv)
