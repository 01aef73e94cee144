"""The pages' logic, without a browser."""

from __future__ import annotations

from dataclasses import replace

import pytest

testing = pytest.importorskip("streamlit.testing.v1", reason="needs the extra `app`")

from proveout.app import main, results  # noqa: E402
from proveout.app.runs import Seen  # noqa: E402
from proveout.app.tasks import TASKS, Inputs, Request  # noqa: E402
from proveout.app.worker import with_first_token  # noqa: E402
from proveout.columns.words import WEAK  # noqa: E402
from proveout.types import Comparison, Coverage, Job, MemoryUse, OpStatus, Record, Timing, Workload  # noqa: E402


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("sys.argv", ["main.py", "--cache-dir", str(tmp_path)])


def opened(task: str):
    script = f"from proveout.app.playground import page\npage({task!r})"
    return testing.AppTest.from_string(script, default_timeout=60).run()


@pytest.mark.parametrize("task", TASKS)
def test_every_task_opens_ready_to_run(task):
    page = opened(task)
    assert not page.exception
    run, stop = (next(b for b in page.button if b.label == label) for label in ("Run", "Stop"))
    assert not run.disabled
    assert stop.disabled


def test_an_empty_prompt_cannot_be_run_and_says_why():
    page = opened("text")
    page.text_area[0].set_value("  ").run()
    assert next(b for b in page.button if b.label == "Run").disabled
    assert "Enter a prompt" in page.warning[0].value


def test_an_example_fills_the_context_and_the_question():
    page = opened("answers")
    before = page.text_area[0].value
    page.selectbox[0].select_index(1).run()
    assert page.text_area[0].value != before
    assert page.selectbox[0].options[1] == page.text_input[0].value
    assert len(set(page.selectbox[0].options)) == len(page.selectbox[0].options)


def test_the_weights_in_use_are_said():
    page = opened("text")
    assert "trained on the King James Bible" in page.caption[0].value
    page.radio[0].set_value("random").run()
    assert "the answer is noise" in page.caption[0].value


def test_the_first_page_and_the_navigation_open():
    page = testing.AppTest.from_file(main.__file__, default_timeout=60).run()
    assert not page.exception


def record(kind: str) -> Record:
    return Record(
        Job(Workload("text (small)", "", "x")),
        "passed",
        coverage=Coverage((OpStatus("a", "aten.mm", "converted"), OpStatus("b", "aten.sort", "host", "no row"))),
        comparisons=(Comparison("output", "out", 0.999999, 0.01, 0.1, 0.99, True),),
        timings=(
            Timing("eager", "measured", "cpu", (8_000_000,), interval_ns=(7.2e6, 8.8e6), verdict="steady"),
            Timing(
                "compiled",
                kind,
                "sim",
                (2_000_000,),
                interval_ns=(1.6e6, 2.4e6),
                verdict="predicted" if kind == "modelled" else "steady",
            ),
        ),
        memory=MemoryUse(2 << 20, 32768, 1 << 20),
        programs=(("abc", 7),),
    )


@pytest.mark.parametrize(("kind", "unit"), [("modelled", "modelled ×"), ("measured", "×")])
def test_a_speed_up_of_a_modelled_time_says_so(kind, unit):
    request = Request("text", Inputs(prompt="a", length=4, new_tokens=10))
    tiles = {t.name: t for t in results.figures(request, Seen(tokens=10), record(kind))}
    speed_up = tiles["Speed-up against the CPU"]
    assert (speed_up.value, speed_up.unit) == ("4", unit)
    assert speed_up.note.startswith("3 to 5.5; ")
    assert tiles["Tokens per second"].value == "5,000"
    assert tiles["PCC against eager"].value == "0.99999"
    assert tiles["Op coverage"].value == "50.0%"
    assert tiles["Peak SRAM"].value == "2.00"
    assert tiles["Generation time"].tone == kind


@pytest.mark.parametrize(("what", "said"), [("eager", "the CPU's time"), ("compiled", "the device's time")])
@pytest.mark.parametrize("verdict", ["too few", "unsteady", "not judged"])
def test_no_speed_up_is_told_of_a_time_that_does_not_stand(what, said, verdict):
    whole = record("measured")
    timings = tuple(replace(t, verdict=verdict) if t.what == what else t for t in whole.timings)
    tile = results.speed_up(whole, *(t for name in ("compiled", "eager") for t in timings if t.what == name))
    assert (tile.value, tile.unit, tile.note) == ("not told", "", f"{said} {WEAK[verdict]}")


def test_a_modelled_time_counts_with_the_measured_part_of_the_host():
    whole = record("modelled")
    eager, compiled = whole.timings
    host = Timing("host", "measured", "cpu", (1_000_000,), interval_ns=None, verdict="too few")
    compiled = replace(compiled, parts=("device", "host"))
    tile = results.speed_up(replace(whole, timings=(eager, compiled, host)), compiled, eager)
    assert (tile.value, tile.note) == ("not told", f"the host's part of the time {WEAK['too few']}")


def test_a_device_without_times_is_not_called_measured():
    nothing = replace(record("measured"), timings=record("measured").timings[:1])
    shown = "".join(results._badges(Request("text", Inputs()), nothing))
    assert "no time on sim" in shown
    assert "measured" not in shown


def test_a_modelled_first_token_is_one_of_so_many_equal_calls():
    request = Request("text", Inputs(prompt="a", length=4, new_tokens=10))
    told = with_first_token(record("modelled"), [], request.inputs.new_tokens)
    tiles = {t.name: t for t in results.figures(request, Seen(tokens=10), told)}
    assert (tiles["Time to first token"].value, tiles["Time to first token"].unit) == ("200", "µs")
    first, whole = told.timing("first token"), told.timing("compiled")
    assert (first.kind, first.verdict) == ("modelled", whole.verdict)
    assert first.interval_ns == tuple(end / 10 for end in whole.interval_ns)


def test_a_measured_first_token_has_its_own_samples_interval_and_verdict():
    times = [1_000_000 + 1000 * (n % 7) for n in range(30)]
    whole = record("measured")
    whole = replace(whole, timings=tuple(replace(t, samples_ns=t.samples_ns * 30) for t in whole.timings))
    first = with_first_token(whole, times, 10).timing("first token")
    assert (first.kind, first.samples_ns) == ("measured", tuple(times[-len(whole.timing("compiled").samples_ns) :]))
    assert first.interval_ns is not None
    assert first.verdict == "too few"
