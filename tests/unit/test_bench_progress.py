"""Claims about progress: a lower bound is called one, and what was seen is expected again."""

from __future__ import annotations

from proveout.measure.progress import line, time_left
from proveout.serving import Configuration, Load

TEN = Configuration("net", duration_s=10)


def test_before_anything_ended_only_a_lower_bound_is_known():
    assert str(time_left([], [TEN, TEN])) == "at least 20 s"


def test_what_came_on_top_before_is_expected_again():
    assert str(time_left([(TEN, 13.0), (TEN, 15.0)], [TEN] * 3)) == "about 42 s"


def test_a_configuration_that_stopped_early_says_nothing_about_loading():
    assert str(time_left([(TEN, 2.0)], [TEN])) == "at least 10 s"
    assert str(time_left([(TEN, 2.0), (TEN, 14.0)], [TEN])) == "about 14 s"


def test_long_times_are_told_in_minutes_and_hours():
    hour = Configuration("net", duration_s=3600)
    assert str(time_left([], [hour])) == "at least 60 min"
    assert str(time_left([], [hour] * 5)) == "at least 5.0 h"
    assert str(time_left([(TEN, 12.0)], [])) == "about 0 s"


def test_a_line_says_what_is_running():
    said = line(2, 4, Configuration("net", workers_per_model=2, batch_size=8), time_left([], [TEN]))
    assert said == "[2/4] net on cpu: 1 model × 2 workers, batch 8; at least 10 s remaining."
    rate = Configuration("net", "sim:n300", n_models=2, pipeline_size=2, load=Load("poisson", rate=50))
    assert "2 models × 1 worker, batch 1, over 2 chips, poisson 50/s" in line(1, 1, rate, time_left([], []))
