"""Folds an inference batch norm into the convolution or the linear layer before it.

The new weights are computed from the old ones in the graph, on the host and in float32 whatever the precision, so they
land in `setup` and follow when a weight changes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

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
    """The layer serves this norm alone, and everything but its input is a given tensor."""
    product, *parameters = norm.args[:5]
    layer = _layer(product) if isinstance(product, Node) else None
    if layer is None or len(layer.node.users) > 1 or layer.node.meta["val"].dtype != torch.float32:
        return False
    tensors = [p for p in (*parameters, layer.weight, layer.bias) if p is not None]
    used = {user.args[1] for user in norm.users if user.users}
    return used <= {0} and all(isinstance(p, Node) and p.op in ("placeholder", "get_attr") for p in tensors)


@dataclass(frozen=True)
class _Layer:
    """A convolution or a linear layer; its weight's first dimension is the norm's channels."""

    node: Node
    weight: Node
    bias: Node | None
    turned: Node | None = None
    """The linear layer's weight as its product takes it."""


def _layer(node: Node) -> _Layer | None:
    if node.target is aten.convolution.default and not node.args[6]:
        return _Layer(node, *node.args[1:3])  # type: ignore[arg-type]
    if node.target is aten.addmm.default and not node.kwargs:
        bias, _, turned = node.args
        assert isinstance(bias, Node)
        assert isinstance(turned, Node)
        if turned.target is aten.t.default and bias.meta["val"].shape == node.meta["val"].shape[1:]:
            return _Layer(node, turned.args[0], bias, turned)  # type: ignore[arg-type]
    return None


def _fold(gm: GraphModule, norm: Node) -> None:
    product, gamma, beta, mean, variance = norm.args[:5]
    eps = norm.args[6]
    assert isinstance(product, Node)
    layer = _layer(product)
    assert layer is not None
    weight, bias = layer.weight, layer.bias
    shape = [-1] + [1] * (weight.meta["val"].dim() - 1)

    def add(op: torch._ops.OpOverload, *args: object) -> Node:
        node = gm.graph.call_function(op, args)  # type: ignore[arg-type]
        values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        node.meta = {**norm.meta, "val": op(*values), "prepares": True}
        return node

    with gm.graph.inserting_before(product):
        scale = add(aten.rsqrt.default, add(aten.add.Tensor, variance, eps))
        scale = add(aten.mul.Tensor, scale, gamma) if gamma is not None else scale
        scaled = add(aten.mul.Tensor, weight, add(aten.view.default, scale, shape))
        centre = add(aten.sub.Tensor, bias, mean) if bias is not None else add(aten.neg.default, mean)
        offset = add(aten.mul.Tensor, centre, scale)
        offset = add(aten.add.Tensor, offset, beta) if beta is not None else offset
        if layer.turned is not None:
            product.args = (offset, product.args[1], add(aten.t.default, scaled))
        else:
            product.args = (product.args[0], scaled, offset, *product.args[3:])
    for user in [u for u in norm.users if u.args[1] == 0]:
        assert user.target is operator.getitem
        user.replace_all_uses_with(product)
