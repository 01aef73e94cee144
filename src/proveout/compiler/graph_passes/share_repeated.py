"""Computes equal calls once: the same op on the same values with the same arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node


def share_repeated(gm: GraphModule) -> GraphModule:
    seen: dict[Any, Node] = {}
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or not _is_pure(node):
            continue
        key = (node.target, _key(node.args), _key(tuple(sorted(node.kwargs.items()))))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _is_pure(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", "") == "getitem"
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags and not _empty(target)


def _empty(target: torch._ops.OpOverload) -> bool:
    return "empty" in target._schema.name


def _key(argument: Any) -> Any:
    """Equal for equal arguments, and only for those: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(argument, (list, tuple)):
        return tuple(map(_key, argument))
    return argument if isinstance(argument, Node) else (type(argument), repr(argument))
