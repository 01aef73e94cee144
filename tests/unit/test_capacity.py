"""Claims about capacity and goodput, against the closed forms of queues."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench_outcomes import BEGAN, open_loop, outcome

from proveout.errors import UsageError
from proveout.measure.capacity import capacity, goodput, probed
from proveout.measure.outcome import WorkerRun
from proveout.serving import Load

SERVICE_S = 1e-3


def queue(arrivals_s, service_s):
    """One server that takes requests in order: Lindley's recursion, all at once."""
    gaps = np.diff(arrivals_s, prepend=arrivals_s[0])
    steps = np.concatenate([[0.0], service_s[:-1] - gaps[1:]])
    walk = np.cumsum(steps)
    starts = arrivals_s + walk - np.minimum.accumulate(walk)
    intended, begun, ended = (
        BEGAN + np.rint(t * 1e9).astype(np.int64) for t in (arrivals_s, starts, starts + service_s)
    )
    run = WorkerRun(0, 0, starts_ns=np.maximum(begun, intended), ends_ns=ended, intended_ns=intended)
    return outcome(run, load=Load("poisson"))


def poisson(rate, requests, seed, exponential):
    rng = np.random.default_rng([seed, int(rate * 1000)])
    service = rng.exponential(SERVICE_S, requests) if exponential else np.full(requests, SERVICE_S)
    return queue(np.cumsum(rng.exponential(1 / rate, requests)), service)


def test_the_highest_rate_of_an_m_m_1_queue_is_the_closed_form():
    # responses are exponential with rate μ − λ, so p99 is ln 100 ÷ (μ − λ)
    bound_ms = 25.0
    truth = 1 / SERVICE_S - math.log(100) / (bound_ms / 1e3)
    found = capacity(lambda rate: poisson(rate, 400_000, 1, True), bound_ms, start_rate=100)
    assert found.rate == pytest.approx(truth, rel=0.03)
    assert found.shown_rate <= truth * 1.01
    assert found.missed_rate <= found.rate * 1.02
    assert found.shown_missed_rate >= truth * 0.97
    assert not found.reason


def test_the_mean_wait_of_an_m_d_1_queue_is_pollaczek_and_khinchines():
    rate = 700.0
    share = rate * SERVICE_S
    run = poisson(rate, 400_000, 2, False).workers[0]
    waited = float((run.starts_ns - run.intended_ns).mean()) / 1e9
    assert waited == pytest.approx(share * SERVICE_S / (2 * (1 - share)), rel=0.03)


def test_a_rate_above_what_the_server_can_do_is_not_met_however_wide_the_bound():
    probe = probed(poisson(1100, 20_000, 3, True), 1100, bound_ms=1e6)
    assert probe.met is False
    assert "queue grows" in probe.reason


def test_goodput_under_a_stall_is_the_closed_form():
    gap, service, stall, n = 2_000_000, 1_000_000, 100_000_000, 5000
    times = np.full(n, service)
    times[1000] += stall
    told = open_loop(gap, times)
    bound_ms = 21.0
    # the k-th request behind the stall responds after service + stall − k·(gap − service)
    late = (stall + service - bound_ms * 1e6) / (gap - service)
    seconds = (told.ended_ns - told.started_ns) / 1e9
    assert goodput(told, bound_ms) == pytest.approx((n - late) / seconds, abs=1 / seconds)
    assert goodput(told, 1000.0) == pytest.approx(n / seconds)


def test_a_percentile_of_responses_behind_periodic_stalls_is_the_closed_form():
    gap, service, stall, period, n = 2_000_000, 1_000_000, 100_000_000, 1000, 40_000
    times = np.full(n, service)
    times[500::period] += stall
    probe = probed(open_loop(gap, times), 500.0, bound_ms=1e3, percent=95.0)
    # 100 requests of each 1000 are late, evenly between 0 and the stall: 5 % are later than half of it
    assert probe.latency_ms.value == pytest.approx((service + stall / 2) / 1e6, rel=0.03)


def test_too_few_requests_for_the_percentile_stop_the_search_and_say_how_long_to_run():
    found = capacity(lambda rate: poisson(rate, 50, 4, True), 5.0, start_rate=10)
    assert found.rate is None
    assert "run for at least" in found.reason
    assert len(found.probes) == 1


def test_a_bound_below_the_service_time_is_met_by_no_rate():
    found = capacity(lambda rate: poisson(rate, 2000, 5, False), 0.5, start_rate=8, most_runs=5)
    assert found.rate is None
    assert found.reason


def test_a_run_that_failed_ends_the_search_with_its_reason():
    found = capacity(lambda rate: outcome(status="failed", reason="it broke"), 5.0, start_rate=8)
    assert "it broke" in found.reason


def test_a_search_that_cannot_be_is_refused():
    with pytest.raises(UsageError, match="bound_ms is 0"):
        capacity(lambda rate: outcome(), 0, start_rate=1)
