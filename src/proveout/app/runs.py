"""A run as pages see it: a worker process with limits, its events so far, its log, and one way to stop it."""

from __future__ import annotations

import json
import secrets
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proveout import isolate
from proveout.app.tasks import Request
from proveout.coding import from_json, to_json
from proveout.limits import machine_memory
from proveout.prove import failed
from proveout.store import Store
from proveout.types import Job, Record

KEPT = 50
"""Runs that a server remembers; the oldest finished ones go first."""


@dataclass
class Seen:
    """What a run's events say so far."""

    stage: str = ""
    stages: list[str] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)
    samples: list[tuple[str, int, bool]] = field(default_factory=list)
    """(what, nanoseconds, whether to warm up)."""
    output: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    tokens: int = 0
    job: Job | None = None
    record: Record | None = None
    error: tuple[str, str] | None = None
    """(failure, message) of what went wrong before there was a Job."""
    seconds: float = 0.0

    def add(self, event: dict[str, Any]) -> None:
        self.seconds = event["t"]
        getattr(self, f"_{event['kind'].replace(' ', '_')}")(event)

    def _stage(self, event: dict[str, Any]) -> None:
        self.stage = event["name"]
        self.stages.append(event["name"])

    def _pass(self, event: dict[str, Any]) -> None:
        self.passes.append(event["name"])

    def _sample(self, event: dict[str, Any]) -> None:
        self.samples.append((event["what"], event["ns"], event["warm"]))

    def _output(self, event: dict[str, Any]) -> None:
        self.output, self.whole = event["output"], event["whole"]

    def _job(self, event: dict[str, Any]) -> None:
        self.job, self.tokens = from_json(Job, event["job"]), event["tokens"]

    def _record(self, event: dict[str, Any]) -> None:
        self.record = from_json(Record, event["record"])

    def _error(self, event: dict[str, Any]) -> None:
        self.error = (event["failure"], event["message"])


class Run:
    """One worker. A thread of its own starts it and waits for it: the system ends a child with the thread that started
    it, and Streamlit's threads are short-lived."""

    def __init__(self, request: Request, module: str = "proveout.app.worker") -> None:
        self.id = secrets.token_hex(4)
        self.request = request
        self.began = time.monotonic()
        self.stopped = False
        self.outcome: isolate.ChildExit | None = None
        self.pid: int | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="proveout-run-")
        self._read, self._seen, self._lock = 0, Seen(), threading.Lock()
        self._thread = threading.Thread(target=self._work, args=(module,), daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def stop(self) -> None:
        """End the worker and all it started, now."""
        self.stopped = True
        if self.pid is not None and self.running:
            isolate.kill_group(self.pid)

    def wait(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def seen(self) -> Seen:
        """What the events say up to now; a line that is still being written waits for the next time."""
        with self._lock:
            events = self.folder / "events.jsonl"
            if events.exists():
                with events.open("rb") as file:
                    file.seek(self._read)
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        self._read += len(line)
                        self._seen.add(json.loads(line))
            return self._seen

    def log(self) -> str:
        """The last lines that the worker printed."""
        path = self.folder / "log"
        return isolate.last_lines(path) if path.exists() else ""

    def _work(self, module: str) -> None:
        memory = self.request.memory_gib * 2**30 or 0.9 * machine_memory()
        self.outcome = isolate.run_python(
            module,
            [str(self.folder)],
            stdin=json.dumps(to_json(self.request)),
            timeout_s=self.request.timeout_s,
            memory_bytes=round(memory),
            log=self.folder / "log",
            started=self._started,
        )
        self._remember_failure()

    def _started(self, pid: int) -> None:
        self.pid = pid
        if self.stopped:
            isolate.kill_group(pid)

    def _remember_failure(self) -> None:
        """A worker that died could not write its Record; a run that was stopped leaves none."""
        seen = self.seen()
        if self.stopped or seen.record or seen.job is None or self.outcome is None:
            return
        reason = f"{seen.stage}: the worker {self.outcome.story}"
        Store(self.request.cache_dir).write(failed(seen.job, self.outcome.failure, reason, self.outcome.log))


class Runs:
    """The runs of all tabs of one server, by their id."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def start(self, request: Request) -> Run:
        run = Run(request)
        self._runs[run.id] = run
        for old in [r.id for r in self._runs.values() if not r.running][: max(0, len(self._runs) - KEPT)]:
            del self._runs[old]
        return run

    def get(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)


@dataclass(frozen=True)
class Trouble:
    """Why a run gave no result: what happened, where, and what to do next."""

    title: str
    what: str
    where: str
    next_step: str


def trouble(run: Run) -> Trouble | None:
    """None for a run that goes on, went well or was stopped."""
    seen = run.seen()
    if run.running or run.stopped or run.outcome is None:
        return None
    if seen.record is not None:
        record = seen.record
        if record.status == "passed":
            return None
        failure, what = record.failure, record.reason
    elif seen.error is not None:
        failure, what = seen.error
    else:
        failure, what = run.outcome.failure, f"The worker {run.outcome.story}."
    title, next_step = _ADVICE.get(failure, _ADVICE["internal"])
    last = f", after the pass {seen.passes[-1]}" if seen.stage == "compile" and seen.passes else ""
    return Trouble(title, what, f"{seen.stage or 'start'}{last}", next_step)


_ADVICE: dict[str, tuple[str, str]] = {
    "usage": ("These inputs cannot be run", "Change what the message names and run again."),
    "environment": ("This machine cannot do it", "Install or repair what the message names and run again."),
    "script": ("The model could not be loaded or called", "Choose other weights, or look at the log below."),
    "capture": ("PyTorch could not capture the model", "Look at the log below; the same model runs on the CPU."),
    "lowering": (
        "The compiler stopped",
        "If an op has no kernel, set fallback to host. Otherwise keep the log: it names the pass.",
    ),
    "device": ("The device refused to run it", "Try another device, or memory dram in the settings."),
    "memory": (
        "Out of memory",
        "Use the small model, shorter inputs or a larger memory limit, and close other runs.",
    ),
    "numerics": (
        "The output is wrong",
        "The PCC against eager mode is too low: try precision model or a higher math fidelity.",
    ),
    "timeout": ("The time limit was reached", "Raise the time limit, or ask for fewer tokens or iterations."),
    "crash": ("The worker crashed", "Run again. If it happens again, keep the log below and report it."),
    "internal": ("Something unexpected happened", "Keep the log below and report it."),
}
