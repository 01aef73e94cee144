"""Samples from a clock or from a model, never both; warm-up left out, garbage collection put back."""

from __future__ import annotations

import gc
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import proveout
from proveout.clock import environment, judged, loops, measured, modelled
from proveout.types import Timing
from proveout.words import counted


@pytest.fixture(autouse=True)
def collecting():
    gc.enable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize(("iterations", "warmup"), [(1, 0), (1, 3), (7, 2), (30, 10)])
def test_there_are_as_many_samples_as_iterations_and_warm_up_is_not_among_them(iterations, warmup):
    calls = []
    timing = measured("eager", "cpu", lambda: calls.append(1), iterations=iterations, warmup=warmup)
    assert len(timing.samples_ns) == iterations
    assert len(calls) == iterations + warmup
    assert (timing.what, timing.device, timing.kind) == ("eager", "cpu", "measured")
    assert all(isinstance(ns, int) and ns >= 0 for ns in timing.samples_ns)


@pytest.mark.slow
def test_a_slow_first_call_is_warm_up():
    pauses = iter([0.05, 0.05, 0, 0, 0])
    timing = measured("eager", "cpu", lambda: time.sleep(next(pauses)), iterations=3, warmup=2)
    assert max(timing.samples_ns) < 40_000_000


@pytest.mark.slow
def test_a_sample_is_the_wall_time_of_one_call():
    timing = measured("eager", "cpu", lambda: time.sleep(0.01), iterations=3, warmup=0)
    assert all(10_000_000 <= ns < 100_000_000 for ns in timing.samples_ns)


@pytest.mark.slow
def test_the_conditions_are_told():
    timing = measured("eager", "cpu", lambda: None, iterations=1, warmup=2)
    assert dict(timing.conditions) == {"warmup": "2", "threads": str(torch.get_num_threads())}


@pytest.mark.slow
def test_garbage_is_not_collected_while_the_clock_runs():
    seen = []
    measured("eager", "cpu", lambda: seen.append(gc.isenabled()), iterations=3, warmup=2)
    assert seen == [True, True, False, False, False]
    assert gc.isenabled()


@pytest.mark.slow
@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_garbage_collection_is_put_back_after_an_error(warmup):
    calls = iter([None, None])

    def fails_at_the_third_call():
        if next(calls, "end") == "end":
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        measured("eager", "cpu", fails_at_the_third_call, iterations=5, warmup=warmup)
    assert gc.isenabled()


@pytest.mark.slow
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


def timing_of(samples: np.ndarray) -> Timing:
    return judged(Timing("eager", "measured", "cpu", tuple(samples.astype(int).tolist())))


def noise(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1e6, 1e4, n)


def test_level_samples_are_steady_and_their_interval_holds_the_median():
    timing = timing_of(noise(400))
    low, high = timing.interval_ns
    assert (timing.verdict, timing.why) == ("steady", "")
    assert low < timing.median_ns < high
    assert (high - low) / timing.median_ns < 0.01


def test_samples_that_drift_are_unsteady_and_the_reason_says_what_to_do():
    timing = timing_of(noise(400) * np.linspace(1, 1.5, 400))
    assert timing.verdict == "unsteady"
    assert "differ by" in timing.why or "settling" in timing.why


@pytest.mark.parametrize(("n", "has_interval"), [(1, False), (9, False), (10, True), (99, True)])
def test_too_few_samples_say_so_and_have_an_interval_from_ten_on(n, has_interval):
    timing = timing_of(noise(n))
    assert timing.verdict == "too few"
    assert counted(n, "sample") in timing.why
    assert (timing.interval_ns is not None) == has_interval


def test_a_prediction_keeps_its_own_interval_and_is_never_judged_as_samples_are():
    timing = modelled("compiled", "sim:n150", 123, (100, 150), 1.0)
    assert (timing.interval_ns, timing.verdict) == ((100.0, 150.0), "predicted")
    assert judged(timing) == timing


def test_every_timing_comes_from_the_engine_s_loop(monkeypatch):
    limits = []
    real = loops.measure
    monkeypatch.setattr(loops, "measure", lambda *a, **k: limits.append(k["limit"]) or real(*a, **k))
    measured("eager", "cpu", lambda: None, iterations=7, warmup=2)
    assert limits == [2, 7]


NOT_CALLS = {
    "clock/pacing.py": "the clock itself",
    "compat/neuronperf/results.py": "how long a user's own setup took",
    "compat/neuronperf/stamped.py": "how long a user's own setup took, in a worker",
    "compat/onnxflow/stage.py": "how long a build's stage took",
    "compat/neuronperf/timing.py": "NeuronPerf's Timer, a stopwatch in users' hands",
    "capture/watcher.py": "how long a script's own call took, for its listing",
    "compiler/pipeline.py": "how long compiling took",
    "measure/resources.py": "how punctual a sample of resources is",
}


def test_no_other_place_times_calls_by_itself():
    root = Path(proveout.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"perf_counter(_ns)?\(|= time\.perf_counter", path.read_text())
    }
    assert found <= NOT_CALLS.keys()


@pytest.mark.slow
def test_what_is_told_between_calls_is_in_no_sample():
    timing = measured(
        "eager", "cpu", lambda: time.sleep(0.12), iterations=3, warmup=0, note=lambda ns, warm: time.sleep(0.1)
    )
    assert max(timing.samples_ns) < 200_000_000


@pytest.mark.slow
def test_each_call_is_told_with_its_time_and_whether_it_warmed_up():
    told = []
    timing = measured(
        "eager", "cpu", lambda: None, iterations=50, warmup=3, note=lambda ns, warm: told.append((ns, warm))
    )
    assert [ns for ns, warm in told if not warm] == list(timing.samples_ns)
    assert sum(warm for _, warm in told) == 3


@pytest.mark.slow
def test_a_duration_ends_the_calls_and_a_record_holds_at_most_so_many():
    began = time.monotonic()
    slow = measured("eager", "cpu", lambda: time.sleep(0.02), iterations=0, warmup=3, duration_s=0.3)
    assert time.monotonic() - began >= 0.3
    assert 3 <= len(slow.samples_ns) <= 16
    assert len(measured("eager", "cpu", lambda: None, iterations=0, warmup=0, duration_s=5).samples_ns) == 10_000
