"""`proveout models`: what the corpora hold."""

from __future__ import annotations

import ast
import itertools
import shutil
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from proveout.capture import read_labels
from proveout.cli.options import Json, Labels, SearchDir
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.request import chosen_scripts
from proveout.errors import UsageError
from proveout.report.tables.terminal import grid
from proveout.words import counted


class CorpusAction(StrEnum):
    list = "list"


def verb(
    action: Annotated[CorpusAction, typer.Argument(help="What to do with them.")] = CorpusAction.list,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only scripts whose name holds this.")] = "",
    search_dir: SearchDir = None,
    labels: Labels = None,
    as_json: Json = False,
) -> int:
    """List the scripts of the corpora.

    All of them, or those with this in their name or with these labels. Nothing is run.

    \b
    Examples:
      proveout models list bert
      proveout models list --labels task::Computer_Vision author::google
      proveout models list --search-dir selftest --json
    """
    scripts = [script for script, _ in chosen_scripts(None, search_dir, True, labels) if name in script.stem]
    if not scripts:
        raise UsageError(f"no script has {name!r} in its name. List all: proveout models list")
    rows: list[dict[str, Any]] = [
        {
            "script": str(script),
            "corpus": script.parent.name,
            "name": script.stem,
            "labels": {key: list(values) for key, values in read_labels(script)},
            "about": _about(script.read_text(encoding="utf-8", errors="replace")),
        }
        for script in scripts
    ]
    if as_json:
        emit_json({"models": rows})
        return 0
    titles = ("Corpus", "Script", "Author", "Task", "About")
    width = shutil.get_terminal_size((WIDE, 24)).columns
    emit(
        _by_corpus(rows, width)
        if width < WIDE
        else grid(
            titles,
            [
                (
                    row["corpus"],
                    f"{row['name']}.py",
                    ", ".join(row["labels"].get("author", [])),
                    ", ".join(row["labels"].get("task", [])),
                    row["about"],
                )
                for row in rows
            ],
            colour(),
        )
    )
    corpora = {row["corpus"] for row in rows}
    scripts_of = f"{counted(len(rows), 'script')} in {counted(len(corpora), 'corpus', 'corpora')}"
    note(f"{scripts_of}; to run one: proveout SCRIPT --search-dir CORPUS")
    return 0


WIDE = 160
"""Columns from which on a script's labels stand beside what it is about."""


def _by_corpus(rows: Sequence[dict[str, Any]], width: int) -> str:
    """A line for each script under its corpus: what it is about, as far as the terminal goes."""
    lines = []
    for corpus, members in itertools.groupby(rows, lambda row: row["corpus"]):
        scripts = [(f"{row['name']}.py", row["about"]) for row in members]
        room = min(max(len(name) for name, _ in scripts), width // 2)
        lines.append(f"{corpus} ({counted(len(scripts), 'script')})")
        lines += [_cut(f"  {name:{room}}  {about}", width) for name, about in scripts]
    return "\n".join(lines)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _about(source: str, most: int = 72) -> str:
    """The first line of a script's docstring."""
    try:
        text = ast.get_docstring(ast.parse(source)) or ""
    except SyntaxError:
        return ""
    line = text.partition("\n")[0].strip()
    return _cut(line, most)
