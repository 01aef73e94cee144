"""One file a verb: its function is `verb`, its help the docstring. A file put here is a verb; nothing else is needed.

A verb's file is imported when that verb is typed. The list of verbs and their first sentences are read without it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

FIRST = ("benchmark", "report", "compile", "bringup", "perf", "app")
"""What `--help` shows first; the rest is under *More*."""

THEN = (
    "check",
    "explain",
    "minimize",
    "compare",
    "load",
    "export",
    "discover",
    "models",
    "query",
    "cache",
    "recover",
    "ops",
    "run",
    "trace",
    "devices",
    "compat",
)
"""The order of the rest; a verb that is not here comes after them."""


@functools.cache
def names() -> tuple[str, ...]:
    """All verbs, in the order that `--help` lists them."""
    known = (*FIRST, *THEN)
    files = [file.name for file in iter_modules(__path__)]
    return tuple(sorted(files, key=lambda name: (known.index(name) if name in known else len(known), name)))


def function(name: str) -> Callable[..., int]:
    """The function behind a verb. (Importing a verb's file binds its name here, so that none may be this one.)"""
    verb: Callable[..., int] = import_module(f"{__name__}.{name}").verb
    return verb


def describe(name: str) -> str:
    """A verb's help, read from its file."""
    file = next(file for folder in __path__ if (file := Path(folder, f"{name}.py")).exists())
    tree = ast.parse(file.read_text(encoding="utf-8"))
    verbs = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "verb")
    return next((ast.get_docstring(node) or "" for node in verbs), "")
