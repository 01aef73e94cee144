"""What lies in a cache folder, and how to thin it out: Records, their samples, compiled Programs, leftovers."""

from __future__ import annotations

import fnmatch
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from proveout.clock.timing import judged
from proveout.columns.table import Row, row
from proveout.errors import UsageError, unknown
from proveout.store import Store, on_machine, read_record
from proveout.types import SCHEMA, Record

REMADE = ("programs", "discoveries")
"""Folders inside a cache that can be made again: compiled Programs, what scripts were found to hold, compiled C."""
FRESH_S = 3600
"""A temporary file this young may still be being written."""


@dataclass(frozen=True)
class Entry:
    """One Record's place: its row, its file and the bytes it takes with its samples."""

    path: Path
    row: Row
    num_bytes: int


@dataclass(frozen=True)
class Removed:
    """What was deleted: the files, and the bytes they took."""

    files: tuple[Path, ...]
    num_bytes: int


def entries(store: Store) -> list[Entry]:
    """Every readable Record, by model and device; one is held at a time."""
    listed = [
        Entry(path, row(on_machine(record, path.parent.name)), _bytes(_files(path)))
        for path, record in _readable(store)
    ]
    return sorted(listed, key=lambda e: (e.row.model, e.row.device, e.row.did, e.row.created, e.row.key))


def chosen(store: Store, names: Sequence[str]) -> list[Entry]:
    """The Records that some names mean: a model, a pattern of models, or the beginning of a key."""
    everything = entries(store)
    picked = []
    for name in names:
        hits = [e for e in everything if fnmatch.fnmatchcase(e.row.model, name)]
        hits = hits or [e for e in everything if len(name) >= 4 and e.row.key.startswith(name)]
        if not hits:
            raise unknown(f"model or key in the cache {store.folder}:", name, {e.row.model for e in everything})
        picked += hits
    return list({entry.path: entry for entry in picked}.values())


def record_of(entry: Entry) -> Record:
    return read_record(entry.path)


def delete(entries: Sequence[Entry]) -> Removed:
    """Forget Records and their samples."""
    return _remove([file for entry in entries for file in _files(entry.path)])


def clean(store: Store, older_than_days: float | None = None, unreadable: bool = False) -> Removed:
    """Delete what can be made again or belongs to nothing; Records only by age, or where nobody can read them."""
    goes = [file for name in REMADE for file in _below(store.folder / name)]
    goes += [path for path in store.folder.glob("*/.*.tmp") if time.time() - path.stat().st_mtime > FRESH_S]
    goes += [path for path in store.folder.glob("*/*.parquet") if not path.with_suffix(".json").exists()]
    if unreadable:
        goes += [file for path, _ in store.records()[1] for file in _files(path)]
    if older_than_days is not None:
        if older_than_days < 0:
            raise UsageError(f"--older-than takes a number of days, not {older_than_days}.")
        limit = datetime.now(UTC) - timedelta(days=older_than_days)
        goes += [f for path, record in _readable(store) if _created(record, path) < limit for f in _files(path)]
    return _remove(goes)


def upgrade(store: Store) -> list[Path]:
    """Rewrite every Record of an older schema in this one, its samples judged; the files that were."""
    old = [(path, record) for path, record in _readable(store) if record.schema != SCHEMA]
    return [store.write_at(path, replace(record, timings=tuple(map(judged, record.timings)))) for path, record in old]


def stats(store: Store) -> dict[str, Any]:
    """How much lies there, and of what."""
    listed = entries(store)
    remade = {name: _below(store.folder / name) for name in REMADE}
    return {
        "records": len(listed),
        "unreadable": len(store.records()[1]),
        "record_bytes": sum(entry.num_bytes for entry in listed),
        **{name: len(files) for name, files in remade.items()},
        **{f"{name}_bytes": _bytes(files) for name, files in remade.items()},
        **{f"by_{key}": dict(Counter(getattr(e.row, key) for e in listed)) for key in ("status", "device", "machine")},
        "by_failure": dict(Counter(e.row.failure for e in listed if e.row.failure)),
        "oldest": min((e.row.created for e in listed), default=None),
        "newest": max((e.row.created for e in listed), default=None),
    }


def _readable(store: Store) -> Iterator[tuple[Path, Record]]:
    for path in sorted(store.folder.glob("*/*.json")):
        try:
            yield path, read_record(path)
        except (OSError, ValueError):
            continue


def _created(record: Record, path: Path) -> datetime:
    try:
        created = datetime.fromisoformat(record.created)
    except ValueError:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return created if created.tzinfo else created.replace(tzinfo=UTC)


def _files(path: Path) -> list[Path]:
    """A Record's file and its samples'."""
    return [file for file in (path, path.with_suffix(".parquet")) if file.exists()]


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _remove(files: Sequence[Path]) -> Removed:
    size = _bytes(files)
    for file in files:
        file.unlink(missing_ok=True)
    return Removed(tuple(files), size)
