"""A script's labels, from its first line: `# labels: author::google test_group::daily,monthly`."""

from __future__ import annotations

from pathlib import Path

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
