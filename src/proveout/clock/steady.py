"""May these numbers be believed? Where warm-up ends, whether the rest is steady: VALID, or INVALID with reasons.

Nothing is dropped: warm-up is counted and reported, and every sample after it is summarised. Thresholds are this
module's constants; each problem says what was found and what to do about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from proveout.clock.blocks import block_length, critical, long_run_variance
from proveout.clock.statistics import Estimate, Summary, checked, summarise
from proveout.words import counted

MIN_SAMPLES = 100
MIN_INDEPENDENT = 50
"""With fewer, intervals cover less than declared: about 92 % at 50, 93 % and more from 100."""
BATCH = 5
MAX_BATCHES = 1000
START_DIFFERS = 4.0
"""Standard errors between the start and the rest; the start was chosen to differ, so 2 would find one in any noise."""
QUARTERS_DIFFER = 5.5
"""Standard errors between the highest and the lowest quarter: 1 in 1000 for four equal ones."""
DRIFT = 0.02
PRECISION = 0.05
TWO_MODES = 0.85
"""Share of the variance that two groups explain: 0.64 for a normal distribution, 0.75 for a flat one."""
MODES_APART = 0.05
TICK = 0.02
BUSY = (0.90, 1.01)
LOOKED_AT = 65536
"""Evenly spaced samples that the shape of the distribution is judged on."""


@dataclass(frozen=True)
class SteadyState:
    """The first `warmup` samples belong to warm-up; `drift` is the largest change between quarters of the rest."""

    warmup: int
    steady: bool
    drift: float | None
    reason: str = ""


@dataclass(frozen=True)
class Problem:
    """A kind that stays the same from run to run, what was found this time, and what to do."""

    kind: str
    found: str
    advice: str


@dataclass(frozen=True)
class Verdict:
    """`summary` is that of the samples after warm-up, or of all where no steady state was found."""

    valid: bool
    problems: tuple[Problem, ...]
    steady: SteadyState
    summary: Summary

    def __str__(self) -> str:
        return "VALID" if self.valid else "INVALID: " + "; ".join(f"{p.found}. {p.advice}" for p in self.problems)


def judge(samples_ns: npt.ArrayLike, *, elapsed_ns: int | None = None, concurrency: int = 1) -> Verdict:
    """The verdict on one measurement; `elapsed_ns` says how long `concurrency` callers took for it in a closed loop."""
    samples = checked(samples_ns)
    state = steady_state(samples)
    rest = samples[state.warmup :] if state.steady else samples
    looked_at = np.sort(rest[:: max(1, len(rest) // LOOKED_AT)])
    measurement = _Measurement(samples, looked_at, state, summarise(rest), elapsed_ns, concurrency)
    problems = tuple(problem for check in _CHECKS if (problem := check(measurement)) is not None)
    return Verdict(not problems, problems, state, measurement.summary)


def steady_state(samples_ns: npt.ArrayLike) -> SteadyState:
    """Where the start ends (MSER-5 on batches' medians, kept only if it differs), and whether the rest stays level."""
    samples = checked(samples_ns)
    if len(samples) < MIN_SAMPLES:
        return SteadyState(0, False, None, f"{counted(len(samples), 'sample')}; a steady state needs {MIN_SAMPLES}")
    size = max(BATCH, len(samples) // MAX_BATCHES)
    num_batches = len(samples) // size
    levels = np.median(samples[: num_batches * size].reshape(num_batches, size), axis=1)
    start = 0
    while start < num_batches // 2 and (more := _start(levels[start:])):
        start += more
    if start >= num_batches // 2:
        return SteadyState(start * size, False, None, f"still settling after {start * size} of {len(samples)} samples")
    warmup = max(start * size, _slow_calls_at_the_start(samples, start * size))
    drift, certain = _drift(levels[start:])
    if certain and abs(drift) > DRIFT:
        return SteadyState(warmup, False, drift, f"quarters of the samples after warm-up differ by {drift:+.1%}")
    return SteadyState(warmup, True, drift)


def _start(levels: npt.NDArray[np.float64]) -> int:
    """How many batches to leave out so that the mean of the rest is known best; 0 unless they really differ."""
    n = len(levels)
    second_half = levels[n // 2 :]
    centre = float(np.median(second_half))
    fence = 6 * float(np.median(np.abs(second_half - centre))) + 1.0
    backwards = np.clip(levels, centre - 4 * fence, centre + 4 * fence)[::-1] - centre
    counts = np.arange(1, n + 1)
    means = np.cumsum(backwards) / counts
    variances = np.cumsum(backwards**2) / counts - means**2
    errors = (variances / counts)[::-1][: n // 2 + 1]
    start = int(errors.argmin())
    if start == 0:
        return 0
    head, rest = levels[:start], levels[start:]
    deviations = rest - rest.mean()
    noise = math.sqrt(long_run_variance(deviations, block_length(deviations)) * (1 / start + 1 / len(rest)))
    return start if abs(float(np.median(head)) - float(np.median(rest))) > START_DIFFERS * noise else 0


def _slow_calls_at_the_start(samples: npt.NDArray[np.int64], warmup: int) -> int:
    """Calls before the first that is no outlier: one slow first call hides within a batch's median."""
    rest = samples[warmup:]
    low, high = np.quantile(rest[:: max(1, len(rest) // LOOKED_AT)], [0.25, 0.75])
    usual = samples[: BATCH * MAX_BATCHES] <= high + 5 * (high - low) + 1
    return int(usual.argmax())


def _drift(levels: npt.NDArray[np.float64]) -> tuple[float, bool]:
    """The largest change from one quarter to a later one, as a share, and whether noise cannot explain it."""
    quarters = np.array_split(levels, 4)
    means = np.array([q.mean() for q in quarters])
    deviations = np.concatenate([q - q.mean() for q in quarters])
    block = block_length(deviations)
    uncertain = critical(min(1.0, block / len(quarters[-1]))) / critical(0)
    noise = uncertain * math.sqrt(long_run_variance(deviations, block) / len(quarters[-1]))
    change = max((float(b - a) for i, a in enumerate(means) for b in means[i + 1 :]), key=abs)
    return change / max(float(np.median(levels)), 1.0), abs(change) > QUARTERS_DIFFER * noise


@dataclass(frozen=True, eq=False)
class _Measurement:
    samples: npt.NDArray[np.int64]
    looked_at: npt.NDArray[np.int64]
    """Sorted, after warm-up."""
    state: SteadyState
    summary: Summary
    elapsed_ns: int | None
    concurrency: int


def _few(m: _Measurement) -> Problem | None:
    if len(m.samples) < MIN_SAMPLES:
        return Problem("too few samples", counted(len(m.samples), "sample"), f"Take at least {MIN_SAMPLES}")
    if m.summary.independent < MIN_INDEPENDENT:
        times = math.ceil(MIN_INDEPENDENT / m.summary.independent)
        sentence = f"{m.summary.n} samples are worth {m.summary.independent:.0f} independent ones: neighbours are alike"
        return Problem("too few samples", sentence, f"Measure {times} times as long")
    return None


def _unsteady(m: _Measurement) -> Problem | None:
    if m.state.steady or len(m.samples) < MIN_SAMPLES:
        return None
    if m.state.drift is None:
        return Problem("not steady", m.state.reason, "Measure longer, or give a longer warm-up")
    advice = "Look for heat, a changing clock, a growing cache or another job; measure longer"
    return Problem("drift", m.state.reason, advice)


def _two_modes(m: _Measurement) -> Problem | None:
    n = len(m.looked_at)
    values = np.log(np.maximum(m.looked_at[n // 100 : n - n // 100], 1))
    if n < MIN_SAMPLES or values[-1] - values[0] < MODES_APART:
        return None
    values -= values.mean()
    below = np.arange(1, len(values))
    sums = np.cumsum(values)[:-1]
    explained = sums**2 * len(values) / (below * (len(values) - below)) / float(np.dot(values, values))
    split = int(explained.argmax()) + 1
    minor = min(split, len(values) - split) / len(values)
    fast, slow = (float(np.median(side)) for side in (values[:split], values[split:]))
    if explained[split - 1] < TWO_MODES or minor < MODES_APART or slow - fast < MODES_APART:
        return None
    times = f"{math.exp(slow - fast):.3g}"
    sentence = f"{1 - split / len(values):.0%} of the calls take {times} times as long as the others"
    return Problem("bimodal", sentence, "Pin threads and cores, or report fast and slow calls separately")


MOST_TIMES = 20
"""Beyond this, longer is no advice: something else disturbs the clock."""


def _imprecise(m: _Measurement) -> Problem | None:
    named: tuple[tuple[str, Estimate], ...] = (("median", m.summary.median_ns), ("mean", m.summary.mean_ns))
    for name, estimate in named:
        if estimate.value and estimate.low is not None and estimate.high is not None:
            half = (estimate.high - estimate.low) / 2 / estimate.value
            if half > PRECISION:
                times = math.ceil((half / PRECISION) ** 2)
                longer = f"Measure {times} times as long, or stop other programs"
                advice = longer if times <= MOST_TIMES else "Stop other programs and measure again"
                return Problem("high variance", f"the {name} is known only to within ±{half:.0%}", advice)
    return None


def _coarse_clock(m: _Measurement) -> Problem | None:
    steps = np.diff(m.looked_at)
    steps = steps[steps > 0]
    middle = int(m.looked_at[len(m.looked_at) // 2])
    tick = int(steps.min()) if steps.size else middle
    if len(m.looked_at) < MIN_SAMPLES or (middle > 0 and tick <= TICK * middle):
        return None
    sentence = f"times are {tick} ns apart at least, at a median of {middle} ns"
    return Problem("clock resolution", sentence, "Time several calls as one sample, or use a finer clock")


def _inconsistent(m: _Measurement) -> Problem | None:
    """Little's law: in a closed loop, the calls' times add up to the callers' time."""
    if m.elapsed_ns is None:
        return None
    busy = float(m.samples.sum(dtype=np.float64)) / (max(m.elapsed_ns, 1) * m.concurrency)
    if BUSY[0] <= busy <= BUSY[1]:
        return None
    sentence = f"calls fill {busy:.0%} of the time that {m.concurrency} callers had"
    advice = (
        "The rest is spent outside of the calls: look at the harness's overhead and at pre- and postprocessing"
        if busy < 1
        else "More is not possible: check the stamps, the elapsed time and the number of callers"
    )
    return Problem("throughput inconsistent", sentence, advice)


_CHECKS: tuple[Callable[[_Measurement], Problem | None], ...] = (
    _few,
    _unsteady,
    _two_modes,
    _imprecise,
    _coarse_clock,
    _inconsistent,
)
