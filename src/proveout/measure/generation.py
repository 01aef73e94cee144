"""Text generation: time to first token, every gap between tokens, tokens per second.

    [report] = benchmark_generation(model, inputs, max_new_tokens=64)      # model.generate of transformers
    [report] = benchmark_generation(lambda: tokens_of(prompt))             # anything that yields tokens one by one

A token's time is when it was handed over: `generate` gives each to a streamer on the host, when the device is done.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proveout.clock.conditions import conditions
from proveout.clock.pacing import clock
from proveout.clock.stamps import Stamps
from proveout.clock.statistics import Estimate, mean, summarise
from proveout.clock.steady import judge
from proveout.clock.timing import FIRST_TOKEN, TOKEN_GAP, judged, measured
from proveout.coding import digest, to_json
from proveout.devices.registry import settings_for
from proveout.errors import ProveoutError, UsageError
from proveout.measure.models import is_gpu
from proveout.measure.sheet import MS, Report, ReportSheet
from proveout.serving import Configuration
from proveout.store import Store
from proveout.types import Job, Record, Timing, Workload

log = logging.getLogger(__name__)

RUNS = 10
WARMUP = 1


@dataclass(frozen=True, eq=False)
class Generated:
    """One generation: when it was asked for, and when each step's tokens (`batch` of them) were handed over."""

    started_ns: int
    tokens_ns: Stamps
    batch: int = 1
    prompt_tokens: int | None = None

    @property
    def first_ns(self) -> int:
        return int(self.tokens_ns[0]) - self.started_ns

    @property
    def gaps_ns(self) -> Stamps:
        return np.diff(self.tokens_ns)

    @property
    def num_tokens(self) -> int:
        return len(self.tokens_ns) * self.batch


class TokenTimer:
    """A streamer for transformers' `generate`: stamps each step's tokens. The first thing it is given is the prompt."""

    def __init__(self) -> None:
        self.stamps: list[int] = []
        self.batch, self.prompt_tokens = 1, 0
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        now = clock()
        if self._prompt_seen:
            self.stamps.append(now)
            return
        self._prompt_seen = True
        shape = tuple(getattr(value, "shape", (1,)))
        self.batch = int(shape[0]) if len(shape) > 1 else 1
        self.prompt_tokens = int(shape[-1])

    def end(self) -> None:
        """There is nothing to close."""


def time_generate(model: Any, inputs: Any, **options: Any) -> Generated:
    """One call of `model.generate(inputs)`, timed token by token; `inputs` is a tensor of ids or a dict of tensors."""
    timer = TokenTimer()
    arguments = {"inputs": inputs} if not isinstance(inputs, Mapping) else dict(inputs)
    started = clock()
    model.generate(**arguments, streamer=timer, **options)
    return _generated(started, timer.stamps, timer.batch, timer.prompt_tokens)


def time_tokens(tokens: Iterable[Any]) -> Generated:
    """One pass over an iterator that yields a token at a time; the clock starts before its first step."""
    stamps: list[int] = []
    started = clock()
    for _ in tokens:
        stamps.append(clock())
    return _generated(started, stamps, 1, None)


def benchmark_generation(
    model: Any,
    inputs: Any = None,
    *,
    runs: int = RUNS,
    warmup: int = WARMUP,
    device_type: str = "cpu",
    model_name: str = "",
    keep: bool = True,
    cache_dir: str | Path | None = None,
    **options: Any,
) -> list[Report]:
    """Generate `runs` times after `warmup` times that are not counted; `options` are those of `generate`.

    `model` has a `generate` that takes a streamer, or is a function that gives a fresh iterator of tokens. What it took
    is kept as a Record in the cache, unless `keep` is False.
    """
    if runs < 1 or warmup < 0:
        raise UsageError(f"{runs} runs after {warmup} of warm-up: give at least 1 run and no less than 0 of warm-up.")
    once = _once(model, inputs, options)
    generations: list[Generated] = []
    whole = measured("generation", device_type, lambda: generations.append(once()), iterations=runs, warmup=warmup)
    generations = generations[-runs:]
    name = model_name or getattr(model, "__name__", type(model).__name__)
    report = generation_report(generations, model_name=name, device_type=device_type, warmup=warmup)
    record = _record(report, whole, generations, options)
    if keep:
        try:
            Store(cache_dir).write(record)
        except ProveoutError as error:  # which costs no result
            log.warning("Not kept: %s", error)
    return [report]


def _record(report: Report, whole: Timing, generations: Sequence[Generated], options: Mapping[str, Any]) -> Record:
    """The generations' times as a Record: of the whole, to the first token, and between two tokens."""
    name, device = report["model_name"], report["device_type"]
    firsts = tuple(g.first_ns for g in generations)
    gaps = tuple(int(gap) for g in generations for gap in g.gaps_ns)
    timings = [whole, judged(Timing(FIRST_TOKEN, "measured", device, firsts, whole.conditions))]
    timings += [judged(Timing(TOKEN_GAP, "measured", device, gaps, whole.conditions))] if gaps else []
    chosen = {key: repr(value) for key, value in sorted(options.items())}
    job = Job(
        Workload(name, "", digest([name, report["prompt_tokens"], chosen])[:12]),
        device,
        settings_for(device, live=True),
        ("generate",),
        iterations=len(generations),
        warmup=report["warmup_runs"],
        runtime="eager",
        baseline=False,
        serve=Configuration(name, device, report["batch_size"], multiprocess=False),
    )
    environment = tuple(report["conditions"].items())
    return Record(
        job,
        "passed",
        timings=tuple(timings),
        environment=environment,
        created=report["created"],
        report=to_json(report),
    )


def generation_report(
    runs: Sequence[Generated], *, model_name: str = "", device_type: str = "cpu", warmup: int = 0
) -> Report:
    """What generations took, in all: fields as docs/reference/bench-report.md defines them."""
    if not runs:
        raise UsageError("a report needs at least one generation.")
    sheet = ReportSheet()
    firsts = np.array([g.first_ns for g in runs])
    gaps = np.concatenate([g.gaps_ns for g in runs])
    whole = np.array([int(g.tokens_ns[-1]) - g.started_ns for g in runs])
    tokens, later = sum(g.num_tokens for g in runs), sum(len(g.gaps_ns) * g.batch for g in runs)
    sheet.values.update(
        model_name=model_name,
        device_type=device_type,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        batch_size=max(g.batch for g in runs),
        num_runs=len(runs),
        warmup_runs=warmup,
        total_tokens=tokens,
        total_s=float(whole.sum()) / 1e9,
    )
    prompts = {g.prompt_tokens for g in runs}
    known = prompts.pop() if len(prompts) == 1 else None
    sheet.put("prompt_tokens", known, "prompts differ in length or are not known")
    sheet.times("ttft", summarise(firsts))
    sheet.estimate("ttft_avg_ms", mean(firsts), MS)
    none = "no generation gave a second token"
    summary = summarise(gaps) if len(gaps) else None
    sheet.times("gap", summary, none)
    sheet.estimate("gap_avg_ms", summary.mean_ns if summary else Estimate(None, reason=none), MS)
    sheet.estimate("tokens_per_s", _rate(whole, tokens))
    sheet.estimate("decode_tokens_per_s", _rate(gaps, later) if len(gaps) else Estimate(None, reason=none))
    verdict = judge(gaps) if len(gaps) else None
    problems = verdict.problems if verdict else ()
    sheet.values["verdict"] = "VALID" if verdict and not problems else "INVALID"
    sheet.values["verdict_reasons"] = [vars(p) for p in problems]
    sheet.values["runs"] = [
        {"ttft_ms": g.first_ns / MS, "tokens": g.num_tokens, "gaps_ms": [float(gap) / MS for gap in g.gaps_ns]}
        for g in runs
    ]
    sheet.values["conditions"] = dict(conditions(gpu=is_gpu(device_type)))
    sheet.values["reasons"] = sheet.reasons
    return sheet.values


def _rate(times_ns: Stamps, tokens: int) -> Estimate:
    """Tokens ÷ time; its interval is that of the mean time."""
    rate = tokens * 1e9 / max(float(times_ns.sum()), 1.0)
    average = mean(times_ns)
    if average.low is None or average.high is None or average.value is None or average.low <= 0:
        return Estimate(rate, reason=average.reason or "the times vary more than their mean. Measure for longer")
    return Estimate(rate, rate * average.value / average.high, rate * average.value / average.low)


def _once(model: Any, inputs: Any, options: dict[str, Any]) -> Callable[[], Generated]:
    if hasattr(model, "generate"):
        if inputs is None:
            raise UsageError("generate needs inputs: a tensor of token ids, or a dict such as a tokenizer gives.")
        return lambda: time_generate(model, inputs, **options)
    if not callable(model):
        raise UsageError(f"a {type(model).__name__} generates nothing: give a model with generate, or a function "
                         "that gives a fresh iterator of tokens.")  # fmt: skip
    if inputs is not None or options:
        raise UsageError("inputs and options are for a model with generate; a function of tokens takes none.")
    return lambda: time_tokens(model())


def _generated(started: int, stamps: list[int], batch: int, prompt_tokens: int | None) -> Generated:
    if not stamps:
        raise UsageError("nothing was generated: not one token was handed over.")
    return Generated(started, np.array(stamps, dtype=np.int64), batch, prompt_tokens)
