"""What a sweep keeps of each Job: its Record in the store, and one flat row in memory."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proveout.columns.table import Row, row
from proveout.prove import settle
from proveout.store import Store, read_record
from proveout.types import Job, Record

Rebuild = Literal["if_needed", "always", "never"]
"""Whether to make a Record that is there already; `never` makes none at all."""


@dataclass(frozen=True)
class Result:
    """One Record of this command and whether it was there before. The Record itself stays on disk."""

    path: Path
    row: Row
    from_cache: bool

    @property
    def failed(self) -> bool:
        return self.row.status in ("failed", "partial")

    @property
    def record(self) -> Record:
        """Read again at every call: a sweep holds no Records."""
        return read_record(self.path)


def known(store: Store, job: Job, rebuild: Rebuild, anywhere: bool = False) -> Result | None:
    """The Record that makes a Job unnecessary: made on this machine, or on any of a cluster's (`anywhere`)."""
    if rebuild == "always" or not all(_holds(Path(folder), job) for folder in (job.artifacts, job.dump) if folder):
        return None
    path = store.found_anywhere(job) if anywhere else store.path(job)
    try:
        record = read_record(path)
    except (OSError, ValueError):
        return None
    if record.status == "partial" or (record.failure == "timeout" and job.timeout_s > record.job.timeout_s):
        return None
    workload = dataclasses.replace(record.job.workload, labels=job.workload.labels)
    settled = settle(dataclasses.replace(record, job=dataclasses.replace(record.job, workload=workload)))
    if settled != record and path == store.path(job):
        store.write(settled)
    return Result(path, row(settled), from_cache=True)


MADE_BY = ".made-by.json"
"""In a folder that a Job left files in: its key, and what it left."""


def note_folders(job: Job) -> None:
    """Say in the folders that a Job left files in which they are: while they are there it is not done again."""
    for folder in map(Path, filter(None, (job.artifacts, job.dump))):
        folder.mkdir(parents=True, exist_ok=True)
        left = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != MADE_BY)
        Path(folder, MADE_BY).write_text(json.dumps({"key": job.key, "files": left}))


def _holds(folder: Path, job: Job) -> bool:
    """Whether a folder still has all that this very Job left there; of ONNX files, one of the version asked for."""
    if job.runtime == "ort":
        return any(folder.glob(f"*-op{job.onnx_opset or '*'}-base.onnx")) or job.workload.is_onnx
    try:
        left = json.loads(Path(folder, MADE_BY).read_text())
        return bool(left["key"] == job.key) and all(Path(folder, name).is_file() for name in left["files"])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def keep(store: Store, record: Record) -> Result:
    """Write a new Record, settled."""
    record = settle(record)  # what another process gave up on was settled nowhere else
    return Result(store.write(record), row(record), from_cache=False)
