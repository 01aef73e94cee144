"""A child process as pages see it: its folder, its log, whether it runs, and one way to stop it."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

from proveout import isolate

KEPT = 50
"""Children that a server remembers; the oldest finished ones go first."""


class Child:
    """One child process with limits. A thread of its own starts it and waits for it: the system ends a child with the
    thread that started it, and Streamlit's threads are short-lived."""

    def __init__(self, module: str, *, stdin: str, timeout_s: float, memory_bytes: int | None = None) -> None:
        self.id = secrets.token_hex(4)
        self.began = time.monotonic()
        self.stopped = False
        self.outcome: isolate.ChildExit | None = None
        self.pid: int | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="proveout-run-")
        self._thread = threading.Thread(target=self._work, args=(module, stdin, timeout_s, memory_bytes), daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return time.monotonic() - self.began if self.outcome is None else self.outcome.seconds

    def start(self) -> None:
        """For a subclass, once it has all it needs."""
        self._thread.start()

    def stop(self) -> None:
        """End the child and all it started, now."""
        self.stopped = True
        if self.pid is not None and self.running:
            isolate.kill_group(self.pid)

    def wait(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def log(self) -> str:
        """The last lines that the child printed."""
        path = self.folder / "log"
        return isolate.last_lines(path) if path.exists() else ""

    def ended(self) -> None:
        """Called in the child's thread when it is over."""

    def _work(self, module: str, stdin: str, timeout_s: float, memory_bytes: int | None) -> None:
        self.outcome = isolate.run_python(
            module,
            [str(self.folder)],
            stdin=stdin,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            log=self.folder / "log",
            started=self._started,
        )
        self.ended()

    def _started(self, pid: int) -> None:
        self.pid = pid
        if self.stopped:
            isolate.kill_group(pid)


ChildT = TypeVar("ChildT", bound=Child)


class Children(Generic[ChildT]):
    """The children of all tabs of one server, by their id."""

    def __init__(self) -> None:
        self._children: dict[str, ChildT] = {}

    def add(self, child: ChildT) -> ChildT:
        """Remember a child."""
        self._children[child.id] = child
        for old in self._forgotten():
            del self._children[old]
        return child

    def get(self, child_id: str) -> ChildT | None:
        return self._children.get(child_id)

    def _forgotten(self) -> Sequence[str]:
        over = [child.id for child in self._children.values() if not child.running]
        return over[: max(0, len(self._children) - KEPT)]
