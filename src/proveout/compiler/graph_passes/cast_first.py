"""Takes a cast of int64 inputs before the views of them, as masks go: the transfer itself casts, any int64 rightly.

Views alone of integers that are not proven to fit 32 bits would stay on the host, and with them the cast that follows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.compiler.ranges import VIEWS, proven_ranges

aten = torch.ops.aten
MOVES = VIEWS | {aten.slice.Tensor, aten.select.int}
PROMOTES = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)
"""Element-wise ops that cast an integer operand to their result's dtype first."""


def cast_first(gm: GraphModule) -> GraphModule:
    known = proven_ranges(gm.graph)
    for node in list(gm.graph.nodes):
        if node.op == "placeholder" and _dtype(node) == torch.int64 and node not in known:
            for view in [user for user in node.users if user.target in MOVES]:
                if (dtype := _only_cast_to(view)) is not None:
                    _rebuild(gm, node, view, dtype)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _only_cast_to(view: Node) -> torch.dtype | None:
    """The one dtype that everything made of a view is cast to; None where something reads it as integers."""
    dtypes = {_cast_dtype(user, view) if user.target not in MOVES else _only_cast_to(user) for user in view.users}
    return dtypes.pop() if len(dtypes) == 1 else None


def _cast_dtype(user: Node, operand: Node) -> torch.dtype | None:
    dtype = _dtype(user)
    if user.target is aten._to_copy.default and set(user.kwargs) <= {"dtype"}:
        wanted = user.kwargs.get("dtype")
        return wanted if wanted in (torch.float32, torch.bfloat16, torch.bool) else None  # type: ignore[return-value]
    others = [a for a in user.args if a is not operand]
    if user.target in PROMOTES and not user.kwargs and dtype in (torch.float32, torch.bfloat16):
        return (
            dtype if all(isinstance(a, Node) and _dtype(a) == dtype and a.meta["val"].dim() for a in others) else None
        )
    return None


def _rebuild(gm: GraphModule, source: Node, view: Node, dtype: torch.dtype) -> None:
    """The same views of the cast source."""
    with gm.graph.inserting_before(view):
        cast = gm.graph.call_function(aten._to_copy.default, (source,), {"dtype": dtype})
        cast.meta = {**view.meta, "val": source.meta["val"].to(dtype), "replaces": view.name}
    _again(gm, cast, view)


def _again(gm: GraphModule, after: Node, view: Node) -> None:
    with gm.graph.inserting_before(view):
        moved = gm.graph.call_function(view.target, (after, *view.args[1:]), dict(view.kwargs))  # type: ignore[arg-type]
        moved.meta = {**view.meta, "val": view.meta["val"].to(_dtype(after)), "replaces": view.name}
    for user in list(view.users):
        if user.target in MOVES:
            _again(gm, moved, user)
        elif user.target is aten._to_copy.default:
            user.replace_all_uses_with(moved)
        else:
            user.replace_input_with(view, moved)


def _dtype(node: Any) -> torch.dtype | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None
