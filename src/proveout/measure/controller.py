"""Runs one configuration: starts its workers, lets them measure together, watches over them, gathers what they did.

Whatever a worker does (exits, crashes, hangs), its stamps are in a file of the run's folder, so an Outcome comes of it.
While workers measure, the controller sleeps in `poll` and looks up a few times a second.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from proveout import isolate
from proveout.clock.histogram import HistogramProgress
from proveout.clock.pacing import clock
from proveout.clock.stamps import StampProgress
from proveout.errors import UsageError
from proveout.measure.gather import combined, outcome, schedule
from proveout.measure.interrupts import Interrupts
from proveout.measure.messages import LONGEST, checked
from proveout.measure.models import is_gpu
from proveout.measure.outcome import Outcome, OutputCheck, WorkerRun
from proveout.measure.resources import INTERVAL_S, Resources
from proveout.measure.runs import Go, last_lines, raised_line, worker_runs, write_json
from proveout.measure.task import Task, log_path, output_path, progress_of, stamps_path
from proveout.measure.worker import STACK_SIGNAL

LEAD_NS = 150_000_000
"""From the go to the measured phase: every worker has been told by then, and the sampler of resources has begun."""
TICK_S = 0.25
STACK_S = 0.3
STOP_S = 1.5
"""How long a worker may take to write its stacks, and to end its call when it is told to stop."""

Say = Callable[[int, str], None]
"""Tells the user, from a verbosity on."""


class Printed(str):
    """What the user's own code printed in a worker, to be shown as it is."""


MOST_SHOWN = 1 << 16
"""Bytes of a worker's output that are shown; all of it is in its log."""


@dataclass(frozen=True)
class RunLimits:
    """What a configuration may take before it is stopped."""

    call_s: float = 120.0
    total_s: float | None = None
    memory_bytes: int | None = None

    def total(self, duration_s: float) -> float:
        return self.total_s if self.total_s is not None else 3600.0 + 2 * duration_s


@dataclass(eq=False)
class _Worker:
    """One worker process as the controller sees it."""

    index: int
    process: subprocess.Popen[bytes]
    pipe: int
    progress: list[StampProgress | HistogramProgress]
    state: str = "loading"
    heard: bytes = b""
    prepared: dict[str, Any] = field(default_factory=dict)
    finished: dict[str, Any] = field(default_factory=dict)
    traceback: str = ""
    reason: str = ""
    checks_since: int = 0
    shown: int = 0
    pid: int = 0
    """Of the process that holds the model, which is a child of the one that we started."""


def pickled(task: Task) -> tuple[bytes, bytes]:
    """What is sent to workers: what runs before anything else there, and the rest. Refuses what cannot travel."""
    functions = dataclasses.replace(task.functions, env_setup_fn=None)
    environment = (task.functions.env_setup_fn, task.config)
    try:
        return cloudpickle.dumps(environment), cloudpickle.dumps(dataclasses.replace(task, functions=functions))
    except Exception as error:  # any class may raise anything when it is pickled
        parts = {
            "the model": task.model.make or task.model.instance,
            "an input": task.inputs.value,
            "the reference": task.reference,
        }
        what = next((name for name, value in parts.items() if not _travels(value)), "one of the functions")
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"{what} cannot be sent to a worker process ({why}): give a factory that makes it there, "
            "such as lambda: Net(…)."
        ) from error


def _travels(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def run(
    task: Task, folder: Path, limits: RunLimits, interrupts: Interrupts, say: Say, stats_interval: float = INTERVAL_S
) -> Outcome:
    """Run one configuration in fresh processes. An Outcome comes back whatever happens, unless interrupted twice."""
    controller = _Controller(task, folder, limits, interrupts, say, stats_interval)
    try:
        return controller.run()
    finally:
        controller.close()


class _Controller:
    def __init__(
        self, task: Task, folder: Path, limits: RunLimits, interrupts: Interrupts, say: Say, stats_interval: float
    ) -> None:
        self.stats_interval = stats_interval
        self.resources: Resources | None = None
        self.task, self.folder, self.limits, self.interrupts, self.say = task, folder, limits, interrupts, say
        self.workers: list[_Worker] = []
        self.poll = select.poll()
        self.poll.register(interrupts.fd, select.POLLIN)
        self.schedule_ns = schedule(task)
        self.schedule_fd: int | None = None
        self.give_up_ns = clock() + int(limits.total(task.configuration.duration_s) * 1e9)
        self.go: Go | None = None

    def run(self) -> Outcome:
        self._start()
        self._wait("loading")
        if any(w.state == "ready" for w in self.workers):
            ready = [w for w in self.workers if w.state == "ready"]
            for worker in ready:
                worker.pid = _model_process(worker)
            pids, gpus = [w.pid for w in ready], is_gpu(self.task.configuration.device)
            with Resources(pids, self.stats_interval, gpus=gpus) as self.resources:
                self._go()
                self._wait("measuring")
            for worker in self.workers:
                _tell(worker, "done")
            self._wait("checking")
        return self._outcome()

    def close(self) -> None:
        """Nothing outlives this: not a process, not a descriptor."""
        for worker in self.workers:
            self._end(worker)
        if self.schedule_fd is not None:
            os.close(self.schedule_fd)

    def _start(self) -> None:
        task = self.task
        environment, pickled_task = pickled(task)
        if self.schedule_ns is not None:
            path = self.folder / "schedule"
            path.write_bytes(self.schedule_ns.astype("<i8").tobytes())
            self.schedule_fd = os.open(path, os.O_RDONLY)
        for index, callers in enumerate(task.callers):
            reading, writing = os.pipe()
            message = {
                "index": index,
                "folder": str(self.folder),
                "memory_bytes": self.limits.memory_bytes,
                "path": [p or os.getcwd() for p in sys.path],
                "pipe": writing,
                "schedule": self.schedule_fd,
                "sizes": [len(environment), len(pickled_task)],
            }
            with log_path(self.folder, index).open("wb") as log, output_path(self.folder, index).open("wb") as output:
                process = subprocess.Popen(
                    isolate.supervised([sys.executable, "-m", "proveout.measure.worker"]),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=log,
                    env=worker_environment(task.configuration.threads),
                    pass_fds=[writing] if self.schedule_fd is None else [writing, self.schedule_fd],
                    start_new_session=True,
                )
            os.close(writing)
            progress = [progress_of(stamps_path(self.folder, index, w), task.columns) for w in range(callers)]
            self.workers.append(_Worker(index, process, reading, progress))
            self.poll.register(reading, select.POLLIN)
            payload = (json.dumps(message).encode() + b"\n", environment, pickled_task)
            threading.Thread(target=_send, args=(process, payload), daemon=True).start()
            self.say(2, f"Benchmarker {index} started (process {process.pid}).")

    def _go(self) -> None:
        start = clock() + LEAD_NS
        deadline = start + int(self.task.configuration.duration_s * 1e9)
        self.go = Go(start, deadline, datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
        write_json(self.folder / "go.json", vars(self.go))
        for worker in self.workers:
            if worker.state == "ready":
                worker.state = "measuring"
                worker.checks_since = start
                for number in range(self.task.callers[worker.index]):
                    self.say(2, f"Benchmarker {worker.index}, Worker {number} started.")
                _tell(worker, f"go {start} {deadline}")

    def _wait(self, phase: str) -> None:
        """Until no worker is in this phase: it went on, or it is over."""
        stop_by: int | None = None
        while any(w.state == phase for w in self.workers):
            events = self.poll.poll(TICK_S * 1000)
            readable = {fd for fd, _ in events}
            for worker in self.workers:
                if worker.pipe in readable:
                    self._hear(worker)
            if self.interrupts.count > 1:
                raise KeyboardInterrupt
            if self.interrupts.count == 1 and stop_by is None:
                self.interrupts.drain()
                stop_by = clock() + (0 if phase == "loading" else int(STOP_S * 1e9))
                for worker in self.workers:
                    _tell(worker, "stop")
            if stop_by is not None and clock() >= stop_by:
                for worker in self._unfinished():
                    self._stop(worker, "interrupted", stacks=False)
            if clock() >= self.give_up_ns:
                seconds = self.limits.total(self.task.configuration.duration_s)
                for worker in self._unfinished():
                    self._stop(worker, f"the configuration took longer than {seconds:g} s and was stopped")
            elif phase == "measuring":
                self._look_for_hangs()

    def _unfinished(self) -> list[_Worker]:
        return [w for w in self.workers if w.state in ("loading", "measuring", "checking")]

    def _hear(self, worker: _Worker) -> None:
        data = os.read(worker.pipe, 1 << 16)
        if not data:
            self._gone(worker)
            return
        *lines, worker.heard = (worker.heard + data).split(b"\n")
        try:
            if len(worker.heard) > LONGEST:
                raise ValueError(f"a message of more than {LONGEST >> 20} MiB")
            for line in lines:
                self._take(worker, *checked(json.loads(line), self.task.callers[worker.index]))
        except (ValueError, RecursionError) as error:
            self._stop(worker, f"the worker said something that it cannot say ({str(error)[:200]})", stacks=False)

    def _show(self, worker: _Worker) -> None:
        """What the user's code has printed since the last time."""
        with output_path(self.folder, worker.index).open("rb") as output:
            output.seek(worker.shown)
            text = output.read(max(MOST_SHOWN - worker.shown, 0))
        worker.shown += len(text)
        if text:
            self.say(1, Printed(text.decode(errors="replace")))

    def _take(self, worker: _Worker, kind: str, event: dict[str, Any]) -> None:
        """One message."""
        self._show(worker)
        if kind == "ready":
            worker.prepared, worker.state = event, "ready"
        elif kind == "measured":
            worker.state = "checking"
        elif kind == "finished":
            worker.finished, worker.state = event, "finished"
            for number, ran in enumerate(event["runs"]):
                calls = ran["calls"]
                self.say(2, f"Benchmarker {worker.index}, Worker {number} finished after {calls} inferences.")
            self.say(2, f"Benchmarker {worker.index} finished.")
        elif kind == "failed":
            worker.traceback = event["traceback"]
            worker.reason = raised_line(worker.traceback) or "it could not be loaded"

    def _gone(self, worker: _Worker) -> None:
        """Its pipe is closed: it has ended, or is about to."""
        if worker.state == "over":
            return
        self.poll.unregister(worker.pipe)
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(timeout=1)
        isolate.kill_group(worker.process.pid)
        code = worker.process.wait()
        self._show(worker)
        if worker.state != "finished":
            story = isolate.ChildExit(code, 0.0, False, "").story
            worker.reason = worker.reason or f"the worker process {story}"
            self.say(1, f"Benchmarker {worker.index}: {worker.reason}.")
        worker.state = "over"

    def _look_for_hangs(self) -> None:
        now, longest = clock(), int(self.limits.call_s * 1e9)
        if self.schedule_ns is not None and len(self.schedule_ns):
            # A worker may wait for its next request while others take the ones before it.
            gaps = np.diff(self.schedule_ns, prepend=0)
            longest += int(gaps.max()) * sum(self.task.callers)
        for worker in self.workers:
            if worker.state != "measuring" or now - worker.checks_since < longest:
                continue
            latest = min(max(p.latest_ns(), worker.checks_since) for p in worker.progress)
            if now - latest >= longest:
                reason = f"a call took longer than {self.limits.call_s:g} s and was stopped; its stacks are in the log"
                self._stop(worker, reason)

    def _stop(self, worker: _Worker, reason: str, stacks: bool = True) -> None:
        worker.reason = worker.reason or reason
        if stacks:
            with suppress(ProcessLookupError):
                os.kill(_model_process(worker), STACK_SIGNAL)
            time.sleep(STACK_S)
        isolate.kill_group(worker.process.pid)
        self._gone(worker)

    def _end(self, worker: _Worker) -> None:
        if worker.process.stdin is not None:
            with suppress(OSError):
                worker.process.stdin.close()
        isolate.kill_group(worker.process.pid)
        worker.process.wait()
        os.close(worker.pipe)
        for progress in worker.progress:
            progress.close()

    def _outcome(self) -> Outcome:
        for worker in self.workers:
            if worker.state == "finished":
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(timeout=1)
        runs = worker_runs(self.folder, self.task.columns, self.task.callers)
        reports = [_with_reasons(run, self.workers[run.model], self.folder) for run in runs]
        checks = [OutputCheck(**c) for w in self.workers if (c := w.finished.get("check")) is not None]
        overheads = [w.prepared["overhead_ns"] for w in self.workers if w.prepared]
        return outcome(
            self.task,
            reports,
            self.go,
            check=combined(checks),
            overhead_ns=overheads[0] if overheads else None,
            interrupted=self.interrupts.count > 0,
            schedule_ns=self.schedule_ns,
            notes=next((w.prepared["notes"] for w in self.workers if w.prepared), {}),
            resources=self.resources.series if self.resources is not None else (),
        )


def worker_environment(threads: int) -> dict[str, str]:
    """What a worker inherits; numbers of threads are read when torch is imported there, so they are set before."""
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": path}


def _with_reasons(run: WorkerRun, worker: _Worker, folder: Path) -> WorkerRun:
    """A worker's stamps with what it and its process said."""
    said = worker.finished["runs"][run.worker] if worker.finished else {}
    reason = worker.reason or said.get("reason", "")
    log = said.get("traceback", "") or worker.traceback
    if reason:
        said_there = (last_lines(path(folder, worker.index)) for path in (output_path, log_path))
        log = "\n".join(filter(None, [*said_there, log]))
    warm = worker.prepared.get("warmup_calls", ())
    return dataclasses.replace(
        run,
        load_ns=worker.prepared.get("load_ns", 0),
        warmup_calls=warm[run.worker] if warm else 0,
        errors=said.get("errors", 0),
        missing_items=worker.finished["missing_items"][run.worker] if worker.finished else 0,
        pid=worker.pid or worker.process.pid,
        exit_code=worker.process.poll(),
        reason=reason,
        log=log,
    )


def _model_process(worker: _Worker) -> int:
    """The process below the one that we started; that itself where it is gone, or not there yet."""
    return next(iter(isolate.descendants(worker.process.pid)), worker.process.pid)


def _send(process: subprocess.Popen[bytes], payload: tuple[bytes, ...]) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # a worker that is gone is noticed by its pipe
        for part in payload:
            process.stdin.write(part)
        process.stdin.flush()


def _tell(worker: _Worker, words: str) -> None:
    assert worker.process.stdin is not None
    with suppress(OSError, ValueError):
        worker.process.stdin.write(words.encode() + b"\n")
        worker.process.stdin.flush()
