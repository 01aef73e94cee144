"""What a run under load says: TTFT, TPOT and ITL with intervals, throughput, goodput under limits, and a verdict.

A report is a flat dictionary as `measure.reports` makes them; docs/reference/bench-report.md defines each field. All
that came is counted: the first token and the gaps of an answer that broke off are in TTFT and ITL, and the answer
itself is an error that keeps no limit.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from proveout.clock.blocks import half_width
from proveout.clock.conditions import conditions
from proveout.clock.stamps import NO_STAMPS, Stamps
from proveout.clock.statistics import MIN_FOR_INTERVAL, Estimate, mean, summarise, throughput
from proveout.clock.steady import Problem, judge
from proveout.load.exchange import Exchange, Run
from proveout.load.slo import NO_LIMITS, Slo
from proveout.measure.sheet import MS, Report, ReportSheet
from proveout.serving import Configuration

SCHEMA = 1
LATE_MS = 1.0
"""How late the client may send one request in a hundred."""
BUSY = 0.8
"""Of a core: above, the client's own work may be in the times."""
MOST_WINDOWS = 120
ERRORS_SHOWN = 10
OF_A_CLOCK = ("clock resolution", "bimodal")
"""Problems that modelled times do not have: they are sums of few different steps."""
JUDGED = {"ttft": "TTFT", "tpot": "TPOT"}

Stamp = Callable[[Exchange], float | None]


def _first_piece(exchange: Exchange) -> int | None:
    return exchange.pieces_ns[0] if exchange.pieces_ns else None


def _service(exchange: Exchange) -> int | None:
    return exchange.pieces_ns[0] - exchange.sent_ns if exchange.pieces_ns else None


def _late(exchange: Exchange) -> int | None:
    return exchange.sent_ns - exchange.intended_ns if exchange.sent_ns else None


TIMES: dict[str, tuple[Stamp, Stamp]] = {
    "ttft": (lambda e: e.first_ns, _first_piece),
    "tpot": (lambda e: e.per_token_ns, lambda e: e.ended_ns),
    "latency": (lambda e: e.response_ns, lambda e: e.ended_ns),
    "service": (_service, _first_piece),
    "late": (_late, lambda e: e.sent_ns),
}
"""A time of each exchange, and when it ended: samples stand in that order."""


def times(run: Run, name: str) -> Stamps:
    """All times of a name in `TIMES`, or every gap between two tokens (`itl`), in the order in which they ended."""
    if name == "itl":
        pairs = [(e.gaps_ns, e.pieces_ns[1:]) for e in run.exchanges if len(e.pieces_ns) > 1]
        if not pairs:
            return NO_STAMPS
        ends = np.concatenate([np.array(end, dtype=np.int64) for _, end in pairs])
        return np.concatenate([gaps for gaps, _ in pairs])[np.argsort(ends, kind="stable")]
    value, end = TIMES[name]
    rows = [(end(e), v) for e in run.exchanges if (v := value(e)) is not None]
    return np.array([round(v) for _, v in sorted(rows, key=lambda row: row[0] or 0)], dtype=np.int64)


def figures(run: Run, configuration: Configuration, slo: Slo = NO_LIMITS) -> Report:
    """The report of one run; `configuration` says what was loaded and how requests arrived."""
    sheet = ReportSheet()
    exchanges, answered = run.exchanges, run.answered
    none = run.reason or "no request was answered"
    single = "no answer had a second token" if answered else none
    seconds = max(run.ended_ns - run.started_ns, 1) / 1e9
    sheet.values.update(
        schema=SCHEMA,
        tag="-".join([configuration.model_name, configuration.device, *configuration.words.split()]),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        status=run.status,
        reason=run.reason,
        kind=run.kind,
        model_name=configuration.model_name,
        device_type=configuration.device,
        batch_size=configuration.batch_size,
        load_mode=configuration.load.mode,
        rate=configuration.load.rate or len(exchanges) / seconds,
        requests=len(exchanges),
        answered=len(answered),
        errors=len(exchanges) - len(answered),
        error_kinds=_errors(exchanges),
        total_s=seconds,
        slo=str(slo),
    )
    _tokens(sheet, exchanges, seconds, none)
    sheet.estimate("throughput_avg", _rate(answered, run, none))
    _goodput(sheet, run, slo, none)
    samples = {name: times(run, name) for name in (*TIMES, "itl")}
    for name, sample in samples.items():
        empty = single if name in ("tpot", "itl") else none
        sheet.times(name, summarise(sample) if len(sample) else None, empty)
        sheet.estimate(f"{name}_avg_ms", mean(sample) if len(sample) else Estimate(None, reason=empty), MS)
    per_token = sheet.values["tpot_avg_ms"]
    sheet.put("tokens_per_s_per_user", 1e3 / per_token if per_token else None, single)
    late = samples["late"]
    sheet.put("sent_late_ms", float(np.percentile(late, 99)) / MS if len(late) else None, none)
    sheet.put("cpu_share", run.cpu_share, "the client's own time was not taken")
    problems = _problems(sheet, run, samples)
    sheet.values["verdict"] = "INVALID" if problems else "VALID"
    sheet.values["verdict_reasons"] = [asdict(p) for p in problems]
    sheet.values["series"] = _windows(run)
    sheet.values["conditions"] = dict(conditions())
    sheet.values["reasons"] = sheet.reasons
    return sheet.values


def _errors(exchanges: tuple[Exchange, ...]) -> list[dict[str, object]]:
    counts = Counter(e.error for e in exchanges if e.error).most_common(ERRORS_SHOWN)
    return [{"error": error, "requests": count} for error, count in counts]


def _tokens(sheet: ReportSheet, exchanges: tuple[Exchange, ...], seconds: float, none: str) -> None:
    """Tokens that came, as the server counts them or by pieces."""
    tokens = sum(e.num_tokens for e in exchanges)
    uncounted = any(e.pieces_ns and e.tokens is None for e in exchanges)
    prompts = [e.prompt_tokens for e in exchanges if e.prompt_tokens is not None]
    sheet.values["total_tokens"] = tokens
    sheet.values["tokens_counted_by"] = "pieces of the stream" if uncounted else "the server"
    sheet.put("prompt_tokens", sum(prompts) / len(prompts) if prompts else None, "the server does not count them")
    sheet.put("output_tokens", tokens / len(exchanges) if exchanges else None, none)
    sheet.put("tokens_per_s", tokens / seconds if tokens else None, none)


def _rate(exchanges: list[Exchange], run: Run, none: str) -> Estimate:
    """Requests that were answered ÷ elapsed."""
    if not exchanges or run.ended_ns <= run.started_ns:
        return Estimate(None, reason=none)
    ends = np.sort(np.array([e.ended_ns for e in exchanges], dtype=np.int64))
    return throughput(ends, run.started_ns, max(run.ended_ns, int(ends[-1])))


def _goodput(sheet: ReportSheet, run: Run, slo: Slo, none: str) -> None:
    """Requests per second that kept every limit, and their share of all that were due."""
    if not slo.longest_ns or not run.exchanges:
        why = none if slo.longest_ns else "no limits were set"
        sheet.estimate("goodput", Estimate(None, reason=why))
        sheet.estimate("good_share", Estimate(None, reason=why))
        return
    kept = np.array([slo.kept(e) for e in run.exchanges])
    sheet.estimate("good_share", share(kept))
    good = [e for e, is_kept in zip(run.exchanges, kept) if is_kept]
    sheet.estimate("goodput", _rate(good, run, none) if good else Estimate(0.0, reason="no request kept the limits"))


def share(kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Estimate:
    """A share of requests, with the interval that knows that misses come in bursts."""
    value = float(kept.mean())
    if len(kept) < MIN_FOR_INTERVAL:
        return Estimate(value, reason=f"an interval needs {MIN_FOR_INTERVAL} requests", needs=MIN_FOR_INTERVAL)
    half = half_width(kept, value)
    return Estimate(value, max(value - half, 0.0), min(value + half, 1.0))


def _problems(sheet: ReportSheet, run: Run, samples: dict[str, Stamps]) -> list[Problem]:
    """What speaks against the figures: the samples, the client, the errors."""
    problems = []
    if run.status != "passed":
        problems.append(Problem(run.status, run.reason, "The figures are those of what was answered"))
    late = sheet.values["sent_late_ms"]
    if run.kind == "measured" and late is not None and late > LATE_MS:
        sentence = f"one request in a hundred was sent {late:.3g} ms late or more"
        problems.append(Problem("client late", sentence, "Stop other programs on this machine, or send fewer requests"))
    if run.cpu_share is not None and run.cpu_share > BUSY:
        sentence = f"the client itself took {run.cpu_share:.0%} of a core"
        problems.append(Problem("client busy", sentence, "Send fewer requests, or from several machines"))
    for name, word in JUDGED.items():
        if len(samples[name]) and not (name == "tpot" and int(samples[name].max()) == 0):
            verdict = judge(samples[name])
            stand = [p for p in verdict.problems if run.kind == "measured" or p.kind not in OF_A_CLOCK]
            problems += [Problem(p.kind, f"{word}: {p.found}", p.advice) for p in stand]
    return problems


def _windows(run: Run) -> list[dict[str, float | None]]:
    """By the time at which requests were due: what those felt that came in each second, or in longer equal windows."""
    elapsed = max((e.intended_ns for e in run.exchanges), default=run.started_ns) - run.started_ns
    if elapsed <= 0:
        return []
    num = min(MOST_WINDOWS, max(elapsed // 1_000_000_000, min(20, len(run.exchanges))))
    inside: list[list[Exchange]] = [[] for _ in range(num)]
    for exchange in run.exchanges:
        inside[min((exchange.intended_ns - run.started_ns) * num // elapsed, num - 1)].append(exchange)
    step = elapsed / num / 1e9
    return [
        {
            "from_s": i * step,
            "to_s": (i + 1) * step,
            "requests": float(len(here)),
            "errors": float(sum(bool(e.error) for e in here)),
            "ttft_ms_median": _median([e.first_ns for e in here]),
            "tpot_ms_median": _median([e.per_token_ns for e in here]),
        }
        for i, here in enumerate(inside)
    ]


def _median(values: list[int | None] | list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.median(known)) / MS if known else None
