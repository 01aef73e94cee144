"""Counts module constants that name kernels: what a new kernel would have to be added to beside its own row."""

from __future__ import annotations

import ast
from pathlib import Path

from proveout.kernels.table import kernels

SOURCE = Path(__file__).parents[2] / "src" / "proveout"
PREFIX = "ttnn."


def count_kernel_constants(source: Path = SOURCE) -> int:
    return len(kernel_constants(source))


def kernel_constants(source: Path = SOURCE) -> list[str]:
    """`file: NAME` of every module-level assignment whose value names a kernel and that is not the row table itself."""
    return [
        f"{path.relative_to(source)}: {ast.unparse(target)}"
        for path in sorted(source.rglob("*.py"))
        for target, value in _assignments(path)
        if _names_kernels(value) and not (path.parent.name == "kernels" and ast.unparse(target) == "KERNELS")
    ]


def _assignments(path: Path) -> list[tuple[ast.expr, ast.expr]]:
    found: list[tuple[ast.expr, ast.expr]] = []
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign):
            found.append((statement.targets[0], statement.value))
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
            found.append((statement.target, statement.value))
    return found


def _names_kernels(value: ast.expr) -> bool:
    """Outright, or as `f"ttnn.{name}"` with the names beside it."""
    texts = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    made = any(isinstance(n, ast.JoinedStr) and ast.unparse(n)[2:].startswith(PREFIX) for n in ast.walk(value))
    return any(text in kernels() or (made and f"{PREFIX}{text}" in kernels()) for text in texts)


if __name__ == "__main__":
    print("\n".join(kernel_constants()))
    print(count_kernel_constants(), "module constants name kernels")
