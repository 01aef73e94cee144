"""A run as pages see it: a worker process with limits, its events so far, its log, and one way to stop it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from proveout.app.children import Child
from proveout.app.tasks import TaskRequest
from proveout.coding import from_json, to_json
from proveout.limits import machine_memory
from proveout.prove import failed
from proveout.store import Store
from proveout.types import Job, Record


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


class Run(Child):
    """One task under way."""

    def __init__(self, request: TaskRequest, module: str = "proveout.app.worker") -> None:
        memory = request.memory_gib * 2**30 or 0.9 * machine_memory()
        stdin = json.dumps(to_json(request))
        super().__init__(module, stdin=stdin, timeout_s=request.timeout_s, memory_bytes=round(memory))
        self.request = request
        self._read, self._seen, self._lock = 0, Seen(), threading.Lock()
        self.start()

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

    def ended(self) -> None:
        """A worker that died could not write its Record; a run that was stopped leaves none."""
        seen = self.seen()
        if self.stopped or seen.record or seen.job is None or self.outcome is None:
            return
        reason = f"{seen.stage}: the worker {self.outcome.story}"
        Store(self.request.cache_dir).write(failed(seen.job, self.outcome.failure, reason, self.outcome.log))


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
