"""A benchmark's Outcomes as Records: kept in the store, queried, compared and shown like every other result.

A Record's `report` is the report in NeuronPerf's names; its timings are the calls' latencies and the device's times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from proveout.capture.identity import selector_of
from proveout.capture.identity import workload_of as described
from proveout.capture.inputs import named_tensors, specs_of
from proveout.clock.loops import as_arguments
from proveout.clock.stamps import Stamps
from proveout.clock.steady import Problem
from proveout.clock.timing import judged, kept, word
from proveout.coding import digest, to_json
from proveout.devices.registry import settings_for
from proveout.errors import ProveoutError
from proveout.measure import series
from proveout.measure.models import HOST_PART, is_bare, saved_in
from proveout.measure.outcome import Outcome
from proveout.measure.reports import reports
from proveout.measure.sheet import MS, Report
from proveout.measure.task import Task
from proveout.serving import Configuration
from proveout.store import Store
from proveout.types import Comparison, Job, Record, Settings, Timing, Workload

INTERVAL = ("modelled_low_ns", "modelled_high_ns")
"""Conditions that hold the interval of a modelled device time."""
OF_THE_RUN = ("passed", "partial", "failed", "skipped", "harness overhead")
"""Problems of a whole run that say nothing about its samples."""


def records(
    outcomes: Sequence[Outcome], workloads: Iterable[Workload], cost_per_hour: float | None = None, pcc: float = 0.99
) -> list[Record]:
    """One Record for each Outcome, in their order."""
    pairs = reports(outcomes, cost_per_hour)
    return [record_of(o, w, r, pcc) for o, w, r in zip(outcomes, workloads, pairs, strict=True)]


def keep(results: Iterable[Record], cache_dir: str | Path | None = None) -> str:
    """Write what was run to the store; gives the reason where that cannot be done, which costs no result."""
    try:
        for record in results:
            if record.report is not None and record.report["status"] != "skipped":
                Store(cache_dir).write(record)
    except ProveoutError as error:
        return str(error)
    return ""


def workload_of(task: Task) -> Workload:
    """What is known of a model before any worker has made it."""
    model, torch = task.model, sys.modules.get("torch")
    args, kwargs = as_arguments(task.inputs.value) if task.inputs.kind == "fixed" else ((), {})
    if torch is not None and isinstance(model.instance, torch.nn.Module):
        return described(model.instance, args, kwargs, model.name)
    specs = specs_of(named_tensors(args, kwargs)) if torch is not None else ()
    source = model.make or model.instance
    named = getattr(source, "__qualname__", type(source).__name__) if source is not None else model.path
    return Workload(model.name, "", selector_of(digest([model.name, named]), specs), str(named), specs)


def named(configuration: Configuration) -> Workload:
    """All that a run which was killed still tells of its model."""
    return Workload(configuration.model_name, "", digest([configuration.model_name])[:12])


def record_of(
    outcome: Outcome,
    workload: Workload,
    report: Report,
    pcc: float = 0.99,
    do: Literal["serve", "evaluate"] = "serve",
    settings: Settings | None = None,
    compiled: bool = False,
) -> Record:
    """An Outcome with its report; without `settings`, those of the saved model or a live one's. `compiled` says that a
    model was, also where the device would run it as it is."""
    configuration = outcome.configuration
    as_it_is = not (compiled or configuration.model_filename) and is_bare(configuration.device)
    job = Job(
        workload,
        configuration.device,
        settings or _settings(configuration),
        (do,),
        iterations=0,
        warmup=configuration.warmup or 0,
        duration_s=configuration.duration_s,
        runtime="eager" if as_it_is else "proveout",
        baseline=False,
        serve=configuration,
    )
    status: Literal["passed", "partial", "failed"] = (
        report["status"] if report["status"] in ("passed", "partial") else "failed"
    )
    wrong = outcome.check is not None and outcome.check.wrong > 0
    return Record(
        job,
        status,
        report["reason"],
        failure="" if status == "passed" else "numerics" if wrong else "script",
        log=next((w.log for w in outcome.workers if w.log), "") if status != "passed" else "",
        comparisons=_comparisons(outcome, pcc),
        timings=tuple(_timings(outcome, report, as_it_is)),
        environment=tuple((name, value) for name, value in outcome.conditions if name not in INTERVAL),
        created=outcome.created,
        report=to_json(report),
    )


def _settings(configuration: Configuration) -> Settings:
    """Those that a saved model was compiled with, or those that a worker compiles a live one with."""
    if not configuration.model_filename:
        return settings_for(configuration.device, live=True)
    # Not at the top: it imports torch.
    from proveout.engine.artifact import settings_of

    return settings_of(saved_in(configuration.model_filename))


def _comparisons(outcome: Outcome, pcc: float) -> tuple[Comparison, ...]:
    check = outcome.check
    if check is None or not check.compared:
        return ()
    return (Comparison("output", "outputs", check.worst_pcc, None, None, pcc, not check.wrong, check.reason),)


def _timings(outcome: Outcome, report: Report, as_it_is: bool) -> Iterable[Timing]:
    """Latency, named for what ran: the model as it is, compiled, or its simulation; the device's own time beside it."""
    calls = series.merged(outcome)
    if not len(calls):
        return
    device = outcome.configuration.device
    simulated = outcome.device_kind == "modelled"
    what = "eager" if as_it_is else "simulation" if simulated else "compiled"
    yield _latency(what, outcome, report, calls.latency_ns)
    for part in ("preprocess", "infer", "postprocess"):
        times = getattr(calls, f"{part}_ns")
        if len(times):
            yield judged(Timing(part, "measured", device, *_kept(times, outcome)), times)
    if simulated and len(calls.device_ns):
        facts = dict(outcome.conditions)
        bounds = (float(facts[INTERVAL[0]]), float(facts[INTERVAL[1]])) if set(INTERVAL) <= facts.keys() else None
        middle = round(float(np.median(calls.device_ns)))
        conditions = (("calibrated", facts.get("calibrated", "no")),)
        what = "device" if HOST_PART in facts else "compiled"  # with it, nobody knows a call's time
        yield Timing(what, "modelled", device, (middle,), conditions, bounds, "predicted")
    elif len(calls.device_ns):
        yield judged(Timing("device", "measured", device, *_kept(calls.device_ns, outcome)), calls.device_ns)


def _latency(what: str, outcome: Outcome, report: Report, latency_ns: Stamps) -> Timing:
    """With the interval and the verdict that the report has, which are of every call."""
    ends = [report[f"latency_ms_p50_{end}"] for end in ("low", "high")]
    problems = tuple(Problem(**p) for p in report["verdict_reasons"] if p["kind"] not in OF_THE_RUN)
    return Timing(
        what,
        "measured",
        outcome.configuration.device,
        *_kept(latency_ns, outcome),
        None if None in ends else (ends[0] * MS, ends[1] * MS),
        word(problems),
        "; ".join(f"{p.found}. {p.advice}" for p in problems),
    )


def _kept(times: Stamps, outcome: Outcome) -> tuple[tuple[int, ...], tuple[tuple[str, str], ...]]:
    """Samples that a Record can hold, and the conditions they were taken under."""
    configuration = outcome.configuration
    conditions = (
        ("load", configuration.words),
        ("warmup", str(sum(w.warmup_calls for w in outcome.workers))),
        ("threads", str(configuration.threads)),
    )
    samples, more = kept(times)
    return samples, (*conditions, *more)
