"""What each worker did when, as a Chrome trace: one process a model, one thread a worker, one slice a call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.series import merged, phase, windows

MOST_CALLS = 50_000
"""Calls of one worker that are drawn; a viewer cannot open many more. The trace says how many it left out."""
PARTS = ("preprocess", "infer", "postprocess")

Event = dict[str, Any]


def render(outcomes: Sequence[Outcome]) -> str:
    """The trace as JSON: times in µs after the measured phase of the first Outcome began."""
    first = min((o.started_ns for o in outcomes if o.workers), default=0)
    left_out = sum(max(0, len(w.ends_ns) - MOST_CALLS) for o in outcomes for w in o.workers)
    events = [event for index, outcome in enumerate(outcomes) for event in _outcome(outcome, index, first)]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"calls left out": left_out, "of each worker, drawn from the start": MOST_CALLS},
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def _outcome(outcome: Outcome, index: int, first: int) -> Iterator[Event]:
    c = outcome.configuration
    name = f"{c.model_name} on {c.device}, batch {c.batch_size}, {c.n_models}×{c.workers_per_model}"
    for model in sorted({w.model for w in outcome.workers}):
        yield _named("process_name", f"{name}, model {model}", _process(index, model), 0)
    for worker in outcome.workers:
        pid = _process(index, worker.model)
        yield _named("thread_name", f"worker {worker.worker}", pid, worker.worker)
        yield from _calls(worker, pid, first, outcome.device_kind)
    calls = merged(outcome)
    started, ended = phase(outcome, calls)
    for window in windows(calls, started, ended, c.batch_size):
        at = (started - first) / 1e3 + window.from_s * 1e6
        counter = {"items per second": window.throughput}
        yield {"ph": "C", "name": "throughput", "ts": at, "pid": _process(index, 0), "tid": 0, "args": counter}


def _calls(worker: WorkerRun, pid: int, first: int, device_kind: str) -> Iterator[Event]:
    place = {"pid": pid, "tid": worker.worker}
    for i in range(min(len(worker.ends_ns), MOST_CALLS)):
        start, end = int(worker.starts_ns[i]), int(worker.ends_ns[i])
        event: Event = {}
        if len(worker.intended_ns):
            event["waited_us"] = (start - int(worker.intended_ns[i])) / 1e3
        if len(worker.device_ns):
            event[f"device_us ({device_kind})"] = int(worker.device_ns[i]) / 1e3
        yield {
            "ph": "X",
            "name": "call",
            "ts": (start - first) / 1e3,
            "dur": (end - start) / 1e3,
            **place,
            "args": event,
        }
        at = start
        for part in PARTS:
            times = getattr(worker, f"{part}_ns")
            if len(times):
                took = int(times[i])
                yield {"ph": "X", "name": part, "ts": (at - first) / 1e3, "dur": took / 1e3, **place, "args": {}}
                at += took


def _process(index: int, model: int) -> int:
    return index * 1000 + model + 1


def _named(what: str, name: str, pid: int, tid: int) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
