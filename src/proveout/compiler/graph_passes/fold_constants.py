"""Folds what depends on no input: aranges, masks, positions."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

LIMIT_BYTES = 64 << 20
"""Larger results are left to be computed: a Program should not carry them."""


def fold_constants(gm: GraphModule) -> GraphModule:
    known: dict[Node, Any] = {}
    for node in list(gm.graph.nodes):
        if node.op == "get_attr":
            value = getattr(gm, str(node.target), None)
            if isinstance(value, torch.Tensor):
                known[node] = value
        elif foldable(node) and all(n in known for n in node.all_input_nodes):
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            with torch.no_grad():
                result = node.target(*arguments[0], **arguments[1])
            if "empty" in node.target._schema.name:
                result = torch.zeros_like(result)  # whatever lay in memory would be another Program at every run
            if isinstance(result, torch.Tensor) and result.numel() * result.element_size() <= LIMIT_BYTES:
                known[node] = result
    for node, value in known.items():
        if node.op == "call_function" and any(user not in known for user in node.users):
            replace_by_constant(gm, node, value)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def foldable(node: Node) -> bool:
    """Whether a node gives the same result whenever it is evaluated on the same operands, on the CPU."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    random = torch.Tag.nondeterministic_seeded in target.tags
    device = node.kwargs.get("device")
    return not random and not target._schema.is_mutable and (device is None or torch.device(str(device)).type == "cpu")


def replace_by_constant(gm: GraphModule, node: Node, value: torch.Tensor) -> None:
    name = f"_folded_{node.name}"
    gm.register_buffer(name, value.detach().clone(memory_format=torch.contiguous_format), persistent=False)
    with gm.graph.inserting_before(node):
        constant = gm.graph.get_attr(name)
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
