"""Runs anything risky in a child process: a deadline, a memory limit, a log, and one kill for its whole group."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

LOG_LINES, LOG_BYTES = 40, 1 << 20

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Outcome:
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
    ) -> Outcome: ...


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
) -> Outcome:
    """Run `python -m module arguments…` in its own process group and wait for it.

    The group is killed at the deadline, on Ctrl-C and on any other way out, so nothing outlives this call. It is also
    killed when the calling thread ends. `log` is where the child prints, for those who read along; `started` is told
    its process id, with which `kill_group` ends it early.
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
                preexec_fn=lambda: confine(parent, memory_bytes),
            )
            started(child.pid)
            timed_out = _wait(child, timeout_s)
        return Outcome(child.returncode, time.monotonic() - began, timed_out, last_lines(log))


def confine(parent: int, memory_bytes: int | None) -> None:
    """In a child, before anything risky runs: its limits, and death with its parent however that ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def last_lines(log: Path) -> str:
    """The end of a log, read without holding all of a very long one."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-LOG_LINES:])


def run_command(command: str, *, output: IO[str], timeout_s: float, environment: Mapping[str, str]) -> Outcome:
    """Run a shell's command line in its own process group; what it prints goes to `output` as it comes."""
    started = time.monotonic()
    child = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    timed_out = _wait(child, timeout_s)
    return Outcome(child.returncode, time.monotonic() - started, timed_out, "")


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
    """End every process of a child's group; already gone is fine."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
