"""The labels that finished builds left in a cache folder, by build name."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from proveout.coding import read_json
from proveout.errors import UsageError


def load_from_cache(cache_dir: str | Path, build_name: str) -> dict[str, list[str]]:
    """The labels of the Record whose model or build is named `build_name`, as `{"author": ["google"], …}`; its
    model's class is one of them, `class`."""
    folder = Path(cache_dir)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder. Name the folder that `--cache-dir` named when benchmarking.")
    names: set[str] = set()
    count = 0
    for selector, labels in _workloads(folder):
        if build_name in selector:
            return labels
        names |= selector
        count += 1
    near = difflib.get_close_matches(build_name, sorted(names), n=3)
    hint = f" Near: {', '.join(near)}." if near else ""
    raise UsageError(
        f"{folder} holds no Record named {build_name!r} among {count}.{hint}"
        f" Run: proveout cache list --cache-dir {folder}"
    )


def _workloads(folder: Path) -> Iterator[tuple[set[str], dict[str, list[str]]]]:
    """Names and labels of every readable Record; files that are something else are passed over."""
    for path in sorted(folder.glob("**/*.json")):
        try:
            workload = read_json(path)["job"]["workload"]
            labels = {key: list(values) for key, values in workload["labels"]}
            if workload.get("class_name"):
                labels["class"] = [workload["class_name"]]
            stem = Path(workload.get("script", "")).stem
            hashes = [workload.get("selector", ""), *workload.get("other_hashes", ())]
            builds = (stem, *(f"{stem}_{author}" for author in labels.get("author", ())))
            names = {workload["name"], *(f"{build}_{one}" for build in builds for one in hashes if stem and one)}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
        yield names, labels


def load_from_file(file_path: str | Path) -> dict[str, list[str]]:
    """The labels in a script's first line."""
    with open(file_path, encoding="utf-8", errors="replace") as script:
        line = script.readline().strip()
    return to_dict(line.removeprefix("# labels:").split()) if line.startswith("# labels:") else {}


def to_dict(label_list: Iterable[str]) -> dict[str, list[str]]:
    """`["author::google", "group::a,b"]` as a dict; a word that is no label is passed over with a warning."""
    by_label: dict[str, list[str]] = {}
    for word in label_list:
        key, mark, values = word.partition("::")
        if key and mark and values and "::" not in values:
            by_label[key] = values.split(",")
        else:
            warnings.warn(f"the label {word!r} is malformed; write key::value or key::value,value", stacklevel=2)
    return by_label


def is_subset(wanted: dict[str, list[str]], labels: dict[str, list[str]]) -> bool:
    """Whether a script's labels have every key that is wanted, with one of its values."""
    return all(set(values) & set(labels.get(key, ())) for key, values in wanted.items())


__all__ = ["is_subset", "load_from_cache", "load_from_file", "to_dict"]
