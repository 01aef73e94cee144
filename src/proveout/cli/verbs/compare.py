"""`proveout compare`: is B slower than A? Runs of both in fresh processes, in turn, and a ratio with its interval."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from proveout.cache import entries, record_of
from proveout.capture import discover, resolve
from proveout.cli.options import CacheDir, Json, ScriptArgs, SearchDir
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import SharedOptions, check
from proveout.columns.words import called, measured_ratio, weakness
from proveout.devices.registry import device_names, devices, find
from proveout.errors import ScriptError, UsageError, unknown
from proveout.measure import compare as statistics
from proveout.measure.compare import Gate, Ratio
from proveout.prove import prove
from proveout.store import Store
from proveout.types import Job, Record, Timing

PAIRS, CALLS, WARMUP = 10, 1000, 50
"""The design that the gate's error rates are declared for, and calls before it."""
EXIT = {"passed": 0, "failed": 1, "undecided": 4}
EAGER = "eager"

Side = Annotated[str, typer.Argument(metavar="SCRIPT[::HASH][@WHERE]", show_default=False)]
GateOption = Annotated[
    str | None,
    typer.Option("--gate", metavar="SHARE", help="Fail if B is slower by this much: 3%, 0.03.", show_default=False),
]
PairsOption = Annotated[int, typer.Option("--pairs", min=1, metavar="N", help="Pairs of runs, each in a process.")]
CallsOption = Annotated[int, typer.Option("--iterations", min=1, metavar="N", help="Timed calls of each run.")]
WarmupOption = Annotated[int, typer.Option("--warmup", min=0, metavar="N", help="Calls before the timed ones.")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each run.")]


def verb(
    a: Side,
    b: Side,
    gate: GateOption = None,
    pairs: PairsOption = PAIRS,
    iterations: CallsOption = CALLS,
    warmup: WarmupOption = WARMUP,
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    cache_dir: CacheDir = None,
    timeout: Timeout = 600.0,
    as_json: Json = False,
) -> int:
    """Compare the time per call of two models or settings.

    Runs alternate as A B, B A, … in fresh processes; the ratio is that of adjacent runs. @WHERE is a device, or
    `eager` for the model as it is, and settings may follow. Without @WHERE a model is compiled for the cpu.
    Two results of the cache, each by its key or its name, are compared as they are. Of the runs, each side's last is
    kept in the cache.

    \b
    Examples:
      proveout compare old.py new.py --gate 3%
      proveout compare net.py@eager net.py@cpu
      proveout compare net.py@sim net.py@sim,math_fidelity=LoFi
      proveout compare "Net b8 n1 w1" "Net b8 n1 w2"

    \b
    Exit codes: 0 passed, or compared without a gate; 1 B is slower, or a run
    failed; 2 usage; 3 environment; 4 undecided: neither "slower" nor "within
    the allowance" is shown.
    """
    allowed = None if gate is None else share(gate)
    request = SharedOptions(
        search_dir=search_dir,
        script_args=script_args,
        cache_dir=cache_dir,
        iterations=iterations,
        warmup=warmup,
        timeout=timeout,
    )
    sides = [_side(name, text, request) for name, text in (("A", a), ("B", b))]
    result = compared(sides[0], sides[1], pairs, allowed, Store(cache_dir))
    if as_json:
        emit_json(result.document())
    else:
        emit(result.text())
    return EXIT[result.outcome] if result.gated else 0


@dataclass(frozen=True)
class Competitor:
    """One side: what it was called, its Job, and which of the Job's timings is meant."""

    name: str
    text: str
    job: Job
    what: str
    kept: Record | None = None
    """Where the cache has its result already; it is not run."""


@dataclass(frozen=True)
class Compared:
    sides: tuple[Competitor, Competitor]
    kind: str
    sources: tuple[str, str]
    """Where the time of each side comes from."""
    medians_ms: tuple[float, float]
    """Of all runs' medians."""
    ratio: Ratio
    gate: Gate | None
    allowed: float | None

    @property
    def gated(self) -> bool:
        return self.allowed is not None

    @property
    def outcome(self) -> str:
        """A modelled time does not vary; where a measured part of it leaves both answers open, there is none."""
        estimate = self.ratio.ratio
        if self.gate is not None:
            return self.gate.outcome
        if estimate.value is None:
            return "undecided"
        ends = estimate.low or estimate.value, estimate.high or estimate.value
        slower = {self.allowed is not None and end - 1 > self.allowed for end in ends}
        return "undecided" if len(slower) > 1 else "failed" if True in slower else "passed"

    @property
    def reason(self) -> str:
        if self.gate is not None:
            return self.gate.reason
        if self.ratio.ratio.value is None:
            return self.ratio.ratio.reason
        more = (self.ratio.ratio.value or 0) - 1
        if self.outcome == "undecided":
            return f"the host's measured part leaves open whether B takes {self.allowed:.1%} more time"
        return f"B is modelled to take {abs(more):.1%} {'less' if more < 0 else 'more'} time"

    def text(self) -> str:
        lines = [
            f"{side.name}  {median:.6g} ms {source}  {side.text}"
            for side, median, source in zip(self.sides, self.medians_ms, self.sources)
        ]
        estimate = self.ratio.ratio
        text = "not told" if estimate.value is None else f"{estimate.value:.4f}"
        if estimate.low is not None and estimate.high is not None:
            text += f", 95 % interval {estimate.low:.4f} to {estimate.high:.4f}"
        elif estimate.reason:
            text += f" ({estimate.reason})"
        whole = "modelled, without noise" if estimate.low is None else "the interval is the measured host's"
        how = f"{self.ratio.num_pairs} pairs of runs" if self.kind == "measured" else whole
        lines.append(f"B ÷ A  {text}  ({how}; above 1, B is slower)")
        if self.gated:
            lines.append(f"{self.outcome.upper()}: {self.reason}.")
        if self.gate is not None and not self.gate.declared:
            few = f"{PAIRS} pairs of {CALLS} calls"
            lines.append(f"Smaller than {few}: how often a slowdown of {self.allowed:.1%} is found is not declared.")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        return {
            "verb": "compare",
            "kind": self.kind,
            "sources": dict(zip(("a", "b"), self.sources)),
            "a": self.sides[0].text,
            "b": self.sides[1].text,
            "median_ms": dict(zip(("a", "b"), self.medians_ms)),
            "ratio": dataclasses.asdict(self.ratio.ratio),
            "pairs": self.ratio.num_pairs,
            "calls_per_run": self.ratio.samples_per_run,
            "allowed": self.allowed,
            "outcome": self.outcome if self.gated else None,
            "reason": self.reason if self.gated else "no gate was asked for",
            "declared": None if self.gate is None else self.gate.declared,
            "exit_code": EXIT[self.outcome] if self.gated else 0,
        }


def share(text: str) -> float:
    """`3%` and `0.03` alike."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise UsageError(f"--gate {text}: give a share between 0 and 1, such as 3% or 0.03.")
    return value


def compared(a: Competitor, b: Competitor, pairs: int, allowed: float | None, store: Store) -> Compared:
    """Run both in turn and compare; modelled times, which are the same every time, need one run each."""
    if (a.kept is None) != (b.kept is None):
        side = a if a.kept is not None else b
        raise UsageError(f"{side.name} ({side.text}) is a result of the cache: compare it with another one there.")
    _check_kinds(_kind(a), _kind(b))
    started = time.monotonic()
    records = [_record(a, store, say=True), _record(b, store, say=True)]
    first = [_timing(side, record) for side, record in zip((a, b), records)]
    kind = _check_kinds(first[0].kind, first[1].kind)
    runs: tuple[list[Sequence[int]], list[Sequence[int]]] = ([first[0].samples_ns], [first[1].samples_ns])
    if kind == "measured" and a.kept is None:
        _interleave((a, b), store, runs, pairs, time.monotonic() - started)
    verdict = statistics.gate(*runs, allowed) if kind == "measured" and allowed is not None else None
    ratio = verdict.compared if verdict else statistics.compare(*runs)
    if kind == "modelled":
        whose = zip((a, b), records, first)
        weak = [f"{side.name}: {why}" for side, record, timing in whose if (why := _weak_part(record, timing))]
        judged = dataclasses.replace(ratio.ratio, reason="; ".join(weak) or "one prediction each", needs=0)
        if weak:
            judged = dataclasses.replace(judged, value=None)
        elif any(timing.parts for timing in first):
            _, low, high = measured_ratio(records, first)
            judged = dataclasses.replace(judged, low=low, high=high)
        ratio = dataclasses.replace(ratio, ratio=judged)
    elif ratio.ratio.low is None:  # a ratio whose interval is not known says nothing
        ratio = dataclasses.replace(ratio, ratio=dataclasses.replace(ratio.ratio, value=None))
    medians = [sorted(_median(run) for run in side) for side in runs]
    middles = (_median(medians[0]) / 1e6, _median(medians[1]) / 1e6)
    return Compared((a, b), kind, (first[0].source, first[1].source), middles, ratio, verdict, allowed)


def _check_kinds(a: str, b: str) -> str:
    """The kind of both times."""
    if a != b:
        raise UsageError(f"A is {a} and B is {b}: such times are not compared. Choose two devices of one kind.")
    return a


def _kind(side: Competitor) -> str:
    """What the side's time will be, known before anything runs."""
    if side.kept is not None:
        return _timing(side, side.kept).kind
    return "measured" if side.what == EAGER else find(side.job.device).times


def _interleave(
    sides: Sequence[Competitor], store: Store, runs: Sequence[list[Sequence[int]]], pairs: int, first_pair_s: float
) -> None:
    """A B was the first pair; then B A, A B, … so that a machine that slows down hurts both alike."""
    total, started = 2 * pairs, time.monotonic() - first_pair_s
    turns = [i for pair in range(1, pairs) for i in ((1, 0) if pair % 2 else (0, 1))]
    for done, which in enumerate([1, *turns], 2):  # A and B have run
        if done > 2:
            runs[which].append(_timing(sides[which], _record(sides[which], store)).samples_ns)
        each = (time.monotonic() - started) / done
        note(f"[{done}/{total}] {sides[which].name}: about {each * (total - done):.0f} s left")


def _weak_part(record: Record, timing: Timing) -> str:
    """Why a modelled time does not stand: a part of it was measured, and weakly."""
    return weakness(record, timing) if record.parts(timing) else ""


def _record(side: Competitor, store: Store, say: bool = False) -> Record:
    """One more run, kept in the place of the last one; or what the cache has."""
    if side.kept is not None:
        return side.kept
    if say:
        note(f"running {side.name}: {side.text}")
    record = run_once(side.job)
    store.write(record)
    return record


def _timing(side: Competitor, record: Record) -> Timing:
    if record.status != "passed":
        raise ScriptError(f"{side.name} ({side.text}) failed: {record.reason}. Run: proveout check {side.text}")
    timing = record.timing(side.what)
    if timing is None or not timing.samples_ns:
        raise ScriptError(f"{side.name} ({side.text}) has no {side.what} time.")
    return timing


def run_once(job: Job) -> Record:
    """One run in a process of its own."""
    return prove(job)


def _kept(name: str, text: str, request: SharedOptions) -> Competitor | None:
    """A result of the cache, by its key or by its name as reports print it: `Net b8 n1 w2`."""
    kept = [e for e in entries(Store(request.cache_dir)) if text in (e.row.key, called(e.row))]
    if len(kept) > 1:
        keys = ", ".join(f"{e.row.key} ({e.row.device})" for e in kept)
        raise UsageError(f"{text!r} is {len(kept)} results of the cache; choose one by its key: {keys}.")
    if not kept:
        return None
    record = record_of(kept[0])
    what = "compiled" if record.timing("compiled") else EAGER
    return Competitor(name, text, record.job, what, record)


def _side(name: str, text: str, request: SharedOptions) -> Competitor:
    if not Path(text.partition("@")[0]).exists() and (kept := _kept(name, text, request)) is not None:
        return kept
    script, _, where = text.rpartition("@") if "@" in text else (text, "", "cpu")
    place, *overrides = [word.strip() for word in where.split(",")]
    if not script or not place:
        raise UsageError(f"{text!r}: give SCRIPT, SCRIPT@DEVICE or SCRIPT@DEVICE,KEY=VALUE.")
    eager = place == EAGER
    if not eager and place not in device_names(devices()):
        raise unknown("device", place, [EAGER, *device_names(devices())])
    if eager and overrides:
        raise UsageError(f"{text!r}: settings are for a compiled model; `eager` takes none.")
    side_request = dataclasses.replace(request, device="cpu" if eager else place, overrides=overrides or None)
    [(device, settings)] = check(side_request).targets
    scripts = resolve([script], request.search_dir or [], False)
    if len(scripts) != 1:
        raise UsageError(f"{text!r} is {len(scripts)} scripts; compare takes one.")
    [(path, selectors)] = scripts
    discovery = discover(path, script_args=request.script_args, timeout_s=request.timeout)
    workloads = [w for w in discovery.workloads if not selectors or w.selector in selectors]
    if not workloads:
        raise ScriptError(f"{text!r} holds no such model: {discovery.error or 'no model was called'}.")
    if len(workloads) > 1:
        known = ", ".join(f"{path.name}::{w.selector} ({w.name})" for w in workloads)
        raise UsageError(f"{text!r} holds {len(workloads)} models; choose one: {known}.")
    if find(device).times == "none" and not eager:
        raise UsageError(f"device {device!r} computes nothing, so it has no times to compare.")
    do: tuple[Literal["run", "benchmark"]] = ("run",) if find(device).times == "modelled" else ("benchmark",)
    job = Job(workloads[0], device, settings, do, request.iterations or CALLS, request.warmup, request.timeout)
    return Competitor(name, text, job, EAGER if eager else "compiled")


def _median(values: Sequence[float]) -> float:
    from statistics import median

    return float(median(values))
