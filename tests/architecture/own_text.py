"""Counts regular expressions, parsers of Python and tests of sentences that read our own text: values are passed on as
values.

What reads strangers' text is listed, with how often and whose it is. Everything else counts as ours.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "proveout"

STRANGERS = {
    "app/evidence.py": (8, "passages and questions that users type"),
    "app/spans.py": (1, "passages that users type"),
    "cli/output.py": (1, "names and errors of scripts, before a terminal has them"),
    "app/results.py": (1, "paths in Python's tracebacks"),
    "bringup/testing.py": (2, "what pytest prints"),
    "capture/identity.py": (1, "the text of users' objects, which may hold an address"),
    "capture/named.py": (2, "names that users type"),
    "capture/running.py": (1, "users' scripts"),
    "capture/scripts.py": (4, "users' scripts, and selectors that they type"),
    "chip/profile_text.py": (4, "tt-metal's profiles"),
    "chip/table_cells.py": (2, "tables of times that others measured"),
    "chip/table_rows.py": (2, "tables of times that others measured"),
    "cli/benchit/__init__.py": (1, "arguments for users' scripts"),
    "cli/verbs/__init__.py": (1, "the verbs' files, read without importing them"),
    "cli/verbs/models.py": (1, "docstrings of users' scripts"),
    "coding.py": (1, "strangers' JSON: numbers and characters that nothing of ours could keep"),
    "compiler/lower.py": (3, "Dynamo's names of modules, and Python's stack traces"),
    "engine/backend.py": (1, "paths in Dynamo's messages"),
    "folders.py": (1, "users' names, made fit for a file"),
    "measure/runs.py": (1, "Python's tracebacks, of users' models"),
    "report/tables/readme.py": (1, "READMEs, of which we fill in marked parts"),
    "report/tables/text.py": (1, "any text, escaped for Markdown"),
    "store.py": (4, "this machine's name, users' SQL, and what DuckDB says of it"),
    "sweep/tasks.py": (2, "users' scripts"),
    "ttnn/calls.py": (1, "defaults in ttnn's own signatures"),
}
"""File -> how many, and whose text they read."""

READERS = {
    "re": {"compile", "match", "search", "sub", "subn", "findall", "finditer", "fullmatch", "split"},
    "ast": {"parse", "literal_eval"},
}


def count_own_text(source: Path = SOURCE) -> int:
    return sum(max(0, found - STRANGERS.get(file, (0, ""))[0]) for file, found in readers(source).items())


SENTENCES = {"reason", "fix", "why", "note", "advice", "sentence"}
"""Attributes that hold sentences for people."""
LOOKS = {"startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "find", "index"}


def _looks_into_a_sentence(node: ast.AST) -> bool:
    """`line.fix.startswith("none")`, `"complex" in line.reason`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
        return isinstance(node.func.value, ast.Attribute) and node.func.value.attr in SENTENCES
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        (among, *_) = node.comparators
        return text and isinstance(among, ast.Attribute) and among.attr in SENTENCES
    return False


def readers(source: Path = SOURCE) -> Counter[str]:
    """How often each file compiles or uses a regular expression, parses Python, or looks into a sentence."""
    found: Counter[str] = Counter()
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                module = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
                found[path.relative_to(source).as_posix()] += node.func.attr in READERS.get(module, ())
            found[path.relative_to(source).as_posix()] += _looks_into_a_sentence(node)
            if isinstance(node, ast.ImportFrom) and node.module in READERS:
                found[path.relative_to(source).as_posix()] += 1  # by its bare name it could not be counted
    return +found


if __name__ == "__main__":
    for file, number in readers().items():
        print(f"{number:3} {file:32} {STRANGERS.get(file, (0, 'OUR OWN TEXT'))[1]}")
    print(count_own_text(), "read our own text")
