"""Folds what has no elements to compute: results without elements, and results of operands without any."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.compiler.graph_passes.fold_constants import foldable, replace_by_constant

aten = torch.ops.aten


def fold_empty(gm: GraphModule) -> GraphModule:
    for node in list(gm.graph.nodes):
        out = node.meta.get("val")
        if not foldable(node) or not isinstance(out, torch.Tensor) or not _is_static(out):
            continue
        operands = [n.meta.get("val") for n in node.all_input_nodes]
        if not all(isinstance(operand, torch.Tensor) and _is_static(operand) for operand in operands):
            continue
        if out.numel() == 0:
            replace_by_constant(gm, node, torch.empty(out.shape, dtype=out.dtype))
        elif operands and all(operand.numel() == 0 for operand in operands):
            replace_by_constant(gm, node, _evaluated(node))
        elif node.target is aten.cat.default:
            _drop_empty(node, out.dtype)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _is_static(tensor: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in tensor.shape)


def _evaluated(node: Node) -> torch.Tensor:
    """The sum of nothing is 0 and its product 1, whatever the data: the op itself says."""

    def empty(operand: Node) -> torch.Tensor:
        return torch.empty(operand.meta["val"].shape, dtype=operand.meta["val"].dtype)

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), empty)
    with torch.no_grad():
        result: torch.Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return result


def _drop_empty(node: Node, dtype: torch.dtype) -> None:
    """Parts of a concatenation without elements add nothing but, sometimes, the result's dtype."""
    parts: Any = node.args[0]
    kept = [part for part in parts if part.meta["val"].numel()]
    if len(kept) < len(parts) and all(part.meta["val"].dtype == dtype for part in kept):
        node.args = (kept, *node.args[1:])
