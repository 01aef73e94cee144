"""Builds, as MLAgility calls what a cache holds of one model: its Records and its ONNX files, by script and hash."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.cache import Entry, entries
from proveout.errors import UsageError, unknown
from proveout.store import Store, read_record
from proveout.types import Record


def builds(store: Store) -> dict[str, list[tuple[Entry, Record]]]:
    """The Records of every build, by its name; the models of a script that failed have no hash."""
    grouped: dict[str, list[tuple[Entry, Record]]] = {}
    for entry in entries(store):
        record = read_record(entry.path)
        grouped.setdefault(record.job.workload.build_name, []).append((entry, record))
    return dict(sorted(grouped.items()))


def named(store: Store, name: str | None, everything: bool, verb: str) -> dict[str, list[tuple[Entry, Record]]]:
    """One build by its name, by MLAgility's own hash in it, or by its model's name; or all of them."""
    if (name is None) != everything:
        raise UsageError(f"name one build, or say --all: benchit cache {verb} NAME. They are in: benchit cache list")
    known = builds(store)
    if name is None:
        return known
    chosen = {build: records for build, records in known.items() if _is_called(name, build, records)}
    if not chosen:
        raise unknown(f"build in the cache {store.folder}:", name, known)
    return chosen


def _is_called(name: str, build: str, records: Sequence[tuple[Entry, Record]]) -> bool:
    workload = records[0][1].job.workload
    stem = build.removesuffix(f"_{workload.selector}")
    author = dict(workload.labels).get("author", ())
    spelled = {build, workload.name}
    for hash_ in (workload.selector, *workload.other_hashes):
        spelled |= {f"{stem}_{hash_}", *(f"{stem}_{one}_{hash_}" for one in author)}
    return name in spelled
