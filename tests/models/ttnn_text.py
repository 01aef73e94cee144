"""Reads the ttnn calls in a script's text and holds them against real ttnn's signatures."""

from __future__ import annotations

import ast
import re

from proveout import ttnn
from proveout.kernels.signatures import constructors, enums, signatures


def unbound(text: str) -> list[str]:
    """Calls that bind to none of real ttnn's signatures."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [(ast.unparse(node.func), node) for node in calls]
    return [ast.unparse(node) for name, node in named if re.fullmatch(r"ttnn(\.\w+)+", name) and not _binds(name, node)]


def _binds(name: str, node: ast.Call) -> bool:
    given = {k.arg for k in node.keywords if k.arg}
    short = name.removeprefix("ttnn.")
    if short in constructors():
        return given <= {p.name for p in constructors()[short]}
    if name not in signatures():
        return short.split(".")[0] in enums() or hasattr(ttnn, short)
    for overload in signatures()[name]:
        positional = [p.name for p in overload if not p.keyword_only][: len(node.args)]
        known, required = {p.name for p in overload}, {p.name for p in overload if p.required}
        said = {*positional, *given}
        if len(positional) == len(node.args) and said <= known and required <= said:
            return True
    return False
