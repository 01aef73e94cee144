"""Turns `x[i, j, …]` with aranges for indices, as mask builders write it, into a view and an expand."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten


def simplify_index(gm: GraphModule) -> GraphModule:
    for node in list(gm.graph.nodes):
        if node.target is aten.index.Tensor:
            axes = _arange_axes(gm, node)
            if axes is not None:
                _rewrite(gm, node, axes)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _arange_axes(gm: GraphModule, node: Node) -> list[int] | None:
    """The result's axis along which each index counts from 0 to its dimension's end, or None if one does not."""
    source, indices = node.args[0], node.args[1]
    assert isinstance(source, Node)
    assert isinstance(indices, (list, tuple))
    shape = source.meta["val"].shape
    if len(indices) != len(shape):
        return None
    rank = len(node.meta["val"].shape)
    axes = []
    for index, size in zip(indices, shape):
        tensor = getattr(gm, str(index.target), None) if isinstance(index, Node) and index.op == "get_attr" else None
        if not isinstance(tensor, torch.Tensor) or tensor.dtype in (torch.bool, torch.uint8) or tensor.numel() != size:
            return None
        if not torch.equal(tensor.flatten().long(), torch.arange(size)):
            return None
        long = [i for i, n in enumerate(tensor.shape) if n != 1] or [tensor.dim() - 1]
        if len(long) > 1:
            return None
        axes.append(rank - tensor.dim() + long[0])
    return axes if axes == sorted(set(axes)) and min(axes, default=0) >= 0 else None


def _rewrite(gm: GraphModule, node: Node, axes: list[int]) -> None:
    source = node.args[0]
    assert isinstance(source, Node)
    value, out = source.meta["val"], node.meta["val"]
    shape = [1] * out.dim()
    for axis, size in zip(axes, value.shape):
        shape[axis] = size
    with gm.graph.inserting_before(node):
        view = gm.graph.call_function(aten.view.default, (source, shape))
        view.meta = {**node.meta, "val": value.new_empty(shape), "replaces": node.name}
        expand = gm.graph.call_function(aten.expand.default, (view, list(out.shape)))
        expand.meta = {**node.meta, "replaces": node.name}
    node.replace_all_uses_with(expand)
