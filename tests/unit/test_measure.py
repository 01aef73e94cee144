"""Samples from a clock or from a model, never both; warm-up left out, garbage collection put back."""

from __future__ import annotations

import gc
import time

import pytest
import torch

from proveout.measure import environment, measured, modelled


@pytest.fixture(autouse=True)
def collecting():
    gc.enable()
    yield
    gc.enable()


@pytest.mark.parametrize(("iterations", "warmup"), [(1, 0), (1, 3), (7, 2), (30, 10)])
def test_there_are_as_many_samples_as_iterations_and_warm_up_is_not_among_them(iterations, warmup):
    calls = []
    timing = measured("eager", "cpu", lambda: calls.append(1), iterations=iterations, warmup=warmup)
    assert len(timing.samples_ns) == iterations
    assert len(calls) == iterations + warmup
    assert (timing.what, timing.device, timing.kind) == ("eager", "cpu", "measured")
    assert all(isinstance(ns, int) and ns >= 0 for ns in timing.samples_ns)


def test_a_slow_first_call_is_warm_up():
    pauses = iter([0.05, 0.05, 0, 0, 0])
    timing = measured("eager", "cpu", lambda: time.sleep(next(pauses)), iterations=3, warmup=2)
    assert max(timing.samples_ns) < 40_000_000


def test_a_sample_is_the_wall_time_of_one_call():
    timing = measured("eager", "cpu", lambda: time.sleep(0.01), iterations=3, warmup=0)
    assert all(10_000_000 <= ns < 100_000_000 for ns in timing.samples_ns)


def test_the_conditions_are_told():
    timing = measured("eager", "cpu", lambda: None, iterations=1, warmup=2)
    assert dict(timing.conditions) == {"warmup": "2", "threads": str(torch.get_num_threads())}


def test_garbage_is_not_collected_while_the_clock_runs():
    seen = []
    measured("eager", "cpu", lambda: seen.append(gc.isenabled()), iterations=3, warmup=2)
    assert seen == [True, True, False, False, False]
    assert gc.isenabled()


@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_garbage_collection_is_put_back_after_an_error(warmup):
    calls = iter([None, None])

    def fails_at_the_third_call():
        if next(calls, "end") == "end":
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        measured("eager", "cpu", fails_at_the_third_call, iterations=5, warmup=warmup)
    assert gc.isenabled()


def test_garbage_collection_stays_off_where_it_was_off():
    gc.disable()
    measured("eager", "cpu", lambda: None, iterations=1, warmup=0)
    assert not gc.isenabled()


def test_a_prediction_is_one_sample_and_says_that_it_is_one():
    timing = modelled("compiled", "sim:n150", 123)
    assert (timing.kind, timing.samples_ns, timing.device) == ("modelled", (123,), "sim:n150")
    assert dict(timing.conditions) == {"calibrated": "no"}


def test_the_environment_names_what_a_result_depends_on():
    found = dict(environment())
    assert {"python", "system", "cpu", "cores", "threads", "proveout", "torch"} <= set(found)
    assert found["torch"] == torch.__version__.split("+")[0] or found["torch"] == torch.__version__
    assert all(isinstance(v, str) and v for v in found.values())
