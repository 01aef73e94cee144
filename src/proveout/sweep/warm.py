"""A stand-in for `isolate.run_python` that forks one warm process instead of starting an interpreter for each call."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from proveout.errors import EnvironmentFault
from proveout.isolate import Outcome, last_lines

ATTEMPTS = 2
"""A server that dies (the system's memory killer takes the largest) is started again, and its calls made again."""


class Stopped(BaseException):
    """The call was ended because the sweep is over; nobody wants its result."""


class WarmServer:
    """Runs calls from many threads, each in a child of its own; starts its process with the first."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self.modules = modules
        self.stopped = False
        self._lock = threading.Lock()
        self._link: _Link | None = None

    def run(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float,
        memory_bytes: int | None = None,
        environment: Mapping[str, str] | None = None,
        cpus: Collection[int] = (),
        fresh: bool = False,
    ) -> Outcome:
        """`isolate.run_python` in a fork of the warm process, or below it in a fresh interpreter, on these cores."""
        with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
            source, log = Path(folder, "stdin"), Path(folder, "log")
            source.write_text(stdin)
            call = {
                "module": module,
                "arguments": list(arguments),
                "stdin": str(source),
                "log": str(log),
                "timeout_s": timeout_s,
                "memory_bytes": memory_bytes,
                "environment": dict(environment or {}),
                "cpus": sorted(cpus),
                "fresh": fresh,
            }
            started = time.monotonic()
            for _ in range(ATTEMPTS):
                log.write_bytes(b"")
                answer = self._connected().ask(call)
                if self.stopped:
                    raise Stopped
                if answer is not None:
                    return Outcome(answer["returncode"], answer["seconds"], answer["timed_out"], last_lines(log))
            return Outcome(None, time.monotonic() - started, False, last_lines(log))

    def stop(self) -> None:
        """End the process and everything it runs; calls in flight raise Stopped."""
        with self._lock:
            self.stopped = True
            if self._link is not None:
                self._link.close()

    def _connected(self) -> _Link:
        with self._lock:
            if self.stopped:
                raise Stopped
            if self._link is None or self._link.lost:
                self._link = _Link(self.modules)
            return self._link


class _Link:
    """One server process and the socket to it; a thread of its own hands the answers out."""

    def __init__(self, modules: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "proveout.sweep.server", str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentFault(
                f"cannot start {sys.executable}: {error.strerror}. Install Proveout again."
            ) from error
        theirs.close()
        self.socket, self.lost = ours, False
        self._lock = threading.Lock()
        self._answers: dict[int, Future[dict[str, Any] | None]] = {}
        self._count = 0
        threading.Thread(target=self._listen, daemon=True, name="answers of the warm process").start()

    def ask(self, call: dict[str, Any]) -> dict[str, Any] | None:
        """Send one call and wait for its answer; None when the server is gone."""
        answer: Future[dict[str, Any] | None] = Future()
        with self._lock:
            if self.lost:
                return None
            self._count += 1
            self._answers[self._count] = answer
            try:
                self.socket.sendall(json.dumps({"id": self._count, **call}).encode() + b"\n")
            except OSError:
                return None
        return answer.result()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # the server sees it, ends its children and itself
        self.process.wait()

    def _listen(self) -> None:
        with self.socket.makefile("rb") as lines:
            try:
                for line in lines:
                    message = json.loads(line)
                    with self._lock:
                        answer = self._answers.pop(message["id"])
                    answer.set_result(message)
            except OSError:
                pass
        with self._lock:
            self.lost = True
            waiting = list(self._answers.values())
            self._answers.clear()
        for answer in waiting:
            answer.set_result(None)
        self.process.wait()
