"""Scripts and what lies beside them, sent to nodes that do not see their folder."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.capture import Discovery
from proveout.store import Store, read_record
from proveout.sweep.results import Result
from proveout.sweep.tasks import Find, Prove, Task

MOST_BYTES, MOST_FILE_BYTES, MOST_FILES = 64 << 20, 16 << 20, 2000
"""Of one folder: what is more is left out, and a script that needs it says so itself. Python files go first."""


@dataclass(frozen=True)
class Parcel:
    """A folder as a zip archive; scripts lie in it, or below it where they are a package's."""

    folder: str
    archive: bytes
    digest: str


def root_of(script: Path) -> Path:
    """The folder that a script needs: its own, or the outermost package around it."""
    folder = script.absolute().parent
    while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


def parcel(folder: Path) -> Parcel:
    """Pack a folder: the same files give the same archive."""
    buffer, total = io.BytesIO(), 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        files = sorted(_files(folder), key=lambda path: (path.suffix != ".py", path))
        for path in files[:MOST_FILES]:
            size = path.stat().st_size
            if size > MOST_FILE_BYTES or total + size > MOST_BYTES:
                continue
            total += size
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    packed = buffer.getvalue()
    return Parcel(str(folder), packed, hashlib.sha256(packed).hexdigest()[:16])


def _files(folder: Path) -> Iterator[Path]:
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in ("__pycache__", "node_modules"))
        for path in (Path(top, name) for name in names if not name.startswith(".")):
            if path.is_file() and os.access(path, os.R_OK):
                yield path


@contextmanager
def at_hand(task: Task, sent: Parcel | None) -> Iterator[Task]:
    """The Task with a script that is on this machine: its own, or the one that was sent.

    Unpacked for this one Task: what a script writes beside itself does not reach the next.
    """
    if sent is None or task.script.is_file():
        yield task
        return
    with tempfile.TemporaryDirectory(prefix="proveout-") as place:
        home = Path(place, Path(sent.folder).name)
        with zipfile.ZipFile(io.BytesIO(sent.archive)) as archive:
            archive.extractall(home)
        yield _moved(task, home / task.script.relative_to(sent.folder))


def _moved(task: Task, script: Path) -> Task:
    if isinstance(task, Find):
        return dataclasses.replace(task, script=script)
    workload = dataclasses.replace(task.job.workload, script=str(script))
    return dataclasses.replace(task, job=dataclasses.replace(task.job, workload=workload))


def as_asked(answer: Any, task: Task) -> Any:
    """An answer, or the Record that it names, with the script's own place instead of where it was unpacked."""
    script = str(task.script)
    if isinstance(answer, Discovery) and answer.script != script:
        workloads = tuple(dataclasses.replace(w, script=script) for w in answer.workloads)
        return dataclasses.replace(answer, script=script, workloads=workloads)
    if isinstance(answer, Result) and isinstance(task, Prove) and answer.row.script != script:
        record = dataclasses.replace(read_record(answer.path), job=task.job)
        Store(task.store).write_at(answer.path, record)
        return dataclasses.replace(answer, row=dataclasses.replace(answer.row, script=script))
    return answer


def parcels(scripts: Sequence[Path]) -> dict[Path, Parcel]:
    """The folders of all scripts, by folder."""
    return {folder: parcel(folder) for folder in sorted({root_of(script) for script in scripts}) if folder.is_dir()}
