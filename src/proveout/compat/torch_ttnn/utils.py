"""Small questions about nodes and graphs that the original's tools and tests ask."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node


def get_opname(node: Node) -> str:
    target: Any = node.target
    return str(target) if str(target).startswith("aten.") else getattr(target, "__name__", str(target))


def users_have_getitem(node: Node) -> Node | None:
    """The first use that picks one of several results."""
    return next((user for user in node.users if getattr(user.target, "__name__", "") == "getitem"), None)


def is_operation(node: Node) -> bool:
    return node.op not in ("placeholder", "output")


def get_node_name(node: Node | str | None) -> str:
    return node.name if isinstance(node, Node) else node or ""


def get_input_nodes(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def get_output_nodes(graph: Graph) -> Any:
    return next(node for node in graph.nodes if node.op == "output").args[0]
