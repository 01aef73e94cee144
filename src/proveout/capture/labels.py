"""A script's labels, from its first line: `# labels: author::google test_group::daily,monthly`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from proveout.errors import UsageError

Labels = tuple[tuple[str, tuple[str, ...]], ...]

_MARK = "# labels:"


def read_labels(path: str | Path) -> Labels:
    """The labels in a script's first line; none where that line is something else."""
    with open(path, encoding="utf-8-sig", errors="replace") as script:
        line = script.readline().rstrip()
    if not line.startswith(_MARK):
        return ()
    labels: dict[str, tuple[str, ...]] = {}
    for word in line.removeprefix(_MARK).split():
        key, mark, values = word.partition("::")
        listed = tuple(values.split(","))
        if not (key and mark and all(listed)) or "::" in values:
            raise UsageError(
                f"{path}:1: the label {word!r} is malformed. Write key::value or key::value,value:"
                f" {_MARK} author::google test_group::daily,monthly"
            )
        labels[key] = labels.get(key, ()) + listed
    return tuple(labels.items())


Script = TypeVar("Script", bound=tuple[Path, Any])


def with_labels(scripts: Sequence[Script], wanted: Sequence[str]) -> list[Script]:
    """The scripts that have all the labels wanted; of several values for one key, any will do."""
    choices: dict[str, set[str]] = {}
    for word in (word for text in wanted for word in text.split()):
        key, mark, values = word.partition("::")
        if not (key and mark and values):
            raise UsageError(f"--labels takes key::value, not {word!r}. For example: --labels test_group::selftest")
        choices.setdefault(key, set()).update(values.split(","))
    if not choices:
        return list(scripts)
    labels = [dict(read_labels(script[0])) for script in scripts]
    kept = [
        script
        for script, has in zip(scripts, labels)
        if all(values & set(has.get(key, ())) for key, values in choices.items())
    ]
    if not kept:
        known = sorted({f"{key}::{value}" for has in labels for key in has if key in choices for value in has[key]})
        theirs = ", ".join(known[:8]) + (" …" if len(known) > 8 else "") or "no such key"
        raise UsageError(f"none of {len(scripts)} scripts is labelled {' '.join(wanted)}; they have {theirs}.")
    return kept
