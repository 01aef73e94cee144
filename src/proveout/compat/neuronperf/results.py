"""What NeuronPerf's users read of a benchmark: pairs `(config, results)` with Timers, and reports with its words.

Numbers are those of our own reports, which define them; here they get NeuronPerf's names where it has other ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from proveout.compat.neuronperf.timing import Timer
from proveout.errors import UsageError
from proveout.measure.models import HOST_PART
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.reports import get_reports as own_reports
from proveout.measure.sheet import MS, Report
from proveout.measure.task import Task
from proveout.serving import Configuration

FINISHED, ERROR = "finished", "error"
NOT_STAMPED = {
    "input_avg_ms": "taking an input lies between two calls, and is not stamped",
    "warmup_avg_ms": "warm-up calls are counted (warmup_infs), not stamped",
}


def stamps_of(path: str, n_models: int) -> list[Timer]:
    """A Timer for each copy of the model; empty where its function did not run."""
    stamps = []
    for number in range(n_models):
        spans: list[list[int]] = []
        with suppress(OSError, ValueError):
            spans.append(json.loads(Path(f"{path}-{number}").read_text()))
        stamps.append(Timer.of([s for s, _ in spans], [e for _, e in spans], "ns"))
    return stamps


class Pair(tuple[dict[str, Any], dict[str, Any]]):
    """`config, results = pair`. The Outcome that it was made of is `pair.outcome`; its fields are the pair's too."""

    outcome: Outcome

    def __new__(cls, config: dict[str, Any], results: dict[str, Any], outcome: Outcome) -> Pair:
        pair = super().__new__(cls, (config, results))
        pair.outcome = outcome
        return pair

    def __reduce__(self) -> tuple[Any, ...]:
        return Pair, (*self, self.outcome)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "outcome":
            raise AttributeError(name)
        return getattr(self.outcome, name)


def pair(task: Task, outcome: Outcome, settings: Mapping[str, Any], setup: Mapping[str, list[Timer]]) -> Pair:
    """`settings` are what only NeuronPerf's arguments and the model index say of this configuration."""
    configuration = outcome.configuration
    began = time.localtime(time.time() - (time.perf_counter_ns() - outcome.started_ns) / 1e9)
    config = {
        "model_filename": configuration.model_filename or configuration.model_name,
        "model_name": configuration.model_name,
        "device_type": configuration.device,
        "instance_type": dict(outcome.conditions).get("cpu", "unknown"),
        "batch_size": configuration.batch_size,
        "n_models": configuration.n_models,
        "workers_per_model": configuration.workers_per_model,
        "pipeline_size": configuration.pipeline_size,
        "n_devices": configuration.n_models * configuration.pipeline_size,
        "multiprocess": configuration.multiprocess,
        "multiinterpreter": configuration.multiinterpreter,
        "start_dts": time.strftime("%Y%m%d-%H%M%S", began),
        "stop_dts": time.strftime("%Y%m%d-%H%M%S"),
        "duration": configuration.duration_s,
        **settings,
    }
    return Pair(config, _results(task, outcome, setup), outcome)


def _results(task: Task, outcome: Outcome, setup: Mapping[str, list[Timer]]) -> dict[str, Any]:
    workers = outcome.workers
    resources = dict(outcome.resources)
    first = [w for w in workers if w.worker == 0]
    nothing: list[Timer] = [Timer.of([], [], "ns") for _ in first]
    loads = [Timer.of([0], [w.load_ns], "ns") if w.load_ns else Timer.of([], [], "ns") for w in first]
    spans = [_spans(worker) for worker in workers]
    return {
        "workers_per_model": outcome.configuration.workers_per_model,
        "status": FINISHED if outcome.status == "passed" else ERROR,
        "outcome": outcome.status,
        "reason": outcome.reason,
        "n_infs": sum(len(w.ends_ns) for w in workers),
        "total_s": (outcome.ended_ns - outcome.started_ns) / 1e9,
        "timers": {
            "env_setup": setup["env_setup"],
            "setup": setup["setup"],
            "load": loads,
            "input": nothing,
            "warmup": list(nothing),
            **{part: [span[part] for span in spans] for part in ("preprocess", "infer", "postprocess", "e2e")},
            "worker": [Timer.of(w.starts_ns[:1], w.ends_ns[-1:], "ns") for w in workers],
        },
        "cpu_percents": list(resources.get("cpu_percent", ())),
        "mem_percents": list(resources.get("mem_percent", ())),
    }


def _spans(worker: WorkerRun) -> dict[str, Timer]:
    """Of each part of a worker's calls, in the order in which they lie within a call."""
    starts, ends = worker.starts_ns, worker.ends_ns
    inferred = worker.infer_ns
    if not len(inferred) and not len(worker.preprocess_ns) and not len(worker.postprocess_ns):
        inferred = ends - starts
    timers, at = {"e2e": Timer.of(starts, ends, "ns")}, starts
    for part, took in (
        ("preprocess", worker.preprocess_ns),
        ("infer", inferred),
        ("postprocess", worker.postprocess_ns),
    ):
        there = len(took) > 0
        timers[part] = Timer.of(at, at + took, "ns") if there else Timer.of([], [], "ns")
        at = at + took if there else at
    return timers


def get_reports(
    results: Sequence[Any], cost_per_hour: float | None = None, batch_sizes: int | Sequence[int] | None = None
) -> list[Report]:
    """One report for each of the pairs that `benchmark(…, return_timers=True)` gave, or that were made of them.

    `batch_sizes` correct the throughput, one for each of the inputs that were given to `benchmark`.
    """
    sizes = None if batch_sizes is None else [batch_sizes] if isinstance(batch_sizes, int) else list(batch_sizes)
    reports = []
    for result in results:
        if not isinstance(result, tuple):
            reports += own_reports([result], cost_per_hour)
            continue
        config, measured = result
        outcome = result.outcome if isinstance(result, Pair) else _outcome(config, measured)
        if sizes is not None:
            place = int(config.get("input_idx", 0))
            size = sizes[place if place < len(sizes) else -1]
            outcome = replace(outcome, configuration=replace(outcome.configuration, batch_size=size))
        reports.append(report(outcome, config, measured, own_reports([outcome], cost_per_hour)[0]))
    return reports


def report(outcome: Outcome, config: Mapping[str, Any], results: Mapping[str, Any], own: Report) -> Report:
    """A report of ours with NeuronPerf's words."""
    extra = {name: value for name, value in config.items() if name not in own}
    merged = own | extra | {"model_filename": config["model_filename"], "outcome": own["status"]}
    merged["status"] = FINISHED if own["status"] == "passed" else ERROR
    reasons = dict(own["reasons"])
    for name, timers in (("setup_avg_ms", "setup"), ("env_setup_avg_ms", "env_setup")):
        took = [timer.avg("ms") for timer in results["timers"].get(timers, ()) if len(timer)]
        merged[name] = float(np.mean(took)) if took else None
        if not took:
            reasons[name] = f"no {timers}_fn was given"
    for name, reason in NOT_STAMPED.items():
        merged[name], reasons[name] = None, reason
    merged["latency_ms_avg"] = own["e2e_avg_ms"]
    if own["e2e_avg_ms"] is None:
        reasons["latency_ms_avg"] = reasons.get("e2e_avg_ms", "")
    merged["throughput_modelled"] = _modelled(outcome, own)
    if merged["throughput_modelled"] is None:
        hosted = HOST_PART in dict(outcome.conditions)
        unknown = "the host has a part in a call, and no modelled time has it"
        reasons["throughput_modelled"] = unknown if hosted else "the time of this device is not modelled"
    return merged | {"reasons": reasons}


def _modelled(outcome: Outcome, own: Report) -> float | None:
    """Items a second on the modelled chips: a pipeline that is full gives a batch at every interval of its slowest
    stage, anything else one batch after the other."""
    latency_ms = own["device_modelled_ms_p50"]
    if not latency_ms or HOST_PART in dict(outcome.conditions):
        return None
    configuration = outcome.configuration
    between = latency_ms * MS
    interval = dict(outcome.conditions).get("pipeline_interval_ns")
    if interval:
        between = max(float(interval), between / configuration.workers_per_model)
    return configuration.n_models * configuration.batch_size * 1e9 / between


def _outcome(config: Mapping[str, Any], results: Mapping[str, Any]) -> Outcome:
    """Of a pair that is no more than two dicts: its calls are those of its Timers."""
    for what, value, names in (
        ("config", config, ("model_name", "device_type", "batch_size", "n_models")),
        ("results", results, ("status", "timers", "workers_per_model")),
    ):
        missing = [name for name in names if name not in value]
        if missing:
            raise UsageError(f"a result has no {missing[0]!r} in its {what}: give what benchmark(…) returned.")
    per_model = int(results["workers_per_model"])
    timers = results["timers"]
    workers = []
    for number, timer in enumerate(timers["e2e"]):
        spans = np.rint(timer.timestamps("ns")).astype(np.int64)
        load = list(timers.get("load", ()))[number // per_model : number // per_model + 1]
        parts = {
            f"{part}_ns": np.rint(timers[part][number].durations("ns")).astype(np.int64)
            for part in ("preprocess", "infer", "postprocess")
            if len(timers.get(part, ())) > number and len(timers[part][number]) == len(spans)
        }
        load_ns = round(float(load[0].total_duration("ns"))) if load else 0
        run = WorkerRun(number % per_model, number // per_model, spans[:, 0], spans[:, 1], load_ns=load_ns, **parts)
        workers.append(run)
    stamps = [w for w in workers if len(w.ends_ns)]
    configuration = Configuration(
        str(config["model_name"]),
        str(config["device_type"]),
        int(config["batch_size"]),
        int(config["n_models"]),
        per_model,
        int(config.get("pipeline_size", 1)),
        float(config.get("duration", 0.0)),
        multiprocess=bool(config.get("multiprocess", True)),
        multiinterpreter=bool(config.get("multiinterpreter", False)),
    )
    series: Iterable[tuple[str, tuple[float, ...]]] = (
        (name, tuple(results.get(f"{name}s", ()))) for name in ("cpu_percent", "mem_percent")
    )
    return Outcome(
        configuration,
        "passed" if results["status"] == FINISHED else "failed",
        str(results.get("reason", "")),
        tuple(workers),
        min((int(w.starts_ns[0]) for w in stamps), default=0),
        max((int(w.ends_ns[-1]) for w in stamps), default=0),
        resources=tuple(series),
    )
