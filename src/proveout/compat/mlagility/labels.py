"""The labels that finished builds left in a cache folder, by build name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from proveout.coding import read_json
from proveout.errors import UsageError


def load_from_cache(cache_dir: str | Path, build_name: str) -> dict[str, list[str]]:
    """The labels of the Record whose workload is named `build_name`, as `{"author": ["google"], …}`."""
    folder = Path(cache_dir)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder. Name the folder that `--cache-dir` named when benchmarking.")
    names = set()
    for name, labels in _workloads(folder):
        if name == build_name:
            return labels
        names.add(name)
    near = difflib.get_close_matches(build_name, sorted(names), n=3)
    hint = f" Near: {', '.join(near)}." if near else ""
    raise UsageError(
        f"{folder} holds no Record named {build_name!r} among {len(names)}.{hint}"
        f" Run: proveout cache list --cache-dir {folder}"
    )


def _workloads(folder: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Name and labels of every readable Record; files that are something else are passed over."""
    for path in sorted(folder.glob("**/*.json")):
        try:
            workload = read_json(path)["job"]["workload"]
            yield workload["name"], {key: list(values) for key, values in workload["labels"]}
        except (OSError, ValueError, LookupError, TypeError):
            continue


__all__ = ["load_from_cache"]
