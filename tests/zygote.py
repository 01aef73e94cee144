"""One process per worker that has imported what every warm server imports, and forks them.

A warm server (`proveout.sweep.server`) spends four seconds of processor importing, and many tests start one.
Here the same server begins in a fork: with the environment, folder, streams and socket that it was given, leading a
session of its own. Where a variable differs that a library may have read when it was imported, a fresh interpreter is
started as ever.

    ─▶ {"environment": …, "cwd": …, "arguments": […]} with two descriptors: what it prints to, its socket
    ◀─ its process id
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback

FREE = {"PYTEST_CURRENT_TEST", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM", "OLDPWD", "PWD"}
"""Variables that are read when they are needed; so are all of our own."""


class Forked:
    """As much of a `subprocess.Popen` as a client of a warm server uses."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode, self._ended = pid, None, None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._ended = os.fdopen(os.pidfd_open(pid))

    def wait(self, timeout: float | None = None) -> int:
        if self._ended is not None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a warm server", timeout or 0)
        self.returncode = 0
        return 0


class Zygote:
    """The process, started with the first server that is asked for, in the environment that the tests begin with."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def serves(self) -> bool:
        """Whether a library that was imported in the first environment is what it is in today's."""
        differing = {*self._environment.items()} ^ {*os.environ.items()}
        return all(name in FREE or name.startswith("PROVEOUT_") for name, _ in differing)

    def fork(self, arguments: list[str], output: int, descriptor: int) -> Forked:
        request = {"environment": dict(os.environ), "cwd": os.getcwd(), "arguments": arguments}
        body = json.dumps(request).encode()
        with self._lock:
            link = self._started()
            link.sendall(len(body).to_bytes(4, "little"))
            link.sendall(body)
            socket.send_fds(link, [b"."], [output, descriptor])
            return Forked(int.from_bytes(_exactly(link, 4), "little"))

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=self._environment,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            theirs.close()
        return self._socket

    def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._process.wait()
            self._socket = None


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise EOFError("the process that forks warm servers is gone")
        data += more
    return data


def serve(link: socket.socket) -> None:
    while True:
        try:
            request = json.loads(_exactly(link, int.from_bytes(_exactly(link, 4), "little")))
        except EOFError:
            return
        _, descriptors, _, _ = socket.recv_fds(link, 1, 2)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                link.close()
                _become_server(request, *descriptors)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        for descriptor in descriptors:
            os.close(descriptor)
        link.sendall(pid.to_bytes(4, "little"))
        with contextlib.suppress(ChildProcessError):  # those that ended meanwhile; their time counts as ours
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _become_server(request: dict, output: int, descriptor: int) -> None:
    from proveout.sweep import server

    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for target in (1, 2):
        os.dup2(output, target)
    os.close(output)
    folder, *modules = request["arguments"]
    server.main(str(descriptor), folder, *modules)
    sys.stdout.flush()


def main(descriptor: str) -> None:
    from proveout.sweep.server import load

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load(())
    serve(socket.socket(fileno=int(descriptor)))


if __name__ == "__main__":
    main(*sys.argv[1:])
