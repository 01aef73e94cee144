"""A benchmark's Outcomes as reports: NeuronPerf's names with right definitions, intervals, and a verdict with reasons.

A report is a flat dictionary of JSON values; docs/reference/bench-report.md defines each. A number that cannot be said
is None, and `reasons` says why under the same name. `X_low` and `X_high` are the 95 % interval of X.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from proveout.clock import histogram, statistics, steady
from proveout.clock.stamps import Stamps
from proveout.clock.statistics import CURVE, Estimate, Summary
from proveout.coding import to_json
from proveout.errors import UsageError, unknown
from proveout.measure import series
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.sheet import MS, Report, ReportSheet
from proveout.types import Record

SCHEMA = 1
RESOURCE_PERCENTS = (0, 50, 90, 95, 99, 100)
OVERHEAD = 0.05
"""Share of the median call that the harness itself may take before the verdict says so."""
SETTLING = 0.01
"""Share of the measured calls that may differ at the start without a note."""
BUSY_PERCENT = 20.0
CLOSED = ("closed", "concurrency")
NO_CALL = "no call was completed"
PARTS = ("preprocess", "infer", "postprocess")
ADVICE = {
    "partial": "The numbers are those of what was completed",
    "failed": "Do not use these numbers",
    "skipped": "Nothing was run",
}


def reports(outcomes: Iterable[Outcome], cost_per_hour: float | None = None) -> list[Report]:
    """One report for each Outcome, in their order; `cost_per_hour` is used where a configuration names none."""
    return [_report(outcome, cost_per_hour) for outcome in outcomes]


def get_reports(results: Sequence[Any], cost_per_hour: float | None = None) -> list[Report]:
    """The reports of what `benchmark(…, return_timers=True)` gave, or of its Records; reports pass through."""
    rows = []
    for result in results:
        report = result.report if isinstance(result, Record) else getattr(result, "outcome", result)
        if not isinstance(report, Outcome | dict):
            what = "Record of no such benchmark" if isinstance(result, Record) else type(result).__name__
            raise UsageError(f"a result is a {what}: give what benchmark(…, return_timers=True) returned.")
        rows.append(report if isinstance(report, dict) else _report(report, cost_per_hour))
    return rows


def get_report_by_tag(reports: Sequence[Report], tag: str) -> Report:
    """The one report whose `tag` this is: model, device, batch size, models, workers, pipeline size and load."""
    if isinstance(reports, str):
        reports, tag = tag, reports  # type: ignore[assignment]
    tagged = [report for report in reports if report["tag"] == tag]
    if not tagged:
        raise unknown("tag", tag, sorted({report["tag"] for report in reports}))
    return tagged[0]


def tag(outcome: Outcome) -> str:
    """A name for a configuration that another run of it has too."""
    c = outcome.configuration
    return "-".join([c.model_name, c.device, *c.words.split()])


def _report(outcome: Outcome, cost_per_hour: float | None) -> Report:
    sheet = ReportSheet()
    calls = series.merged(outcome)
    started, ended = series.phase(outcome, calls)
    status, reason = _status(outcome)
    configuration = outcome.configuration
    sheet.values.update(
        schema=SCHEMA,
        tag=tag(outcome),
        created=outcome.created,
        status=status,
        reason=reason,
        model_name=configuration.model_name,
        model_filename=configuration.model_filename or configuration.model_name,
        device_type=configuration.device,
        batch_size=configuration.batch_size,
        n_models=configuration.n_models,
        live_models=outcome.live_models,
        workers_per_model=configuration.workers_per_model,
        pipeline_size=configuration.pipeline_size,
        load_mode=configuration.load.mode,
        duration=configuration.duration_s,
        multiprocess=configuration.multiprocess,
        multiinterpreter=configuration.multiinterpreter,
        threads=configuration.threads,
    )
    binned = sum(histogram.num_calls(w.bins) for w in outcome.workers)
    no_call = histogram.NO_ORDER if binned else NO_CALL
    verdict = _throughput_and_latency(sheet, outcome, calls, started, ended, binned > 0)
    _parts(sheet, calls, no_call)
    _device(sheet, outcome, calls.device_ns)
    _workers(sheet, outcome.workers, started, no_call)
    _cost(sheet, configuration.cost_per_hour if configuration.cost_per_hour is not None else cost_per_hour)
    _resources(sheet, dict(outcome.resources))
    _harness(sheet, outcome)
    unordered = _from_histogram(sheet, outcome, started, ended) if any(w.bins.size for w in outcome.workers) else []
    problems = [*_problems(sheet), *(verdict.problems if verdict else ()), *unordered]
    sheet.values["verdict"] = "INVALID" if problems else "VALID"
    sheet.values["verdict_reasons"] = [dataclasses.asdict(problem) for problem in problems]
    sheet.values["notes"] = _notes(outcome, calls, started, ended, verdict)
    sheet.values["configuration"] = {
        key: value for key, value in to_json(dataclasses.asdict(configuration)).items() if key != "load"
    } | {"load": _load(outcome)}
    sheet.values["conditions"] = dict(outcome.conditions)
    sheet.values["series"] = [
        dataclasses.asdict(w) for w in series.windows(calls, started, ended, configuration.batch_size)
    ]
    sheet.values["resources"] = {name: [float(v) for v in values] for name, values in outcome.resources}
    sheet.values["reasons"] = sheet.reasons
    return sheet.values


def _throughput_and_latency(
    sheet: ReportSheet, outcome: Outcome, calls: series.CallSeries, started: int, ended: int, binned: bool
) -> steady.Verdict | None:
    """`binned`: the calls are in a histogram, so that none has a time of its own."""
    items, n = outcome.configuration.batch_size, len(calls)
    inside = calls.ends_ns[calls.ended_within(started, ended)]
    missing = sum(w.missing_items for w in outcome.workers)
    sheet.put("total_infs", n * items - missing)
    sheet.put("total_calls", n)
    sheet.put("total_s", (ended - started) / 1e9)
    sheet.put("errors", sum(w.errors for w in outcome.workers))
    none = histogram.NO_ORDER if binned else ": ".join(filter(None, (NO_CALL, outcome.reason)))
    rate = _rate(inside, started, ended, items) if n else Estimate(None, reason=none)
    sheet.estimate("throughput_avg", rate, n * items / (n * items - missing) if n * items > missing else 1.0)
    most = series.peak(calls, started, ended, items)
    sheet.put("throughput_peak", most, none if not n else "the measured phase is shorter than one second")
    verdict = _judge(outcome, calls, ended - started)
    summary = _summary(verdict, calls, outcome.configuration.load.mode)
    sheet.times("latency", summary, none)
    closed = not len(calls.intended_ns)
    why = none if not n else "in a closed loop a call starts when it is asked for: latency is service time"
    for name, times in (
        ("service", None if closed else calls.service_ns),
        ("waited", None if closed else calls.starts_ns - calls.intended_ns),
    ):
        latency = statistics.summarise(np.maximum(times, 0)) if times is not None else None
        sheet.times(name, latency, why)
        sheet.estimate(f"{name}_avg_ms", latency.mean_ns if latency else Estimate(None, reason=why), MS)
    sheet.estimate("e2e_avg_ms", summary.mean_ns if summary else Estimate(None, reason=none), MS)
    sheet.put("independent_samples", summary and summary.independent, none)
    sheet.put("settling_calls", verdict and verdict.steady.warmup, none)
    sheet.put("drift", verdict and verdict.steady.drift, (verdict.steady.reason if verdict else none) or none)
    curve = zip(CURVE, summary.curve_ns) if summary else ()
    sheet.values["cdf"] = [[share, ns / MS] for share, ns in curve]
    return verdict


def _rate(ends_ns: Stamps, started: int, ended: int, items: int) -> Estimate:
    if ended <= started or not len(ends_ns):
        return Estimate(None, reason="no call ended within a measured phase of any length")
    return statistics.throughput(ends_ns, started, ended, items)


def _from_histogram(sheet: ReportSheet, outcome: Outcome, started: int, ended: int) -> list[steady.Problem]:
    """What a histogram tells in place of single calls: no intervals, and no verdict on what it cannot show."""
    calls = sum(histogram.num_calls(w.bins) for w in outcome.workers)
    if calls and ended > started:
        items = calls * outcome.configuration.batch_size - sum(w.missing_items for w in outcome.workers)
        summary = histogram.summary([w.bins for w in outcome.workers])
        filled = ReportSheet()
        filled.put("total_infs", items)
        filled.put("total_calls", calls)
        filled.estimate("throughput_avg", Estimate(items * 1e9 / (ended - started), reason=histogram.NO_ORDER))
        filled.times("latency", summary)
        filled.estimate("e2e_avg_ms", summary.mean_ns, MS)
        for name, value in filled.values.items():
            sheet.reasons.pop(name, None)
            sheet.put(name, value, filled.reasons.get(name, ""))
        sheet.values["cdf"] = [[share, ns / MS] for share, ns in zip(CURVE, summary.curve_ns)]
    return [steady.Problem("not steady", "a histogram cannot show a steady state", "Use recording='raw' to judge it")]


def _judge(outcome: Outcome, calls: series.CallSeries, elapsed_ns: int) -> steady.Verdict | None:
    """In a closed loop that ran to its end, the calls' times must add up to the callers' time.

    Offline, all is due at once, and responses grow by their nature: there the service times are judged.
    """
    if not len(calls):
        return None
    configuration = outcome.configuration
    mode = configuration.load.mode
    adds_up = outcome.status == "passed" and mode in CLOSED and elapsed_ns > 0
    callers = configuration.load.concurrency or configuration.num_workers
    judged = calls.service_ns if mode == "offline" else calls.latency_ns
    return steady.judge(judged, elapsed_ns=elapsed_ns if adds_up else None, concurrency=callers)


def _summary(verdict: steady.Verdict | None, calls: series.CallSeries, mode: str) -> Summary | None:
    """Of every measured call: throughput counts those in which the model was still settling, so latency does too."""
    if verdict is None:
        return None
    judged_all = mode != "offline" and verdict.summary.n == len(calls)
    return verdict.summary if judged_all else statistics.summarise(calls.latency_ns)


def _parts(sheet: ReportSheet, calls: series.CallSeries, no_call: str) -> None:
    timed = {part: getattr(calls, f"{part}_ns") for part in PARTS}
    only_infer = len(calls) > 0 and not any(map(len, timed.values())) and not len(calls.intended_ns)
    for part, times in timed.items():
        if part == "infer" and only_infer:
            for suffix in ("", "_low", "_high"):
                sheet.put(f"infer_avg_ms{suffix}", sheet.values[f"e2e_avg_ms{suffix}"])
            continue
        alone = "inference was not timed alone" if part == "infer" else f"no {part}_fn was timed"
        reason = alone if len(calls) else no_call
        sheet.estimate(f"{part}_avg_ms", statistics.mean(times) if len(times) else Estimate(None, reason=reason), MS)


def _device(sheet: ReportSheet, outcome: Outcome, device_ns: Stamps) -> None:
    """Modelled and measured device times have columns of their own. A prediction is one value, and stands once, unless
    calls of several shapes have several."""
    sheet.values["device_kind"] = outcome.device_kind
    for kind in ("measured", "modelled"):
        here = outcome.device_kind == kind and len(device_ns) > 0
        reason = f"this device's own time was not {kind}"
        summary = statistics.summarise(device_ns, (50.0,)) if here else None
        sheet.put(f"device_{kind}_ms_p50", summary and (summary.median_ns.value or 0.0) / MS, reason)
        if summary and kind == "modelled" and summary.min_ns == summary.max_ns:
            summary, reason = None, "one prediction for every call: device_modelled_ms_p50"
        sheet.put(f"device_{kind}_avg_ms", summary and (summary.mean_ns.value or 0.0) / MS, reason)
        sheet.put(f"device_{kind}_ms_p100", summary and summary.max_ns / MS, reason)


def _workers(sheet: ReportSheet, workers: Sequence[WorkerRun], started: int, no_call: str) -> None:
    loads = [w.load_ns / MS for w in workers if w.load_ns]
    spans = [float(w.ends_ns[-1] - w.starts_ns[0]) / 1e9 for w in workers if len(w.ends_ns)]
    sheet.put("load_avg_ms", sum(loads) / len(loads) if loads else None, "no model was loaded")
    sheet.put("worker_avg_s", sum(spans) / len(spans) if spans else None, no_call)
    sheet.put("warmup_infs", sum(w.warmup_calls for w in workers) * sheet.values["batch_size"])
    sheet.values["workers"] = [
        {
            "worker": w.worker,
            "model": w.model,
            "pid": w.pid,
            "calls": len(w.ends_ns),
            "start_s": float(w.starts_ns[0] - started) / 1e9 if len(w.starts_ns) else None,
            "end_s": float(w.ends_ns[-1] - started) / 1e9 if len(w.ends_ns) else None,
            "load_ms": w.load_ns / MS,
            "warmup_calls": w.warmup_calls,
            "errors": w.errors,
            "exit_code": w.exit_code,
            "reason": w.reason,
            "log": w.log,
        }
        for w in workers
    ]


def _cost(sheet: ReportSheet, per_hour: float | None) -> None:
    rate = sheet.values["throughput_avg"]
    sheet.put("cost_per_hour", per_hour, "no cost_per_hour was given")
    known = per_hour is not None and rate
    reason = "no cost_per_hour was given" if per_hour is None else "nothing was completed"
    sheet.put("cost_per_1m_inf", per_hour * 1e6 / (3600 * rate) if known and per_hour is not None else None, reason)


def _resources(sheet: ReportSheet, sampled: Mapping[str, Sequence[float]]) -> None:
    for short in ("cpu", "mem"):
        values = sampled.get(f"{short}_percent", ())
        reason = f"{short}_percent was not sampled"
        sheet.put(f"{short}_avg_percent", float(np.mean(values)) if len(values) else None, reason)
        for percent in RESOURCE_PERCENTS:
            value = float(np.percentile(values, percent)) if len(values) else None
            sheet.put(f"{short}_percent_p{percent}", value, reason)
    rss = sampled.get("rss_bytes", ())
    sheet.put("rss_peak_bytes", float(max(rss)) if len(rss) else None, "rss_bytes was not sampled")
    energy = sampled.get("energy_j", ())
    used = float(energy[-1] - energy[0]) if len(energy) > 1 else None
    infs = sheet.values["total_infs"]
    sheet.put("energy_j", used, "this machine gives no energy counter")
    sheet.put("energy_j_per_inf", used / infs if used is not None and infs else None, "energy is not known")
    sheet.values["n_stats_intervals"] = max((len(values) for values in sampled.values()), default=0)


def _harness(sheet: ReportSheet, outcome: Outcome) -> None:
    middle = sheet.values["latency_ms_p50"]
    known = outcome.overhead_ns is not None
    sheet.put("overhead_ns", outcome.overhead_ns, "the harness's own time was not measured")
    share = outcome.overhead_ns / MS / middle if known and outcome.overhead_ns is not None and middle else None
    sheet.put("overhead_share", share, "the harness's own time or the median is not known")
    check = outcome.check
    sheet.put("outputs_compared", check and check.compared, "outputs were not compared")
    sheet.put("outputs_wrong", check and check.wrong, "outputs were not compared")
    sheet.put("worst_pcc", check and check.worst_pcc, (check.reason if check else "") or "outputs were not compared")


def _status(outcome: Outcome) -> tuple[str, str]:
    """A fast wrong model is a failure, whatever else went well."""
    check = outcome.check
    if check and check.wrong:
        sentence = f"{check.wrong} of {check.compared} outputs are wrong"
        return "failed", "; ".join(filter(None, (outcome.reason, sentence, check.reason)))
    return outcome.status, outcome.reason


def _problems(sheet: ReportSheet) -> list[steady.Problem]:
    """What is wrong beside the sample itself."""
    problems = []
    status, share = sheet.values["status"], sheet.values["overhead_share"]
    if status != "passed":
        problems.append(steady.Problem(status, sheet.values["reason"] or status, ADVICE[status]))
    if share is not None and share > OVERHEAD:
        advice = "The model is about as fast as the harness: use a larger batch, or time several calls as one"
        problems.append(steady.Problem("harness overhead", f"the harness takes {share:.0%} of the median call", advice))
    return problems


def _notes(
    outcome: Outcome, calls: series.CallSeries, started: int, ended: int, verdict: steady.Verdict | None
) -> list[str]:
    notes = []
    size, device = outcome.configuration.pipeline_size, outcome.configuration.device
    if size > 1 and len(calls) and "pipeline" not in dict(outcome.conditions):
        notes.append(f"no pipeline: the model ran whole on {device}, and pipeline_size {size} only counts places")
    within = calls.ended_within(started, ended)
    outside = len(calls) - (within.stop - within.start)
    if outside:
        notes.append(f"{outside} calls ended outside the measured phase: they are in latency, not in throughput")
    if verdict and verdict.steady.warmup > SETTLING * len(calls):
        notes.append(f"the first {verdict.steady.warmup} measured calls differ from the rest; they are in all numbers")
    if outcome.configuration.load.mode == "offline":
        notes.append(
            "offline: all calls are due at once, so latency counts the queue; look at throughput and service time"
        )
    errors = sum(w.errors for w in outcome.workers)
    if errors:
        notes.append(f"{errors} calls raised an error; they are in no number but this one")
    pressure = dict(outcome.conditions).get("cpu_pressure", "0")
    if float(pressure.split()[0]) > BUSY_PERCENT:
        notes.append(f"the machine was busy before it began: tasks waited for a processor in {pressure}")
    return notes


def _load(outcome: Outcome) -> Report:
    load = outcome.configuration.load
    fields: Report = dataclasses.asdict(load)
    fields["arrivals_s"] = len(load.arrivals_s)
    return fields
