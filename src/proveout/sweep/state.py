"""How far a sweep has come, as a file in its store: what the app reads while it runs and after.

`<store>/sweeps/<name>/state.json`, one level deeper than Records lie, so that nothing takes it for one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from proveout.coding import from_json, read_json, to_json
from proveout.store import Store, machine, write_text
from proveout.sweep.results import Result

if TYPE_CHECKING:
    from proveout.sweep.controller import Listener

FOLDER, FILE = "sweeps", "state.json"
KEPT = 20
"""Sweeps that a store remembers."""
SELDOM_S = 1.0
"""Between two writes: the sweep may be timing models on the same disk."""
MOST_FAILURES = 200


@dataclass(frozen=True)
class FailedRecord:
    """One Record that did not pass; `record` is its place below the store."""

    model: str
    device: str
    status: str
    reason: str
    record: str


@dataclass(frozen=True)
class State:
    """A sweep as it is now."""

    name: str
    what: str
    """`check, benchmark on sim:n150`."""
    started: str
    updated: str
    machine: str
    process: int
    num_scripts: int
    scripts_left: int
    """Scripts whose models are not known yet: about one Job each."""
    num_jobs: int = 0
    num_done: int = 0
    num_failed: int = 0
    num_known: int = 0
    """Of those done, how many Records were there before."""
    running: tuple[str, ...] = ()
    failures: tuple[FailedRecord, ...] = ()
    ended: Literal["", "finished", "stopped", "failed"] = ""
    why: str = ""
    """What ended a sweep that failed: a wrong command line, or a fault of ours."""

    @property
    def num_left(self) -> int:
        """At least: a script that has not been looked at counts one."""
        return self.num_jobs - self.num_done + self.scripts_left

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, as far as one can tell from here."""
        if self.ended:
            return False
        if self.machine != machine():
            return True
        try:
            os.kill(self.process, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            pass
        return True


def states(store: Store) -> list[State]:
    """The sweeps that a store remembers, the newest first; a file that cannot be read is passed over."""
    listed = []
    for path in (store.folder / FOLDER).glob(f"*/{FILE}"):
        with contextlib.suppress(OSError, ValueError):
            listed.append(from_json(State, read_json(path)))
    return sorted(listed, key=lambda state: state.started, reverse=True)


class Noted:
    """A Listener that hands everything on to another and keeps the State in the store."""

    def __init__(self, listener: Listener, store: Store, what: str, num_scripts: int) -> None:
        self.listener, self.store = listener, store
        now = _now()
        name = f"{now[:19].replace(':', '')}-{os.getpid()}"
        self.state = State(name, what, now, now, machine(), os.getpid(), num_scripts, num_scripts)
        self._lock = threading.Lock()
        self._soon: threading.Timer | None = None
        self._forget()
        self._write()

    def start(self, what: str) -> None:
        self._change(running=(*self.state.running, what))
        self.listener.start(what)

    def found(self, what: str, script: Path, models: int, error: str) -> None:
        self._change(running=_without(self.state.running, what))
        self.listener.found(what, script, models, error)

    def expect(self, jobs: int, scripts_left: int) -> None:
        self._change(num_jobs=jobs, scripts_left=scripts_left)
        self.listener.expect(jobs, scripts_left)

    def done(self, what: str, result: Result, seconds: float) -> None:
        state, flat = self.state, result.row
        failures = state.failures
        if flat.status not in ("passed", "compiled") and len(failures) < MOST_FAILURES:
            place = f"{result.path.parent.name}/{result.path.stem}"
            failures = (*failures, FailedRecord(flat.model, flat.device, flat.status, flat.reason, place))
        self._change(
            running=_without(state.running, what),
            num_done=state.num_done + 1,
            num_failed=state.num_failed + result.failed,
            num_known=state.num_known + result.from_cache,
            failures=failures,
        )
        self.listener.done(what, result, seconds)

    def end(self, how: Literal["finished", "stopped", "failed"], why: str = "") -> None:
        """Leave the last word; nothing is written after it."""
        self._change(running=(), ended=how, why=why)
        soon = self._soon
        if soon is not None:
            soon.cancel()
            soon.join()
        self._write()

    def _change(self, **values: object) -> None:
        """Take a change at once and write it soon: many changes of one second are one write."""
        with self._lock:
            self.state = dataclasses.replace(self.state, updated=_now(), **values)  # type: ignore[arg-type]
            if self._soon is None:
                self._soon = threading.Timer(SELDOM_S, self._write)
                self._soon.daemon = True
                self._soon.start()

    def _write(self) -> None:
        """A disk that is full or read-only does not end a sweep."""
        with self._lock:
            self._soon, state = None, self.state
        with contextlib.suppress(OSError):
            write_text(self._folder / state.name / FILE, json.dumps(to_json(state), indent=1) + "\n")

    def _forget(self) -> None:
        for old in sorted(self._folder.glob("*/"))[: 1 - KEPT or None]:
            shutil.rmtree(old, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.store.folder / FOLDER


def _without(running: tuple[str, ...], what: str) -> tuple[str, ...]:
    if what not in running:
        return running
    at = running.index(what)
    return running[:at] + running[at + 1 :]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
