"""Runs one configuration in threads of this process (`multiprocess=False`): to debug with, not to compare by.

A model that crashes or hangs takes this process with it, threads and libraries stay as they are, and all models share
one interpreter's lock. Stamps go to the same files, so `recover` works as well.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proveout.clock.pacing import clock
from proveout.measure.controller import LEAD_NS, TICK_S, RunLimits, Say
from proveout.measure.gather import combined, outcome, schedule
from proveout.measure.host import Host, LoadFailed, PreparedModel
from proveout.measure.interrupts import Interrupts
from proveout.measure.models import is_gpu
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.resources import INTERVAL_S, Resources, Series
from proveout.measure.runs import Go, raised_line, worker_runs, write_json
from proveout.measure.task import Task


def run(
    task: Task, folder: Path, limits: RunLimits, interrupts: Interrupts, say: Say, stats_interval: float = INTERVAL_S
) -> Outcome:
    """Run one configuration in this process."""
    try:
        hosts = [Host(task, index, folder) for index in range(task.configuration.n_models)]
    except LoadFailed as error:
        return Outcome(task.configuration, "failed", str(error))
    failed: dict[int, str] = {}

    def prepare(host: Host) -> PreparedModel | None:
        try:
            if task.functions.env_setup_fn is not None:
                task.functions.env_setup_fn(host.index, task.config)
            return host.prepare()
        except LoadFailed as error:
            failed[host.index] = str(error)
            return None

    starts = schedule(task)
    fd: int | None = None
    if starts is not None:
        path = folder / "schedule"
        path.write_bytes(starts.astype("<i8").tobytes())
        fd = os.open(path, os.O_RDONLY)
    try:
        prepared = _together(hosts, prepare, interrupts, limits.total(task.configuration.duration_s))
        ready = [h for h in hosts if prepared.get(h.index) is not None]
        go = None
        finished: dict[int, Any] = {}
        resources: Series = ()
        if ready and not interrupts.count:
            start = clock() + LEAD_NS
            deadline = start + int(task.configuration.duration_s * 1e9)
            go = Go(start, deadline, datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
            write_json(folder / "go.json", vars(go))
            most = task.configuration.duration_s + limits.call_s
            with Resources([os.getpid()], stats_interval, gpus=is_gpu(task.configuration.device)) as sampled:
                finished = _together(ready, lambda host: host.measure(start, deadline, fd), interrupts, most)
            resources = sampled.series
    finally:
        if fd is not None:
            os.close(fd)
    if interrupts.count > 1:
        raise KeyboardInterrupt
    workers = _workers(task, folder, prepared, finished, failed, started=go is not None)
    checks = [f.check for f in finished.values() if f.check is not None]
    overheads = [p.overhead_ns for p in prepared.values() if p is not None]
    return outcome(
        task,
        workers,
        go,
        check=combined(checks),
        overhead_ns=overheads[0] if overheads else None,
        interrupted=interrupts.count > 0,
        schedule_ns=starts,
        notes=next((p.notes for p in prepared.values() if p is not None), {}),
        resources=resources,
    )


def _workers(
    task: Task,
    folder: Path,
    prepared: Mapping[int, PreparedModel | None],
    finished: Mapping[int, Any],
    failed: Mapping[int, str],
    started: bool,
) -> list[WorkerRun]:
    """What each worker's stamps say, and what is known of it besides."""
    late = "a call took longer than allowed; its thread cannot be stopped" if started else ""
    workers = []
    for run in worker_runs(folder, task.columns, task.callers):
        before, after = prepared.get(run.model), finished.get(run.model)
        said = after.runs[run.worker] if after is not None else None
        trace = failed.get(run.model, "")
        workers.append(
            dataclasses.replace(
                run,
                load_ns=before.load_ns if before else 0,
                warmup_calls=before.warmup_calls[run.worker] if before else 0,
                errors=said.errors if said else 0,
                missing_items=after.missing_items[run.worker] if after else 0,
                pid=os.getpid(),
                reason=said.reason if said else raised_line(trace) or late,
                log=said.traceback if said else trace,
            )
        )
    return workers


def _together(
    hosts: list[Host], function: Callable[[Host], Any], interrupts: Interrupts, most_s: float
) -> dict[int, Any]:
    """Each host in a thread of its own, until all are done, the time is up or the user does not want to wait."""
    results: dict[int, Any] = {}

    def one(host: Host) -> None:
        results[host.index] = function(host)

    threads = [threading.Thread(target=one, args=(host,), daemon=True) for host in hosts]
    until = clock() + int(most_s * 1e9)
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and clock() < until and interrupts.count < 2:
            thread.join(TICK_S)
            if interrupts.count:
                for host in hosts:
                    host.stopped = True
    return results
