"""What can be counted about how easy the house is to change: imports out of place, tests by a device's name, lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "proveout"


def late_imports(source: Path = SOURCE) -> list[str]:
    """`file:line name` of each of our own names that a function imports; other packages' may come late."""
    return [
        f"{path.relative_to(source)}:{node.lineno} {alias.name}"
        for path, tree in _trees(source)
        for node in _inside_functions(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0] == "proveout"
    ]


NAMED = r"""["'](sim|cpu|cuda|gpu)(:[\w-]+)?["']"""
BY_NAME = re.compile(rf"device\w*\S* (==|!=|in|not in) \(?{NAMED}|kind == {NAMED}|startswith\(\(?{NAMED}")
TORCH = ("ops/", "compiler/graph_passes/")
"""Here a device is torch's, an argument of an ATen op."""


def asks_by_name(source: Path = SOURCE) -> list[str]:
    """`file:line text` of each place that asks what a device is called instead of what it does."""
    return [
        f"{path.relative_to(source)}:{number} {line.strip()}"
        for path, _ in _trees(source)
        if not str(path.relative_to(source)).startswith(TORCH)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if BY_NAME.search(line)
    ]


def columns_by_text(source: Path = SOURCE) -> list[str]:
    """`file:line name` of each column that code takes from a Record's flat row by its name as text, which no type
    checks: `flat["x"]`, `entry.row["x"]`."""
    return [
        f"{path.relative_to(source)}:{node.lineno} {node.slice.value}"
        for path, tree in _trees(source)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and (ast.unparse(node.value) == "flat" or ast.unparse(node.value).endswith(".row"))
    ]


OF_OTHERS = ("compat/", "ttnn/")
"""Rooms whose types have the names that other systems gave them."""


def shared_names(source: Path = SOURCE) -> dict[str, list[str]]:
    """The types of one name, each with the files that define one: a reader of a signature cannot tell them apart."""
    places: dict[str, list[str]] = {}
    for path, tree in _trees(source):
        if not str(path.relative_to(source)).startswith(OF_OTHERS):
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(path.relative_to(source)))
    return {name: files for name, files in places.items() if len(files) > 1}


VAGUE = {"found", "given", "made", "told", "asked"}
"""Participles that say nothing of what a value is."""


def vague_parameters(source: Path = SOURCE) -> list[str]:
    """`file:line function` of each function with a parameter whose name is no noun of the field."""
    return [
        f"{path.relative_to(source)}:{node.lineno} {node.name}"
        for path, tree in _trees(source)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(isinstance(part, ast.arg) and part.arg in VAGUE for part in ast.walk(node.args))
    ]


def vague_locals(source: Path = SOURCE) -> int:
    """How often such a name is bound in a function or module."""
    return sum(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
        for _, tree in _trees(source)
        for node in ast.walk(tree)
    )


MOST_PARAMETERS = 12
SET_BY_OTHERS = ("cli/", "compat/", "devices/cuda/", "kernels/")
"""Here a list of parameters is a verb's options, another system's names, or a kernel's operands."""


def wide_functions(source: Path = SOURCE) -> list[str]:
    """`file:line function` of each function of our own with more than MOST_PARAMETERS parameters."""
    return [
        f"{path.relative_to(source)}:{node.lineno} {node.name}"
        for path, tree in _trees(source)
        if not str(path.relative_to(source)).startswith(SET_BY_OTHERS)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) > MOST_PARAMETERS
    ]


def lines(source: Path = SOURCE) -> int:
    """Lines of our own Python."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path, _ in _trees(source))


def _trees(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(source.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def _inside_functions(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if inside:
            yield node
        yield from _inside_functions(node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
