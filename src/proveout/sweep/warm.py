"""A stand-in for `isolate.run_python` that forks one warm process instead of starting an interpreter for each call."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from proveout.errors import EnvironmentFault
from proveout.isolate import ChildExit, kill_group, last_lines

CHANGING = ("CUDA_VISIBLE_DEVICES",)
"""Variables that a cluster sets for each Task anew, after the warm process has started."""
PATIENCE_S = 1.0
"""For a server that was told to end."""


class Stopped(BaseException):
    """The call was ended because the sweep is over; nobody wants its result."""


class WarmServer:
    """Runs calls from many threads, each in a child of its own; starts its process with the first."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self.modules = modules
        self.stopped = False
        self._lock = threading.Lock()
        self._shared: _Link | None = None
        self._links: set[_Link] = set()

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
    ) -> ChildExit:
        """`isolate.run_python` in a fork of the warm process, or below it in a fresh interpreter, on these cores.

        Where the warm process is lost meanwhile (the system's memory killer takes the largest, or a child turned on
        it), the call is made once more below one of its own: whoever did it cannot harm the others again.
        """
        call = {
            "module": module,
            "arguments": list(arguments),
            "stdin": stdin,
            "timeout_s": timeout_s,
            "memory_bytes": memory_bytes,
            "environment": {n: os.environ[n] for n in CHANGING if n in os.environ} | dict(environment or {}),
            "cpus": sorted(cpus),
            "fresh": fresh,
        }
        started = time.monotonic()
        outcome = self._link().ask(call)
        if outcome is None:
            own = self._link(own=True)
            outcome = own.ask(call)
            self._close(own)
        if self.stopped:
            raise Stopped
        return outcome or ChildExit(-signal.SIGKILL, time.monotonic() - started, False, "its parent was killed too")

    def stop(self) -> None:
        """End the process and everything it runs; calls in flight raise Stopped."""
        with self._lock:
            self.stopped = True
            links = list(self._links)
        for link in links:
            self._close(link)

    def _link(self, own: bool = False) -> _Link:
        with self._lock:
            if self.stopped:
                raise Stopped
            if not own and self._shared is not None and not self._shared.lost:
                return self._shared
            link = _Link(self.modules)
            self._links.add(link)
            if not own:
                self._shared = link
            return link

    def _close(self, link: _Link) -> None:
        link.close()
        with self._lock:
            self._links.discard(link)


def start(descriptor: int, arguments: Sequence[str], said: IO[bytes]) -> subprocess.Popen[bytes]:
    """A warm process that is spoken to by this socket, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "proveout.sweep.server", str(descriptor), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        pass_fds=[descriptor],
        start_new_session=True,
    )


class _Link:
    """One server process and the socket to it; a thread of its own hands the answers out."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="proveout-", ignore_cleanup_errors=True)
        self.said = Path(self.folder.name, "said")
        self.socket, theirs = socket.socketpair()
        with self.said.open("wb") as said:
            self.process = start(theirs.fileno(), [self.folder.name, *modules], said)
        theirs.close()
        self.ready, self.lost, self.closed = False, False, False
        self._lock = threading.Lock()
        self._answers: dict[int, Future[dict[str, Any] | None]] = {}
        self._count = 0
        threading.Thread(target=self._listen, daemon=True, name="answers of the warm process").start()

    def ask(self, call: dict[str, Any]) -> ChildExit | None:
        """Make one call and wait for its outcome; None when the server is lost."""
        os.makedirs(self.folder.name, exist_ok=True)  # a script may have removed it: no other one suffers
        with tempfile.TemporaryDirectory(dir=self.folder.name, ignore_cleanup_errors=True) as folder:
            source, log = Path(folder, "stdin"), Path(folder, "log")
            source.write_text(call["stdin"])
            log.touch()
            answer = self._answer({**call, "stdin": str(source), "log": str(log)})
            if answer is not None:
                return ChildExit(answer["returncode"], answer["seconds"], answer["timed_out"], last_lines(log))
        if not self.ready and not self.closed:
            said = last_lines(self.said).splitlines() or ["it said nothing"]
            raise EnvironmentFault(f"the process that runs models could not start: {said[-1]}. Install Proveout again.")
        return None

    def close(self) -> None:
        """The server sees its socket close, and ends its children and itself. One that still imports sees nothing, and
        one that gets no processor sees it late: then we end it and all below it. Nobody waits after Ctrl-C."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        try:
            self.process.wait(PATIENCE_S if self.ready else 0)
        except subprocess.TimeoutExpired:
            kill_group(self.process.pid)
            self.process.wait()
        self.folder.cleanup()

    def _answer(self, call: dict[str, Any]) -> dict[str, Any] | None:
        answer: Future[dict[str, Any] | None] = Future()
        with self._lock:
            if self.lost:
                return None
            self._count += 1
            self._answers[self._count] = answer
            with contextlib.suppress(OSError):  # then the listener sees its end too
                self.socket.sendall(json.dumps({"id": self._count, **call}).encode() + b"\n")
        return answer.result()

    def _listen(self) -> None:
        with self.socket.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                message = json.loads(line)
                if "id" not in message:
                    self.ready = True
                    continue
                with self._lock:
                    answer = self._answers.pop(message["id"])
                answer.set_result(message)
        with self._lock:
            self.lost = True
            waiting = list(self._answers.values())
            self._answers.clear()
        for answer in waiting:
            answer.set_result(None)
        self.process.wait()
