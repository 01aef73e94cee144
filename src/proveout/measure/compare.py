"""Is B slower than A? The ratio of two conditions from interleaved runs, and a gate with declared error rates.

A run is the samples of one fresh process; runs come in pairs that ran next to each other (A B, B A, …). One number
stands for a run, the log of its median, since calls within a process share its luck (memory layout, core, clock): the
runs are the sample, not the calls. The pairs' differences get Student's interval, so a slowly drifting machine cancels.

The gate asks two one-sided questions, each with an error of 1 %: is B slower at all, and is it within the allowance?

    within the allowance                 passed     a slowdown of the whole allowance passes at most 1 % of the time
    slower, and not shown to be within   failed     equal conditions fail at most 1 % of the time (false alarm)
    neither shown                        undecided  says how many pairs would decide

The default design (`PAIRS` × `SAMPLES`) finds a slowdown of 3 % at least 95 % of the time under this noise: medians of
runs differ by 1 % (normal, in the log), calls by 10 % (lognormal, AR(1) with 0.5 between neighbours), 1 call in 1000
stalls for 10 to 100 medians, and the machine slows by 2 % over the comparison. Simulated: docs/explain/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from proveout.clock.quantiles import student_t
from proveout.clock.statistics import Estimate, checked
from proveout.errors import UsageError

PAIRS = 10
SAMPLES = 1000
ALLOWED = 0.03
FALSE_ALARM = 0.01
DETECTION = 0.95
MIN_PAIRS = 3
"""With fewer, an interval is so wide that it says nothing."""

Runs = Sequence[npt.ArrayLike]
Outcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class Ratio:
    """Time of B ÷ time of A, above 1 where B is slower; `spread` is the standard deviation of the pairs' log ratios."""

    ratio: Estimate
    spread: float | None
    num_pairs: int
    samples_per_run: int
    """Of the shortest run."""


@dataclass(frozen=True)
class Gate:
    outcome: Outcome
    reason: str
    allowed: float
    compared: Ratio
    slowdown_low: float | None
    slowdown_high: float | None
    """Each bound is wrong at most `FALSE_ALARM` of the time."""
    declared: bool
    """Whether this is at least the default design, which the detection rate is declared for."""


def compare(a: Runs, b: Runs) -> Ratio:
    """The ratio of B to A over runs that were made in pairs."""
    differences, shortest = _differences(a, b)
    n = len(differences)
    centre = float(differences.mean())
    if n < MIN_PAIRS:
        few = Estimate(
            math.exp(centre), reason=f"an interval needs {MIN_PAIRS} pairs of runs; there are {n}", needs=MIN_PAIRS
        )
        return Ratio(few, None, n, shortest)
    spread = float(differences.std(ddof=1))
    half = student_t(0.975, n - 1) * spread / math.sqrt(n)
    return Ratio(Estimate(math.exp(centre), math.exp(centre - half), math.exp(centre + half)), spread, n, shortest)


def gate(a: Runs, b: Runs, allowed: float = ALLOWED) -> Gate:
    """Passed, failed or undecided: may B replace A, if a slowdown of `allowed` (0.03 for 3 %) is too much?"""
    if not 0 < allowed < 1:
        raise UsageError(f"an allowance of {allowed:g}: give a share between 0 and 1, such as 0.03 for 3 %.")
    compared = compare(a, b)
    if compared.spread is None or compared.ratio.value is None:
        return Gate("undecided", compared.ratio.reason, allowed, compared, None, None, False)
    centre = math.log(compared.ratio.value)
    error = compared.spread / math.sqrt(compared.num_pairs)
    reach = student_t(1 - FALSE_ALARM, compared.num_pairs - 1) * error
    low, high = math.expm1(centre - reach), math.expm1(centre + reach)
    declared = compared.num_pairs >= PAIRS and compared.samples_per_run >= SAMPLES
    outcome, reason = _decide(low, high, allowed, compared)
    return Gate(outcome, reason, allowed, compared, low, high, declared)


def pairs_needed(spread: float, allowed: float) -> int:
    """Pairs that find a slowdown of `allowed` as often as `DETECTION` says, if their log ratios spread like this."""
    alarm, detection = (NormalDist().inv_cdf(p) for p in (1 - FALSE_ALARM, DETECTION))
    normal = ((alarm + detection) * spread / math.log1p(allowed)) ** 2
    # Student's quantile instead of the normal one costs half its square in pairs (Guenther 1981)
    return max(MIN_PAIRS, math.ceil(normal + alarm**2 / 2))


def _decide(low: float, high: float, allowed: float, compared: Ratio) -> tuple[Outcome, str]:
    if high < 0:
        return "passed", f"B is faster: it takes {-high:.1%} to {-low:.1%} less time"
    if high < allowed:
        return "passed", f"B is at most {high:.1%} slower, within the allowed {allowed:.1%}"
    if low > 0:
        return "failed", f"B is slower by {low:.1%} to {high:.1%}; {allowed:.1%} is allowed"
    needs = pairs_needed(compared.spread or 0.0, allowed)
    more = f"start again with {needs} pairs" if needs > compared.num_pairs else "start again with twice as many pairs"
    return (
        "undecided",
        f"a slowdown of {low:.1%} to {high:.1%}: too wide for {allowed:.1%}. Quieten the machine, or {more}",
    )


def _differences(a: Runs, b: Runs) -> tuple[npt.NDArray[np.float64], int]:
    if len(a) != len(b) or len(a) == 0:
        raise UsageError(f"{len(a)} runs of A and {len(b)} of B: runs come in pairs, at least one.")
    runs = [[checked(run) for run in side] for side in (a, b)]
    medians = np.array([[float(np.median(run)) for run in side] for side in runs])
    if not (medians > 0).all():
        raise UsageError("a run's median is 0 ns: the clock cannot see such calls. Time several calls as one sample.")
    logs = np.log(medians)
    return logs[1] - logs[0], min(len(run) for side in runs for run in side)
