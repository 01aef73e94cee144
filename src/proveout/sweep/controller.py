"""Turns scripts into Results: finds, proves what is not known yet, keeps every Record the moment it is made.

A script's Jobs start when it has been searched, before the next script is: nothing waits for all of anything, and what
is held grows by one flat row a Job.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from proveout.capture import How
from proveout.devices.registry import HOST, settings_for
from proveout.errors import ProveoutError, UsageError
from proveout.folders import file_name
from proveout.store import Store
from proveout.sweep.results import Rebuild, Result, keep, known
from proveout.sweep.state import Noted
from proveout.sweep.tasks import Find, Prove, Task
from proveout.types import Job, Record, Settings, Workload, versions
from proveout.words import counted

if TYPE_CHECKING:
    from proveout.capture import Discovery


class Interrupted(ProveoutError):
    exit_code = 130


class Workers(Protocol):
    """Where Tasks are done: `Local` or a Ray cluster."""

    anywhere: bool
    """Whether a Record of any machine makes a Job unnecessary."""

    @property
    def slots(self) -> int:
        """How many Tasks to have under way."""
        ...

    def submit(self, task: Task) -> Future[Any]: ...

    def stop(self) -> None: ...


class Listener(Protocol):
    """Hears how a sweep goes on."""

    def start(self, what: str) -> None: ...

    def found(self, what: str, script: Path, models: int, error: str) -> None: ...

    def expect(self, jobs: int, scripts_left: int) -> None: ...

    def done(self, what: str, result: Result, seconds: float) -> None: ...


@dataclass(frozen=True)
class SweepPlan:
    """What every script of a sweep is asked."""

    store: Store
    targets: tuple[tuple[str, Settings], ...]
    """(device, its settings)."""
    job: Job
    """What is done with each model, but for the model, the device and its settings."""
    how: How = How()
    rebuild: Rebuild = "if_needed"
    artifacts: Path | None = None
    dump: Path | None = None
    alone: frozenset[str] = frozenset()
    """Devices that serve one Job at a time on this machine."""


Script = tuple[Path, tuple[str, ...]]
"""A script and the selectors of the models that are meant; none: all."""


def sweep(plan: SweepPlan, scripts: Sequence[Script], workers: Workers, listener: Listener) -> list[Result]:
    """Results in the order of scripts and models. Ends its workers, whatever happens."""
    devices = ", ".join(dict.fromkeys(device for device, _ in plan.targets))
    noted = Noted(listener, plan.store, f"{', '.join(plan.job.do)} on {devices}", len(scripts))
    state = _Sweep(plan, workers, noted, deque(enumerate(scripts)))
    how: Literal["finished", "stopped", "failed"] = "failed"
    why = ""
    try:
        with _sigint_kept() as interrupted:
            results = state.run(interrupted)
        how = "finished"
        return results
    except KeyboardInterrupt:
        how = "stopped"
        raise Interrupted(f"interrupted{state.told}; run the same command to continue.") from None
    except Exception as error:
        why = str(error) if isinstance(error, ProveoutError) else f"{type(error).__name__}: {error}"
        raise
    finally:
        workers.stop()
        noted.end(how, why)


@contextmanager
def _sigint_kept() -> Iterator[threading.Event]:
    """Set once Ctrl-C came. It raises as usual, but Python drops what is raised inside of a destructor or a callback,
    and the sweep would go on."""
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def handle(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


Place = tuple[int, int]
"""(number of the script, number of the Job in it)."""


@dataclass
class _Sweep:
    plan: SweepPlan
    workers: Workers
    listener: Listener
    scripts: deque[tuple[int, Script]]
    jobs: deque[tuple[Place, Job]] = field(default_factory=deque)
    num_jobs: int = 0
    running: dict[Future[Any], tuple[Place, Task, Script | None, float]] = field(default_factory=dict)
    results: dict[Place, Result] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        """How far it has come."""
        if not self.num_jobs:
            return " while looking for models"
        more = f", {counted(len(self.scripts), 'script')} not looked at yet" if self.scripts else ""
        return f": {len(self.results)} of {self.num_jobs} done{more}, kept in {self.plan.store.folder}"

    def run(self, interrupted: threading.Event) -> list[Result]:
        while self.fill():
            done, _ = wait(self.running, return_when=FIRST_COMPLETED)
            for future in done:
                place, task, script, started = self.running.pop(future)
                answer = future.result()
                if script is not None:
                    self.searched(place, task, script, answer)
                elif answer is None and isinstance(task, Prove):
                    self.missing.append(task.job.workload.name)
                else:
                    self.results[place] = answer
                    self.listener.done(task.name, answer, time.monotonic() - started)
            if interrupted.is_set():
                raise KeyboardInterrupt
        if self.missing:
            self.refuse()
        return [self.results[place] for place in sorted(self.results)]

    def fill(self) -> bool:
        """Give every free slot something to do, Jobs before scripts; False when nothing is left."""
        while len(self.running) < self.workers.slots:
            job = self.next_job()
            if job is not None:
                task: Task = Prove(job[1], self.plan.store.folder.absolute(), self.plan.rebuild, self.workers.anywhere)
                self.begin(job[0], task, None)
            elif self.scripts:
                number, script = self.scripts.popleft()
                self.begin((number, 0), self.find(script[0]), script)
            else:
                break
        return bool(self.running)

    def find(self, script: Path) -> Find:
        cache = None if self.plan.rebuild == "always" else self.plan.store.folder.absolute()
        return Find(script, self.plan.how, self.plan.job.timeout_s, cache)

    def next_job(self) -> tuple[Place, Job] | None:
        """The first Job whose device is free."""
        tasks = [task for _, task, _, _ in self.running.values()]
        busy = {task.job.device for task in tasks if isinstance(task, Prove)} & self.plan.alone
        for index, (place, job) in enumerate(self.jobs):
            if job.device not in busy:
                del self.jobs[index]
                return place, job
        return None

    def begin(self, place: Place, task: Task, script: Script | None) -> None:
        self.listener.start(task.name)
        self.running[self.workers.submit(task)] = place, task, script, time.monotonic()

    def searched(self, place: Place, task: Task, script: Script, discovery: Discovery) -> None:
        """Queue a script's Jobs; a script without any gets a failed Record for each target."""
        selection = self.plan
        workloads = selected(discovery, *script)
        self.listener.found(task.name, script[0], len(workloads), discovery.error)
        self.num_jobs += len(selection.targets) * (len(workloads) or 1)
        left = len(self.scripts) + sum(one is not None for _, _, one, _ in self.running.values())
        self.listener.expect(self.num_jobs, left)
        arguments, weights = selection.how.arguments(script[0]), selection.how.weights
        none = Workload(
            script[0].stem, discovery.script, "", labels=discovery.labels, script_args=arguments, weights=weights
        )
        for device, settings in selection.targets:
            failure = _job(selection, none, device, settings)
            if workloads:
                selection.store.remove(failure)
                for workload in workloads:
                    place = (place[0], place[1] + 1)
                    self.jobs.append((place, _in_folders(_job(selection, workload, device, settings), selection)))
            else:
                place = (place[0], place[1] + 1)
                self.results[place] = self.failed(failure, discovery)
                self.listener.done("", self.results[place], discovery.seconds)

    def failed(self, job: Job, discovery: Discovery) -> Result:
        """The Record of a script that gave no model: the one that is there, where nothing was run again."""
        old = known(self.plan.store, job, self.plan.rebuild, self.workers.anywhere) if discovery.from_cache else None
        if old is not None and old.row.reason == discovery.error:
            return old
        return keep(self.plan.store, _script_failure(job, discovery))

    def refuse(self) -> None:
        names = ", ".join(sorted(set(self.missing))[:5])
        raise UsageError(
            f"{len(self.missing)} of {self.num_jobs} Records are not in the cache {self.plan.store.folder} ({names}),"
            " and --rebuild never forbids making them. Use --rebuild if_needed."
        )


def selected(discovery: Discovery, script: Path, selectors: tuple[str, ...]) -> tuple[Workload, ...]:
    """The models that are meant; one that the script has not is refused."""
    workloads = discovery.workloads
    for selector in selectors if workloads else ():
        if not any(w.is_named(selector) for w in workloads):
            raise UsageError(
                f"{script.name} has no model {selector}; it has {', '.join(w.selector for w in workloads)}."
            )
    return tuple(w for w in workloads if not selectors or any(map(w.is_named, selectors)))


def _job(plan: SweepPlan, workload: Workload, device: str, settings: Settings) -> Job:
    onnx = workload.is_onnx
    return dataclasses.replace(
        plan.job,
        workload=workload,
        device="cpu" if onnx else device,
        settings=dataclasses.replace(settings, precision=settings_for(HOST).precision) if onnx else settings,
        runtime="ort" if onnx else plan.job.runtime,
        # Counting processes would disturb what is timed, and the script has shown what it starts.
        limits=dataclasses.replace(plan.how.limits, processes=0),
    )


def _in_folders(job: Job, plan: SweepPlan) -> Job:
    """The Job with folders of its own below those that the user named."""
    name = file_name(f"{job.workload.name[:120]}-{job.workload.selector}-{job.device}")
    if job.runtime == "ort":
        name = f"{file_name(job.workload.build_name)}/onnx"
    artifacts, dump = (str(f.absolute() / name) if f else "" for f in (plan.artifacts, plan.dump))
    return dataclasses.replace(job, artifacts=artifacts, dump=dump)


def _script_failure(job: Job, discovery: Discovery) -> Record:
    return Record(
        job,
        "failed",
        discovery.error or "no model was called",
        failure=discovery.failure or "script",
        log=discovery.log,
        environment=tuple(versions().items()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
