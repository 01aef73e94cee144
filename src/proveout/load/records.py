"""A run under load as a Record: kept in the store, queried, compared and shown like every other result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN, TOKEN_GAP, judged, kept
from proveout.coding import digest, to_json
from proveout.devices.registry import settings_for
from proveout.load.exchange import Run
from proveout.load.figures import figures, times
from proveout.load.slo import Slo
from proveout.measure.sheet import Report
from proveout.serving import Configuration
from proveout.types import Job, Record, Timing, Workload

ENDPOINT = "endpoint"
"""The device of a server on the network: what it runs on, it does not say."""
RESPONSE = "response"
TIMINGS = {FIRST_TOKEN: "ttft", PER_TOKEN: "tpot", TOKEN_GAP: "itl", RESPONSE: "latency"}


def record(
    run: Run,
    configuration: Configuration,
    slo: Slo,
    what: Mapping[str, Any],
    timeout_s: float,
    ends: tuple[Run, Run] | None = None,
) -> Record:
    """`what` tells this workload from another of the same model: the address, the lengths of prompts and answers.
    `ends` are the same run at both ends of a prediction."""
    report = figures(run, configuration, slo)
    if ends:
        report["prediction"] = between(report, *(figures(end, configuration, slo) for end in ends))
    name, device = configuration.model_name, configuration.device
    facts = {key: str(value) for key, value in what.items()}
    job = Job(
        Workload(
            name,
            "",
            digest([name, sorted(facts.items()), str(slo)])[:12],
            location=facts.get("url", ""),
        ),
        device,
        settings_for(device, live=True),
        ("load",),
        iterations=0,
        warmup=configuration.warmup or 0,
        duration_s=configuration.duration_s,
        timeout_s=timeout_s,
        baseline=False,
        serve=configuration,
    )
    report["workload"] = facts
    environment = tuple(report["conditions"].items())
    return Record(
        job,
        run.status,
        run.reason,
        failure="" if run.status == "passed" else "endpoint",
        timings=tuple(_timings(run, configuration, ends)),
        environment=environment,
        created=report["created"],
        report=to_json(report),
    )


def between(report: Report, low: Report, high: Report) -> dict[str, list[float | None]]:
    """The figures of a modelled run where every step takes as little, and as much, as its prediction allows."""
    names = [f"{name}_ms_p{p}" for name in ("ttft", "tpot", "itl", "latency") for p in (50, 90, 99)]
    return {name: [low[name], high[name]] for name in (*names, "throughput_avg", "goodput", "tokens_per_s")}


def _timings(run: Run, configuration: Configuration, ends: tuple[Run, Run] | None) -> Iterator[Timing]:
    """Measured times are judged; modelled ones have the interval of the same run at both ends of its prediction."""
    for what, name in TIMINGS.items():
        if not len(sample := times(run, name)):
            continue
        samples, more = kept(sample)
        timing = Timing(what, run.kind, configuration.device, samples, (("load", configuration.words), *more))
        if run.kind == "measured":
            yield judged(timing, sample)
            continue
        medians = [float(np.median(times(end, name))) for end in ends or () if len(times(end, name))]
        interval = (min(medians), max(medians)) if len(medians) == 2 else None
        yield replace(timing, interval_ns=interval, verdict="predicted")
