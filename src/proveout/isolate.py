"""Runs anything risky in a child process: a deadline, a memory limit, a log, and an end for all that it starts.

Between us and such a child stands a small process of ours that inherits whatever the child leaves behind (a child
subreaper), also what moved to a session of its own: when the child ends, everything below it does. It also looks after
the disk: a child that would fill it is ended while there is room for everybody else's results.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from proveout.coding import json_value

LOG_LINES, LOG_BYTES = 40, 1 << 20
DISK_RESERVE, DISK_LOOK_S, DISK_GRACE_S = 1 << 30, 0.25, 3.0
"""Bytes that a child leaves free on each disk it may write to, or half of what was free; how often we look; how
long one that wrote little is not blamed for another's files."""
FILLED_DISK = 122
"""The exit code of a child that was ended for the disk."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class ChildExit:
    """How a child ended. `log` holds the last lines it printed, stdout and stderr together."""

    returncode: int | None
    seconds: float
    timed_out: bool
    log: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and not self.timed_out

    @property
    def failure(self) -> str:
        """The class of failure; the system ends a process with SIGKILL where memory runs out."""
        if self.timed_out:
            return "timeout"
        return "memory" if self.returncode == -signal.SIGKILL else "crash"

    @property
    def story(self) -> str:
        """How it ended, in words."""
        if self.timed_out:
            return f"ran past its limit and was stopped after {self.seconds:.0f} s"
        if self.returncode is None:
            return "could not be started: the system has no process to spare"
        if self.returncode == FILLED_DISK:
            return "was stopped because it filled the disk: free some space, or give it a disk of its own (TMPDIR)"
        if self.returncode < 0:
            name = signal.Signals(-self.returncode).name
            hint = " (out of memory?)" if name == "SIGKILL" else ""
            return f"was killed by {name}{hint}"
        return f"exited with code {self.returncode}"


class Runner(Protocol):
    """The one way to run a module of ours in a child: `run_python`, or a warm process that forks instead."""

    def __call__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float,
        memory_bytes: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ChildExit: ...


def run_python(
    module: str,
    arguments: Sequence[str],
    *,
    stdin: str = "",
    timeout_s: float,
    memory_bytes: int | None = None,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    started: Callable[[int], None] = lambda pid: None,
) -> ChildExit:
    """Run `python -m module arguments…` in its own process group and wait for it.

    All that it started is killed at the deadline, on Ctrl-C and on any other way out, so nothing outlives this call. It
    is also killed when the calling thread ends. `log` is where the child prints, for those who read along; `started` is
    told its process id, with which `kill_group` ends it early.
    """

    parent, began = os.getpid(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        source, log = Path(folder, "stdin"), log or Path(folder, "log")
        source.write_text(stdin)
        with source.open("rb") as stdin_file, log.open("wb") as log_file:
            child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=stdin_file,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=lambda: supervise(parent, memory_bytes),
            )
            started(child.pid)
            timed_out = _wait(child, timeout_s)
        return ChildExit(child.returncode, time.monotonic() - began, timed_out, last_lines(log))


def supervise(parent: int, memory_bytes: int | None) -> None:
    """In a new child: go on as a child of that, in a session of its own. The first stays, as the one that inherits all
    orphans below it; it ends them when the second ends, or when `parent` does, and then ends as the second did."""
    alone = _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
    ours = os.getpid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        confine(ours, memory_bytes)
        if alone:
            os.write(2, b"proveout: this system has no child subreaper; detached processes may outlive the script\n")
        return
    os.closerange(3, 1 << 16)  # a pipe that we hold open would seem to have a writer
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)

    def on_end(number: int, frame: object) -> None:
        kill_below(ours)
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, on_end)
    status = _waited_for(pid, Disk.of_this_process())
    kill_below(ours)
    if status is None:
        os._exit(FILLED_DISK)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(ours, -code)
    os._exit(code if code >= 0 else 1)


def supervised(command: Sequence[str]) -> list[str]:
    """The command line that runs another one as `run_python` does, for a caller that is too large to stay behind as a
    copy of itself: this file is a program too, of which nothing but the standard library is loaded."""
    return [sys.executable, "-S", "-P", __file__, str(os.getpid()), *command]


def _waited_for(pid: int, disk: Disk) -> int | None:
    """How a child ended, None where it fills the disk; orphans that come to us meanwhile are buried."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == pid:
            return status
        if ended == 0:
            if disk.is_filled_by(os.getpid()):
                return None
            signal.sigtimedwait({signal.SIGCHLD}, DISK_LOOK_S)


@dataclass
class Disk:
    """The disks of a child's working folder, temporary files and home, shared memory too, and how much stays free on
    each."""

    reserves: dict[str, int]
    low_since: float | None = None

    @staticmethod
    def of_this_process() -> Disk:
        places = (os.getcwd(), tempfile.gettempdir(), os.path.expanduser("~"), "/dev/shm")
        return Disk({place: min(DISK_RESERVE, _free(place) // 2) for place in places})

    def is_filled_by(self, pid: int) -> bool:
        """Whether a disk is nearly full, and the processes below this one wrote much or it stays so."""
        if all(_free(place) >= reserve for place, reserve in self.reserves.items()):
            self.low_since = None
            return False
        now = time.monotonic()
        self.low_since = self.low_since or now
        wrote = sum(map(_written, descendants(pid)))
        return wrote >= min(self.reserves.values()) // 4 or now - self.low_since > DISK_GRACE_S


def _free(place: str) -> int:
    try:
        about = os.statvfs(place)
    except OSError:
        return 1 << 62
    return about.f_bavail * about.f_frsize


def _written(pid: int) -> int:
    """Bytes that a process and the children it waited for handed to write(2)."""
    try:
        with open(f"/proc/{pid}/io", "rb") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith(b"wchar")), 0)
    except OSError:
        return 0


def kill_below(pid: int, patience_s: float = 10.0) -> None:
    """End every process that descends from this one, also those that start while we do so."""
    give_up = time.monotonic() + patience_s
    while (below := descendants(pid)) and time.monotonic() < give_up:
        for one in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while pid == os.getpid() and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


def descendants(pid: int) -> list[int]:
    """The living processes below one, nearest first; none where the system has no /proc."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as line:
            state, parent = line.read().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                parents.setdefault(int(parent), []).append(int(name))
    pids, queue = [], [pid]
    while queue:
        below = parents.get(queue.pop(0), [])
        pids += below
        queue += below
    return pids


def confine(parent: int, memory_bytes: int | None) -> None:
    """In a child, before anything risky runs: its limits, and death with its parent however that ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


ANSWER_BYTES = 256 << 20
ANSWER_VALUES = 20_000_000
"""Of which each takes tens of bytes of memory, and three in the file."""


def read_answer(path: Path) -> Any:
    """What a child left for us: one JSON value of a size that can be. A script may have written it instead of our own
    code, so whoever reads it checks what it holds; ValueError says what is wrong with the file itself."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("the worker left something that is not a file")
            data = file.read(ANSWER_BYTES + 1)
        if len(data) > ANSWER_BYTES:
            raise ValueError(f"the worker left more than {ANSWER_BYTES >> 20} MiB")
        if sum(map(data.count, (b",", b"[", b"{"))) > ANSWER_VALUES:
            raise ValueError(f"the worker left more than {ANSWER_VALUES:,} values")
        return json_value(data)
    except OSError as error:
        raise ValueError(f"the worker's answer cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the worker left something that is not JSON: {error}") from None


def last_lines(log: Path) -> str:
    """The end of a log, read without holding all of a very long one; "" where its script took it away, or put something
    there that would never end."""
    try:
        file = os.fdopen(os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
    except OSError:
        return ""
    with file:
        described = os.fstat(file.fileno())
        if not stat.S_ISREG(described.st_mode):
            return ""
        file.seek(max(0, described.st_size - LOG_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-LOG_LINES:])


def run_command(command: str, *, output: IO[str], timeout_s: float, environment: Mapping[str, str]) -> ChildExit:
    """Run a shell's command line in its own process group; what it prints goes to `output` as it comes."""
    parent, started = os.getpid(), time.monotonic()
    child = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=lambda: supervise(parent, None),
    )
    timed_out = _wait(child, timeout_s)
    return ChildExit(child.returncode, time.monotonic() - started, timed_out, "")


def _wait(child: subprocess.Popen[Any], timeout_s: float) -> bool:
    """Wait for a child, then end whatever is left of its group; tells whether it was too slow."""
    try:
        child.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return True
    finally:
        kill_group(child.pid)
        child.wait()
    return False


def kill_group(pid: int) -> None:
    """End a child with everything below it, and its group; already gone is fine."""
    kill_below(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    supervise(int(sys.argv[1]), None)
    os.execv(sys.argv[2], sys.argv[2:])
