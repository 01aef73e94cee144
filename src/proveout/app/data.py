"""What the explorer reads: the store's Records as flat rows, one Record whole, and the Programs that belong to it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from proveout import recording
from proveout.columns.table import Row, row
from proveout.columns.words import called, latency_ms, numbers, off_host
from proveout.devices.registry import describe, find
from proveout.errors import ProveoutError
from proveout.kernels.accept import load_program
from proveout.store import on_machine, read_record
from proveout.types import Record

if TYPE_CHECKING:
    from proveout.recording import Recorded
    from proveout.report.perf.sheet import Sheet

Stamp = tuple[int, int]
"""A file's time and size: another stamp, and it is read again."""


@dataclass(frozen=True)
class Entry:
    """One Record as the board has it. The whole Record stays on disk."""

    id: str
    """`<machine>/<job key>`, its place below the store: what deep links name."""
    path: Path
    row: Row
    programs: tuple[str, ...] = ()
    """Fingerprints of its Programs."""
    artifacts: str = ""
    """Folder its Job was to leave the Programs in."""

    @property
    def title(self) -> str:
        """`bert --small on sim:n150, bfloat16 fast`."""
        return f"{called(self.row)} on {self.row.device}, {numbers(self.row)}"

    @functools.cached_property
    def subject(self) -> tuple[str, ...]:
        """What Records must share to be points of one trend: the model with its shapes, its script (by folder and
        name: stores travel), the device, the numbers, the machine and what was done."""
        flat = self.row
        script = "/".join(flat.script.split("/")[-2:])
        what = (flat.model, script, flat.selector, flat.device, flat.load or "")
        return (*what, numbers(flat), flat.did, flat.machine)

    @property
    def run(self) -> tuple[object, ...]:
        """What was run, where and how: Records that share it have the same modelled time and memory."""
        return (self.programs, self.row.device, self.row.settings)

    @property
    def coverage(self) -> float | None:
        """Share of ATen ops that are off the host."""
        return off_host(self.row)

    def latency_ms(self, kind: str) -> float | None:
        """Median time of a call of the compiled model, where it is of this kind."""
        return latency_ms(self.row, kind)


@dataclass(frozen=True)
class Board:
    """A store as it is now."""

    folder: Path
    entries: tuple[Entry, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    """(file below the folder, reason)."""

    def find(self, name: str) -> Entry | None:
        """The Record of a deep link: its id, its key alone, or a model's name for the newest Record of it."""
        exact = [e for e in self.entries if name in (e.id, e.path.stem)]
        named = sorted((e for e in self.entries if e.row.model == name), key=lambda e: e.row.created)
        return exact[0] if exact else named[-1] if named else None

    def history(self, entry: Entry) -> tuple[Entry, ...]:
        """The Records of the same subject, oldest first."""
        return self._subjects[entry.subject]

    @functools.cached_property
    def _subjects(self) -> dict[tuple[str, ...], tuple[Entry, ...]]:
        by_subject: dict[tuple[str, ...], list[Entry]] = {}
        for entry in sorted(self.entries, key=lambda e: (e.row.created, e.id)):
            by_subject.setdefault(entry.subject, []).append(entry)
        return {subject: tuple(entries) for subject, entries in by_subject.items()}

    def with_programs(self, entry: Entry) -> tuple[Entry, ...]:
        """Records that left the very Programs of this one on disk, for the same device and settings, which decide what
        a Program takes there; its own come first."""
        alike = [e for e in self.entries if e.artifacts and e.programs and e.run == entry.run]
        alike.sort(key=lambda e: e is not entry)
        return tuple(e for e in alike if Path(e.artifacts).is_dir())


def board(folder: Path) -> Board:
    """Read a store; files that have not changed since the last time are not read again. One reader at a time: another
    finds what the first has read."""
    entries, unreadable = [], []
    with _READING:
        for path in folder.glob("*/*.json"):
            entry = _entry(path)
            if isinstance(entry, Entry):
                entries.append(entry)
            else:
                unreadable.append((path.relative_to(folder).as_posix(), entry))
    return Board(folder, tuple(sorted(entries, key=lambda e: (e.row.model.lower(), e.id))), tuple(sorted(unreadable)))


_KNOWN: dict[Path, tuple[Stamp, Entry | str]] = {}
_READING = threading.Lock()


def _entry(path: Path) -> Entry | str:
    """A file's Entry, or why it has none."""
    try:
        stamp = _stamp(path)
        known = _KNOWN.get(path)
        if known and known[0] == stamp:
            return known[1]
        entry: Entry | str = _read(path)
    except OSError as error:
        return error.strerror or str(error)
    _KNOWN[path] = stamp, entry
    return entry


def _read(path: Path) -> Entry | str:
    try:
        record = read_record(path)
    except ValueError as error:
        return str(error)
    flat = row(on_machine(record, path.parent.name))
    programs = tuple(fingerprint for fingerprint, _ in record.programs)
    return Entry(f"{path.parent.name}/{path.stem}", path, flat, programs, record.job.artifacts)


def _stamp(path: Path) -> Stamp:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


# ------------------------------------------------------------------------------- one Record and its Programs


def record(entry: Entry) -> Record:
    """The whole Record."""
    return _record(entry.path, _stamp(entry.path))


@functools.lru_cache(maxsize=16)
def _record(path: Path, stamp: Stamp) -> Record:
    return read_record(path)


def recorded(board: Board, entry: Entry) -> list[Recorded]:
    """The Programs of a Record: from the first folder that holds all of them, or from the cache of compiled graphs;
    none where neither does."""
    fingerprints = entry.programs
    for source in board.with_programs(entry):
        programs = _recorded(source.path, source.artifacts, _newest(Path(source.artifacts)))
        if {one.program.fingerprint for one in programs} >= set(fingerprints):
            return [one for one in programs if one.program.fingerprint in fingerprints]
    return _cached(entry.path, fingerprints, board.folder)


def _cached(path: Path, fingerprints: tuple[str, ...], folder: Path) -> list[Recorded]:
    """What compiling left beside the Records or in this user's cache; torch is imported only where somebody looks."""
    from proveout.engine.cache import program_of

    job = read_record(path).job
    info = describe(job.device)
    programs = [program_of(name, folder) or program_of(name) for name in fingerprints]
    if info is None or info.spec is None or None in programs:
        return []
    for_ttnn = [one for one in programs if one is not None and one.target == "ttnn"]
    return [recording.Recorded(job.device, info.spec, job.settings, one) for one in for_ttnn]


@functools.lru_cache(maxsize=8)
def _recorded(path: Path, artifacts: str, newest: int) -> list[Recorded]:
    """What `proveout perf` recorded in a folder; or the bare Programs that another verb left, on the Job's device."""
    job = read_record(path).job
    try:
        programs = recording.load(Path(artifacts))
        chip = find(job.device).spec
        if not programs and chip is not None:
            folders = sorted(p.parent for p in Path(artifacts).rglob("program.json"))
            programs = [recording.Recorded(job.device, chip, job.settings, load_program(f)) for f in folders]
    except (ProveoutError, OSError):
        return []
    return [one for one in programs if one.program.target == "ttnn"]


def _newest(folder: Path) -> int:
    return max((path.stat().st_mtime_ns for path in folder.rglob("program.json")), default=0)


def sheet(entry: Entry, programs: Sequence[Recorded], num_breaks: int = 0) -> Sheet:
    """The perf sheet of a Record's Programs: modelled again, nothing runs."""
    from proveout.report.perf.sheet import make_sheet

    return make_sheet(entry.row.model, programs, num_breaks)
