"""Stamps of every call in a memory-mapped file: what was written survives whoever wrote it, even after kill -9.

A file is rows of int64, one a call, `end` last. A row counts once its `end` is there, so a torn row is no call. A
negative `end` is no call either: the chain of a closed loop, in which the end of one call is the start of the next,
begins again at that time. Rows are written in order and the rest of a file is zero, so no counter has to be kept.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from proveout.coding import check_plain

Stamps = npt.NDArray[np.int64]
NO_STAMPS: Stamps = np.empty(0, dtype=np.int64)


FIRST_ROWS, MOST_ROWS = 4096, 1 << 18
"""Rows of the first and of the largest piece that a file grows by: multiples of a page whatever the columns."""
WORD = 8

ORDER = ("intended", "start", "preprocess", "infer", "device", "end")
"""Columns that a row may have, in this order. All are stamps but `device`, which is a duration."""


class NoRoom(Exception):
    """There is no memory or disk for more stamps; those so far are kept."""


class StampWriter:
    """Rows in the making. The caller writes into `view` at `row * width`, which costs what a list's store costs."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.width = len(columns)
        self.rows = FIRST_ROWS // 2
        self._offset = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.grow()

    def grow(self) -> None:
        """The next piece of the file: room is claimed and mapped now, so that no later store can fail or fault."""
        self.rows = min(self.rows * 2, MOST_ROWS)
        size = self.rows * self.width * WORD
        try:
            os.posix_fallocate(self._file, self._offset, size)
        except OSError as error:
            raise NoRoom(
                f"there is no room for more stamps ({error.strerror}): measure for less long, or use "
                "recording='histogram'"
            ) from error
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self.view = memoryview(mmap.mmap(self._file, size, flags=flags, offset=self._offset)).cast("q")
        self.row = 0
        self._offset += size

    def restart(self, now_ns: int) -> None:
        """The next call starts at this time, not where the last one ended."""
        if self.row == self.rows:
            self.grow()
        self.view[(self.row + 1) * self.width - 1] = -now_ns
        self.row += 1

    def written(self, row: int) -> int:
        """The first row after `row` that is not complete."""
        while row < self.rows and self.view[(row + 1) * self.width - 1]:
            row += 1
        return row

    def close(self) -> None:
        os.close(self._file)


class MemoryWriter(StampWriter):
    """The same rows in this process's memory: for calls that nobody has to rescue."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.width = len(columns)
        self.rows = FIRST_ROWS // 2
        self._columns = tuple(columns)
        self._pieces: list[Stamps] = []
        self.grow()

    def grow(self) -> None:
        self.rows = min(self.rows * 2, MOST_ROWS)
        self._pieces.append(np.zeros(self.rows * self.width, dtype=np.int64))
        self.view = self._pieces[-1].data
        self.row = 0

    def calls(self) -> Calls:
        """What was written so far."""
        return calls_of(np.concatenate(self._pieces), self._columns)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, eq=False)
class Calls:
    """The completed calls of one file; what it has no column for is empty."""

    starts_ns: Stamps
    ends_ns: Stamps
    intended_ns: Stamps
    preprocess_ns: Stamps
    infer_ns: Stamps
    postprocess_ns: Stamps
    device_ns: Stamps


def read_calls(path: Path, columns: Sequence[str]) -> Calls:
    """All calls that a file holds, by whomever and however suddenly it was left."""
    if not path.exists():
        return Calls(*[NO_STAMPS] * 7)
    return calls_of(np.fromfile(check_plain(path), dtype=np.int64), columns)


def calls_of(words: Stamps, columns: Sequence[str]) -> Calls:
    """The completed calls among rows of so many columns."""
    if tuple(columns) == ("end",):
        return _chain(words)
    table = words[: len(words) - len(words) % len(columns)].reshape(-1, len(columns))
    unwritten = table[:, -1] == 0
    table = table[: int(unwritten.argmax())] if unwritten.any() else table
    is_call = table[:, -1] > 0
    column = {name: table[is_call, i] for i, name in enumerate(columns)}
    starts, ends = column["start"], column["end"]
    prepared, inferred = column.get("preprocess"), column.get("infer")
    in_parts = prepared is not None or inferred is not None
    called = starts if prepared is None else prepared
    answered = ends if inferred is None else inferred
    return Calls(
        starts,
        ends,
        column.get("intended", NO_STAMPS),
        NO_STAMPS if prepared is None else prepared - starts,
        answered - called if in_parts else NO_STAMPS,
        NO_STAMPS if inferred is None else ends - inferred,
        column.get("device", NO_STAMPS),
    )


def _chain(ends: Stamps) -> Calls:
    """Calls that each start where the last one ended, in runs between two negative stamps: copied run by run."""
    unwritten = ends == 0
    ends = ends[: int(unwritten.argmax())] if unwritten.any() else ends
    marks = np.flatnonzero(ends < 0)
    runs = [(a, b) for a, b in zip(marks, [*marks[1:], len(ends)]) if b > a + 1]
    if not runs:
        return Calls(*[NO_STAMPS] * 7)
    completed = np.concatenate([ends[a + 1 : b] for a, b in runs])
    starts = np.concatenate([ends[a : b - 1] for a, b in runs])
    firsts = np.cumsum([0, *(b - a - 1 for a, b in runs[:-1])])
    starts[firsts] *= -1
    return Calls(starts, completed, *[NO_STAMPS] * 5)


class StampProgress:
    """Follows a file that is being written: when the last call ended, for a few reads a look."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path, self._width, self._row = path, len(columns), 0
        self._file: int | None = None

    def latest_ns(self) -> int:
        """The stamp of the last row that is complete; 0 before the first."""
        if self._file is None:
            if not self._path.exists():
                return 0
            self._file = os.open(self._path, os.O_RDONLY)
        step = 1
        while self._end(self._row + step - 1):
            self._row += step
            step *= 2
        while step > 1:
            step //= 2
            if self._end(self._row + step - 1):
                self._row += step
        return abs(self._end(self._row - 1)) if self._row else 0

    @property
    def rows(self) -> int:
        return self._row

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _end(self, row: int) -> int:
        assert self._file is not None
        word = os.pread(self._file, WORD, ((row + 1) * self._width - 1) * WORD)
        return int.from_bytes(word, "little", signed=True)
