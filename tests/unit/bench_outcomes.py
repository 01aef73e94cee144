"""Outcomes of benchmarks that never ran: calls at known times, for tests of what reports say about them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from proveout.measure.outcome import Outcome, WorkerRun
from proveout.serving import Configuration, Load

BEGAN = 5_000_000_000_000


def worker(index: int, times_ns: Any, model: int = 0, **fields: Any) -> WorkerRun:
    """One worker in a closed loop: each call starts when the last one has ended."""
    times = np.asarray(times_ns, dtype=np.int64)
    ends = BEGAN + np.cumsum(times)
    return WorkerRun(index, model, starts_ns=ends - times, ends_ns=ends, load_ns=3_000_000, pid=4000 + index, **fields)


def outcome(*workers: WorkerRun, status: str = "passed", ended_ns: int | None = None, **fields: Any) -> Outcome:
    """Configuration fields and Outcome fields alike may be given by name."""
    given = {f.name for f in dataclasses.fields(Configuration)}
    models = {w.model for w in workers}
    grid = {"n_models": max(len(models), 1), "workers_per_model": max(len(workers) // max(len(models), 1), 1)}
    configuration = Configuration("net", **grid | {k: v for k, v in fields.items() if k in given})
    last = max((int(w.ends_ns[-1]) for w in workers if len(w.ends_ns)), default=BEGAN)
    rest = {k: v for k, v in fields.items() if k not in given}
    return Outcome(configuration, status, workers=workers, started_ns=BEGAN, ended_ns=ended_ns or last, **rest)


def noisy(seed: int, num_calls: int = 3000, median_ns: float = 2e6) -> np.ndarray:
    return (median_ns * np.random.default_rng(seed).lognormal(0, 0.1, num_calls)).astype(np.int64)


def open_loop(gap_ns: int, service_ns: Any, rate: float = 0.0) -> Outcome:
    """One server, requests at equal distances: each starts when it is due and the one before it is done."""
    service = np.asarray(service_ns, dtype=np.int64)
    intended = BEGAN + gap_ns * np.arange(len(service), dtype=np.int64)
    starts, free = np.empty_like(intended), 0
    for i, due in enumerate(intended):
        starts[i] = max(int(due), free)
        free = int(starts[i]) + int(service[i])
    run = WorkerRun(0, 0, starts_ns=starts, ends_ns=starts + service, intended_ns=intended)
    return outcome(run, load=Load("constant", rate=rate or 1e9 / gap_ns))
