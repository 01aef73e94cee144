"""Intervals cover, gates keep their declared rates, open-loop times follow the queueing formulas: all by simulation.

Truths are closed forms. Seeds are fixed; the larger replications are marked slow.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_model import MEDIAN_NS, ar1, calls, pairs
from scipy import stats

from proveout.clock import blocks, statistics
from proveout.clock.quantiles import needed, order_statistics, student_t
from proveout.clock.statistics import PERCENTILES, summarise, throughput
from proveout.clock.steady import judge, steady_state
from proveout.coding import to_json
from proveout.errors import UsageError
from proveout.measure import arrivals
from proveout.measure.compare import DETECTION, FALSE_ALARM, MIN_PAIRS, PAIRS, SAMPLES, compare, gate, pairs_needed

times = st.lists(st.integers(0, 10**12), min_size=1, max_size=300)
WHOLE = pytest.mark.whole
SIGMA = 0.1


def share_covered(rng, coefficient, n, runs, truth, estimate):
    """Of lognormal AR(1) runs; only those where the estimate has an interval count."""
    found = [estimate(calls(rng, (n,), coefficient=coefficient, sigma=SIGMA, stalls=0)) for _ in range(runs)]
    supported = [e for e in found if e.low is not None]
    assert len(supported) > 0.7 * runs
    return sum(e.low <= truth <= e.high for e in supported) / len(supported)


TRUTHS = {
    "mean": (MEDIAN_NS * math.exp(SIGMA**2 / 2), lambda x: summarise(x, ()).mean_ns),
    "median": (MEDIAN_NS, lambda x: summarise(x, ()).median_ns),
    "p90": (MEDIAN_NS * math.exp(SIGMA * stats.norm.ppf(0.9)), lambda x: summarise(x, (90,)).percentile(90)),
    "p99": (MEDIAN_NS * math.exp(SIGMA * stats.norm.ppf(0.99)), lambda x: summarise(x, (99,)).percentile(99)),
    "throughput": (
        1e9 / (MEDIAN_NS * math.exp(SIGMA**2 / 2)),
        lambda x: throughput(np.cumsum(x), 0, int(x.sum())),
    ),
}
TAIL_UPPER = 0.985
"""Ranks are whole and must not miss more often than they say, so with few samples beyond them, they miss less often."""


@pytest.mark.slow
@pytest.mark.parametrize("coefficient", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("what", TRUTHS)
def test_a_95_percent_interval_covers_the_truth_in_93_to_97_percent_of_runs(what, coefficient):
    n = 6000 if what == "p99" else 3000  # p99 of the most alike neighbours needs about 3000
    covered = share_covered(np.random.default_rng(5), coefficient, n, 600, *TRUTHS[what])
    assert 0.93 <= covered <= (TAIL_UPPER if what == "p99" else 0.97)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "coefficient", "n"),
    [
        pytest.param(what, *case, marks=() if (what, number % 2) in (("median", 0), ("throughput", 1)) else WHOLE)
        for what in ("mean", "median", "p90", "throughput")
        for number, case in enumerate([(-0.5, 1000), (0.5, 1000), (0.0, 200), (0.0, 1000), (0.9, 3000), (0.8, 1000)])
    ],
)
def test_intervals_cover_at_other_lengths_and_correlations(what, coefficient, n):
    covered = share_covered(np.random.default_rng(6), coefficient, n, 3000, *TRUTHS[what])
    assert 0.93 <= covered <= (TAIL_UPPER if what == "p90" else 0.97)


def test_an_interval_that_takes_neighbours_for_independent_covers_far_too_little():
    """The check has teeth: the textbook interval fails it."""
    x = ar1(np.random.default_rng(7), (400, 1000), 0.9)
    naive = np.abs(x.mean(axis=1)) <= 1.96 * x.std(axis=1) / math.sqrt(1000)
    assert naive.mean() < 0.5


def test_the_spread_in_blocks_is_the_closed_form_of_an_ar1_process():
    """The long-run variance of AR(1) with unit variance is (1 + a) ÷ (1 - a)."""
    series = ar1(np.random.default_rng(8), (200_000,), 0.6)
    block = blocks.block_length(series)
    assert blocks.long_run_variance(series, block) == pytest.approx(1.6 / 0.4, rel=0.06)
    assert blocks.clustering(series, 0.0, 1.0) == pytest.approx(4.0, rel=0.15)


def test_blocks_grow_with_the_dependence_between_neighbours():
    rng = np.random.default_rng(9)
    lengths = [blocks.block_length(ar1(rng, (5000,), a)) for a in (0.0, 0.6, 0.95)]
    assert lengths == sorted(lengths)
    assert lengths[0] == math.ceil(5000 ** (1 / 3))


def test_the_closed_form_is_what_drawing_blocks_gives():
    """Circular blocks drawn at random: the variance of their means is that of the formula, up to its edges."""
    rng = np.random.default_rng(10)
    x = ar1(rng, (2000,), 0.7)
    x -= x.mean()
    starts = rng.integers(0, 2000, (4000, 40))
    drawn = np.concatenate([x, x])[starts[:, :, None] + np.arange(50)].mean(axis=(1, 2))
    assert 2000 * drawn.var() == pytest.approx(blocks.long_run_variance(x, 50), rel=0.12)


def test_batches_of_a_long_sample_give_the_interval_of_the_whole(monkeypatch):
    x = calls(np.random.default_rng(11), (40_000,), coefficient=0.8)
    batched = blocks.half_width(x, x.mean())
    monkeypatch.setattr(blocks, "MAX_BATCHES", 40_000)
    assert batched == pytest.approx(blocks.half_width(x, x.mean()), rel=0.15)


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 30, 101])
@pytest.mark.parametrize("probability", [0.01, 0.6, 0.975, 0.995])
def test_students_quantiles_are_exact(probability, freedom):
    assert student_t(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9)


@pytest.mark.parametrize("n", [50, 400, 12_345, 10_000_000])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99, 0.999])
def test_ranks_are_the_closest_that_miss_at_most_half_each(n, share):
    ranks = order_statistics(n, share, 0.05)
    if ranks is None:
        assert max(share, 1 - share) ** n > 0.025
        return
    low, high = ranks
    assert stats.binom.cdf(low - 1, n, share) <= 0.025 < stats.binom.cdf(low, n, share)
    assert stats.binom.sf(high - 1, n, share) <= 0.025 < stats.binom.sf(high - 2, n, share)


def test_a_percentile_that_the_sample_cannot_support_is_refused_with_the_number_it_needs():
    x = calls(np.random.default_rng(12), (1000,), coefficient=0.0)
    refused = summarise(x).percentile(99.9)
    assert refused.value is refused.low is refused.high is None
    assert refused.needs >= needed(0.999, 0.05) == 3688
    assert f"p99.9 needs {refused.needs} samples; there are 1000" in refused.reason
    assert summarise(x).percentile(99).value is not None


def test_stalls_in_bursts_need_more_samples_than_lone_ones():
    rng = np.random.default_rng(13)
    x = calls(rng, (4000,), coefficient=0.0, stalls=0)
    lone, bursts = x.copy(), x.copy()
    lone[rng.permutation(4000)[:80]] *= 20
    bursts[np.add.outer(rng.permutation(200)[:4] * 20, np.arange(20)).ravel()] *= 20
    assert summarise(lone, (99,)).percentile(99).value is not None
    assert summarise(bursts, (99,)).percentile(99).needs > 4000


def test_few_samples_have_a_centre_but_no_interval():
    summary = summarise([5, 6, 7])
    assert (summary.median_ns.value, summary.mean_ns.value) == (6, 6)
    assert summary.median_ns.low is None
    assert summary.median_ns.needs == 10
    assert "there are 3" in summary.median_ns.reason


@settings(deadline=None)
@given(times)
def test_order_free_numbers_are_numpys_whatever_the_order(values):
    x = np.array(values)
    summary, reversed_ = summarise(x), summarise(x[::-1])
    assert summary.median_ns.value == pytest.approx(np.median(x))
    assert summary.mad_ns == pytest.approx(np.median(np.abs(x - np.median(x))))
    assert summary.iqr_ns == pytest.approx(np.subtract(*np.quantile(x, [0.75, 0.25])), abs=1e-3)
    assert (summary.n, summary.min_ns, summary.max_ns) == (len(x), x.min(), x.max())
    for name in ("iqr_ns", "mad_ns", "min_ns", "max_ns"):
        assert getattr(summary, name) == getattr(reversed_, name)
    assert summary.mean_ns.value == pytest.approx(reversed_.mean_ns.value)
    assert summary.mean_ns.value == pytest.approx(np.mean(x))


@pytest.mark.slow
@settings(deadline=None)
@given(times, st.integers(2, 1000))
def test_times_in_another_unit_give_the_same_intervals_in_that_unit(values, factor):
    x = np.array(values)
    one, other = summarise(x), summarise(x * factor)
    for a, b in [(one.mean_ns, other.mean_ns), *((p.ns, q.ns) for p, q in zip(one.percentiles, other.percentiles))]:
        assert (a.low is None) == (b.low is None)
        if a.low is not None:
            assert b.low == pytest.approx(a.low * factor, rel=1e-6, abs=1e-3 * factor)
            assert b.high == pytest.approx(a.high * factor, rel=1e-6, abs=1e-3 * factor)


@settings(deadline=None)
@given(times)
def test_every_interval_holds_its_value_and_every_gap_its_reason(values):
    summary = summarise(np.array(values))
    for estimate in (summary.mean_ns, summary.median_ns, *(p.ns for p in summary.percentiles)):
        if estimate.low is None:
            assert estimate.reason
            assert estimate.needs > len(values)
        else:
            assert estimate.low <= estimate.value <= estimate.high


@settings(deadline=None)
@given(times, st.integers(1, 10**15))
def test_json_is_strict_and_nothing_in_it_was_not_a_number(values, elapsed):
    """`to_json` writes null for a NaN, so the results themselves are searched for one."""

    def floats(value):
        if isinstance(value, float):
            yield value
        elif isinstance(value, dict | tuple):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from floats(inner)

    x = np.array(values)
    results = [judge(x, elapsed_ns=elapsed), throughput(x, 0, int(x.max()) + 1)]
    if np.median(x) > 0:
        results += [gate([x] * n, [x + 1] * n) for n in (1, 3)]
    for result in results:
        assert all(math.isfinite(v) for v in floats(dataclasses.asdict(result)))
        json.dumps(to_json(result), allow_nan=False)


@pytest.mark.parametrize(
    ("samples", "says"),
    [([], "at least one"), ([[1, 2]], "one dimension"), ([1.5], "whole ns"), ([3, -1], "went backwards")],
)
def test_what_is_no_sample_is_refused(samples, says):
    with pytest.raises(UsageError, match=says):
        summarise(samples)


def test_throughput_is_completed_by_elapsed_even_with_a_stall():
    ends = np.concatenate([np.arange(1, 1001) * 1_000_000, 5_000_000_000 + np.arange(1, 1001) * 1_000_000])
    rate = throughput(ends, 0, 6_000_000_000, items=4)
    assert rate.value == pytest.approx(8000 / 6)
    assert rate.low is None, "two stretches with one stall between cannot say how often stalls come"
    assert "Measure for longer" in rate.reason
    with pytest.raises(UsageError, match="outside the measured"):
        throughput(ends, 0, 5_000_000_000)


SHAPES = {
    "flat": (lambda t: np.ones_like(t), (0, 0)),
    "slow first call": (lambda t: np.where(t == 0, 50.0, 1.0), (1, 1)),
    "a step": (lambda t: np.where(t < 0.1, 1.5, 1.0), (180, 280)),
    "a step up": (lambda t: np.where(t < 0.1, 0.8, 1.0), (150, 300)),
    "exponential": (lambda t: 1 + 2 * np.exp(-t / 0.05), (200, 550)),
    "two steps": (lambda t: np.where(t < 0.05, 3.0, np.where(t < 0.15, 1.4, 1.0)), (280, 400)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_warm_up_is_found_and_counted(name):
    shape, (least, most) = SHAPES[name]
    rng = np.random.default_rng(14)
    form = shape(np.arange(2000) / 2000)
    states = [steady_state((form * calls(rng, (2000,))).astype(np.int64)) for _ in range(40)]
    assert sum(s.steady for s in states) >= 39
    assert sum(least <= s.warmup <= most for s in states) >= 36


UNSTEADY = {
    "ramp": (lambda t: 1 + 0.1 * t, "drift"),
    "late step": (lambda t: np.where(t > 0.7, 1.1, 1.0), "drift"),
    "never settles": (lambda t: 1 + 2 * np.exp(-t / 0.6), "not steady"),
}


@pytest.mark.parametrize("name", UNSTEADY)
def test_what_does_not_settle_is_invalid(name):
    shape, kind = UNSTEADY[name]
    rng = np.random.default_rng(15)
    form = shape(np.arange(4000) / 4000)
    verdicts = [judge((form * calls(rng, (4000,))).astype(np.int64)) for _ in range(20)]
    assert sum(v.valid for v in verdicts) == 0
    assert sum(any(p.kind in ("drift", "not steady") for p in v.problems) for v in verdicts) == 20
    assert sum(any(p.kind == kind for p in v.problems) for v in verdicts) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("coefficient", [0.0, 0.5, 0.9])
def test_stationary_noise_is_valid(coefficient):
    rng = np.random.default_rng(16)
    verdicts = [judge(calls(rng, (4000,), coefficient=coefficient, stalls=0)) for _ in range(100)]
    assert sum(v.valid for v in verdicts) >= 97
    assert sum(v.steady.warmup == 0 for v in verdicts) >= 97


def kinds(samples, **how):
    return {p.kind for p in judge(samples, **how).problems}


def test_each_problem_is_named():
    rng = np.random.default_rng(17)
    good = calls(rng, (2000,), stalls=0)
    assert kinds(good) == set()
    assert "too few samples" in kinds(good[:50])
    assert "too few samples" in kinds(calls(rng, (400,), coefficient=0.97, stalls=0))
    assert kinds(np.where(rng.random(2000) < 0.3, 2, 1) * good) == {"bimodal"}
    assert kinds(calls(rng, (200,), sigma=1.0, stalls=0)) == {"high variance"}
    assert kinds(rng.integers(3, 6, 2000) * 1000) >= {"clock resolution"}
    assert kinds(np.full(2000, 100)) == {"clock resolution"}
    assert kinds(np.zeros(200, dtype=int)) == {"clock resolution"}


def test_the_calls_times_add_up_to_the_callers_time():
    x = calls(np.random.default_rng(18), (2000,), stalls=0)
    total = int(x.sum())
    assert kinds(x, elapsed_ns=total) == set()
    assert kinds(x, elapsed_ns=total // 2, concurrency=2) == set()
    assert kinds(x, elapsed_ns=total // 2) == {"throughput inconsistent"}
    assert kinds(x, elapsed_ns=2 * total) == {"throughput inconsistent"}


def test_warm_up_is_not_in_the_summary_but_in_the_verdict():
    x = calls(np.random.default_rng(19), (2000,), stalls=0)
    x[:200] *= 3
    verdict = judge(x)
    assert verdict.valid
    assert verdict.steady.warmup + verdict.summary.n == 2000
    assert str(verdict) == "VALID"


def outcomes(seed, repeats, allowed=0.03, num_pairs=PAIRS, samples=SAMPLES, **noise):
    rng = np.random.default_rng(seed)
    found = [gate(*pairs(rng, num_pairs, samples, **noise), allowed).outcome for _ in range(repeats)]
    return {name: found.count(name) / repeats for name in ("passed", "failed", "undecided")}


@pytest.mark.slow
@pytest.mark.parametrize("between_runs", [0.005, 0.01])
def test_the_default_gate_keeps_its_declared_rates(between_runs):
    assert outcomes(20, 400, between_runs=between_runs)["failed"] <= FALSE_ALARM
    slower = outcomes(21, 400, between_runs=between_runs, slowdown=0.03)
    assert slower["failed"] >= DETECTION
    assert slower["passed"] <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("between_runs", [0.005, pytest.param(0.01, marks=WHOLE)])
def test_the_default_gate_keeps_its_declared_rates_in_many_comparisons(between_runs):
    assert outcomes(22, 4000, between_runs=between_runs)["failed"] <= FALSE_ALARM
    slower = outcomes(23, 4000, between_runs=between_runs, slowdown=0.03)
    assert slower["failed"] >= DETECTION
    assert slower["passed"] <= 0.015


@pytest.mark.slow
def test_false_alarms_stay_rare_where_next_to_nothing_is_allowed():
    """Then the allowance no longer helps, and the rate is the declared 1 % itself (± 3 standard errors)."""
    assert 0.003 <= outcomes(24, 2000, allowed=1e-6, samples=50)["failed"] <= 0.0167


def test_a_faster_b_passes():
    assert outcomes(25, 100, slowdown=-0.05)["passed"] == 1
    assert "B is faster" in gate(*pairs(np.random.default_rng(25), PAIRS, SAMPLES, slowdown=-0.05)).reason


@pytest.mark.slow
def test_a_ratios_interval_covers_the_truth():
    rng = np.random.default_rng(26)
    ratios = [compare(*pairs(rng, 10, 100, slowdown=0.05)).ratio for _ in range(1500)]
    assert 0.93 <= sum(r.low <= 1.05 <= r.high for r in ratios) / 1500 <= 0.97


def test_a_noisy_comparison_is_undecided_and_says_how_many_pairs_would_do():
    result = gate(*pairs(np.random.default_rng(27), 5, 200, between_runs=0.05))
    assert result.outcome == "undecided"
    assert not result.declared
    assert f"{pairs_needed(result.compared.spread, 0.03)} pairs" in result.reason


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 0.03])
def test_as_many_pairs_as_it_says_find_the_slowdown(spread):
    n = pairs_needed(spread, 0.03)
    noise = dict(between_runs=spread / math.sqrt(2), sigma=0.001, drift=0.0, slowdown=0.03)
    assert outcomes(28, 600, num_pairs=n, samples=5, **noise)["failed"] >= 0.93


def test_two_pairs_are_too_few_for_an_interval():
    result = gate([[10], [11]], [[12], [13]])
    assert (result.outcome, result.compared.ratio.low, result.compared.ratio.needs) == ("undecided", None, MIN_PAIRS)
    assert result.compared.ratio.value == pytest.approx(math.sqrt(12 / 10 * 13 / 11))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=3, max_size=12))
def test_b_to_a_is_the_inverse_of_a_to_b(medians):
    a, b = [[x] for x, _ in medians], [[y] for _, y in medians]
    there, back = compare(a, b).ratio, compare(b, a).ratio
    assert there.value * back.value == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)


@pytest.mark.parametrize(
    ("a", "b", "allowed", "says"),
    [([[1]], [], 0.03, "in pairs"), ([[1]], [[0]], 0.03, "0 ns"), ([[1]], [[1]], 3, "0.03 for 3 %")],
)
def test_a_comparison_that_cannot_be_is_refused(a, b, allowed, says):
    with pytest.raises(UsageError, match=says):
        gate(a, b, allowed)


def single_server(intended, service):
    """Starts and completions of a queue that serves one request at a time, in order (Lindley's recursion)."""
    done = np.cumsum(service)
    completed = done + np.maximum.accumulate(intended - (done - service))
    return completed - service, completed


def test_a_stall_is_charged_to_every_request_that_waited_behind_it():
    """Each request behind a stall of S waits (gap - service) less than the one ahead, until nobody waits."""
    intended = arrivals.constant_rate(1000, 10)
    service = np.full(len(intended), 600_000)
    stall = 400_000_000
    service[5000] += stall
    started, completed = single_server(intended, service)
    waits = np.maximum(stall - 400_000 * np.arange(1, len(intended) - 5000), 0)
    # the request behind the stalled one waits for its rest of 600 µs + S, less the gap of 1 ms
    assert (started - intended)[5001:].tolist() == waits.tolist()
    assert (started - intended).sum() == pytest.approx(stall**2 / (2 * 400_000), rel=0.002)
    assert (completed - started > 600_000).sum() == 1, "by service time alone, one request of 10,000 was slow"
    assert (completed - intended > 600_000).sum() == pytest.approx(stall / 400_000, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variation"), [("M/D/1", 0.0), ("M/M/1", 1.0)])
def test_poisson_arrivals_wait_as_pollaczek_and_khinchine_say(name, variation):
    """Mean wait = load ÷ (1 - load) × (1 + variation²) ÷ 2 × service time."""
    rng = np.random.default_rng(29)
    intended = arrivals.poisson(700, 1500, seed=30)
    service = rng.exponential(1e6, len(intended)).astype(np.int64) if variation else np.full(len(intended), 1_000_000)
    started, _ = single_server(intended, service)
    expected = 0.7 / 0.3 * (1 + variation**2) / 2 * 1e6
    interval = summarise(started - intended, ()).mean_ns
    assert interval.low <= expected <= interval.high
    assert interval.value == pytest.approx(expected, rel=0.04)


def test_constant_rate_does_not_drift():
    starts = arrivals.constant_rate(3, 1000)
    assert (len(starts), starts[0], starts[3], starts[-1]) == (3000, 0, 1_000_000_000, 999_666_666_667)


def test_poisson_gaps_are_exponential_and_repeat_with_their_seed():
    starts = arrivals.poisson(100, 200, seed=1)
    assert stats.kstest(np.diff(starts), "expon", args=(0, 1e7)).pvalue > 0.01
    assert np.array_equal(starts, arrivals.poisson(100, 200, seed=1))
    assert not np.array_equal(starts, arrivals.poisson(100, 200, seed=2))


def test_a_trace_is_replayed_from_its_first_request_at_any_speed():
    assert arrivals.replay([50, 150, 150, 350]).tolist() == [0, 100, 100, 300]
    assert arrivals.replay([50, 150, 150, 350], speed=2).tolist() == [0, 50, 50, 150]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: arrivals.constant_rate(0, 1), "above 0"),
        (lambda: arrivals.poisson(1, -1, 0), "above 0"),
        (lambda: arrivals.replay([3, 1]), "request 1 of the trace"),
        (lambda: arrivals.replay([]), "at least one request"),
        (lambda: arrivals.replay([1], speed=0), "speed 0"),
    ],
)
def test_schedules_that_cannot_be_are_refused(call, says):
    with pytest.raises(UsageError, match=says):
        call()


def test_percentiles_asked_for_are_those_given():
    summary = summarise(np.arange(1, 1001), (50, 99))
    assert [p.percent for p in summary.percentiles] == [50, 99]
    assert summary.percentile(50) is summary.median_ns
    with pytest.raises(UsageError, match="there are 50, 99"):
        summary.percentile(90)
    assert PERCENTILES[0] == 50


@pytest.mark.parametrize("span", [100, 50_000, 10**12])
def test_counting_and_sorting_give_the_same(monkeypatch, span):
    samples = np.random.default_rng(3).integers(5_000, 5_000 + span, 3000)
    samples[7] += 10**10
    expected = summarise(samples)
    monkeypatch.setattr(statistics, "COUNTED_FROM", 1)
    monkeypatch.setattr(statistics, "COUNTED_NS", 10_000)
    assert summarise(samples) == expected
