"""The pages' logic, without a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

testing = pytest.importorskip("streamlit.testing.v1", reason="needs the extra `app`")

from proveout.app import main, results  # noqa: E402
from proveout.app.runs import Seen  # noqa: E402
from proveout.app.tasks import TASKS, Inputs, TaskRequest  # noqa: E402
from proveout.app.worker import Generation, with_token_times  # noqa: E402
from proveout.clock.timing import FIRST_TOKEN, modelled  # noqa: E402
from proveout.columns.words import WEAK  # noqa: E402
from proveout.serving import Configuration  # noqa: E402
from proveout.store import Store  # noqa: E402
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
    assert any("trained on the King James Bible" in caption.value for caption in page.caption)
    page.radio[0].set_value("random").run()
    assert any("the answer is noise" in caption.value for caption in page.caption)


def test_tokens_are_counted_and_nothing_is_cut_in_silence():
    page = opened("answers")
    assert any(
        re.fullmatch(r"Question \d+ \+ context \d+ \+ 3 marks: \d+ of 128 tokens.", c.value) for c in page.caption
    )
    assert not page.warning
    page.text_area[0].set_value("Ann likes rice and tea. " * 30).run()
    assert re.match(r"The last \d+ tokens of the context are cut. Set the length to \d+ or more", page.warning[0].value)
    page.text_input[0].set_value("why " * 200).run()
    assert page.warning[0].value.startswith("The question alone takes ")
    assert next(b for b in page.button if b.label == "Run").disabled


def test_lengths_go_as_far_as_the_loaded_model_and_no_further():
    page = opened("text")
    length, new = (next(n for n in page.number_input if n.label == label) for label in ("Input length", "New tokens"))
    assert (length.max, new.max) == (511, 508)  # the small model's 512 positions
    length.set_value(500)
    new.set_value(100)
    page.run()
    assert "500 + 100 tokens do not fit: this model takes 512 in all." in page.warning[0].value
    page.radio[0].set_value("random").run()
    assert not page.warning, "GPT-2 at its true size takes 1,024"


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
    request = TaskRequest("text", Inputs(prompt="a", length=4, new_tokens=10))
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
    assert (tile.value, tile.unit, tile.note) == ("unclear", "", f"{said} {WEAK[verdict]}")


def test_a_modelled_time_counts_with_the_measured_part_of_the_host():
    whole = record("modelled")
    eager, compiled = whole.timings
    host = Timing("host", "measured", "cpu", (1_000_000,), interval_ns=None, verdict="too few")
    compiled = replace(compiled, parts=("device", "host"))
    tile = results.speed_up(replace(whole, timings=(eager, compiled, host)), compiled, eager)
    assert (tile.value, tile.note) == ("unclear", f"the host's part of the time {WEAK['too few']}")


def test_a_device_without_times_is_not_called_measured():
    nothing = replace(record("measured"), timings=record("measured").timings[:1])
    shown = "".join(results._badges(TaskRequest("text", Inputs()), nothing))
    assert "no time on sim" in shown
    assert "measured" not in shown


def test_a_modelled_generation_is_divided_as_its_calls_are():
    """Of 2 ms, the prompt's call takes 0.65 ms and nine more tokens 0.15 ms each."""
    request = TaskRequest("text", Inputs(prompt="a", length=4, new_tokens=10))
    told = with_token_times(record("modelled"), [Generation(1, 2, 650_000)], request.inputs.new_tokens)
    tiles = {t.name: t for t in results.figures(request, Seen(tokens=10), told)}
    assert (tiles["Time to first token"].value, tiles["Time to first token"].unit) == ("650", "µs")
    assert (tiles["Time per output token"].value, tiles["Time per output token"].unit) == ("150", "µs")
    first, compiled = told.timing("first token"), told.timing("compiled")
    assert (first.kind, first.verdict) == ("modelled", compiled.verdict)
    assert first.interval_ns == pytest.approx(tuple(end * 0.325 for end in compiled.interval_ns))


def test_a_generation_whose_host_has_a_part_is_not_divided():
    """Nothing tells how much of the host's time lies before the first token."""
    whole = record("modelled")
    timings = tuple(replace(t, parts=("device", "host")) if t.what == "compiled" else t for t in whole.timings)
    assert with_token_times(replace(whole, timings=timings), [Generation(1, 2, 650_000)], 10).timings == timings


def test_measured_tokens_have_their_own_samples_interval_and_verdict():
    times = [Generation(1_000_000 + 1000 * (n % 7), 9_000_000) for n in range(30)]
    whole = record("measured")
    whole = replace(whole, timings=tuple(replace(t, samples_ns=t.samples_ns * 30) for t in whole.timings))
    told = with_token_times(whole, times, 10)
    first, later = told.timing("first token"), told.timing("time per token")
    kept = times[-len(whole.timing("compiled").samples_ns) :]
    assert (first.kind, first.samples_ns) == ("measured", tuple(g.first_ns for g in kept))
    assert first.interval_ns is not None
    assert first.verdict == "too few"
    assert set(later.samples_ns) == {1_000_000}


def test_where_no_answer_is_found_no_confidence_is_claimed(monkeypatch):
    said = []
    monkeypatch.setattr(results.theme, "answer", lambda text, note: said.append((text, note)))
    monkeypatch.setattr(results, "st", SimpleNamespace(html=str, caption=str, warning=str))
    request = SimpleNamespace(inputs=SimpleNamespace(context="Ann ran."), source="small")
    results._answer(request, {"span": None, "guess": (0, 3), "none": True, "score": 0.99, "read": 8})
    assert said == [("I don't know", "no answer found in the passage")]


def test_a_generation_s_page_says_what_its_record_does_not_keep(tmp_path):
    kept = record("modelled")
    told = {"prompt_length": 64, "new_tokens": 8, "agreement": {"top1": 0.5, "top5": 1.0}, "cache_bytes": 2048}
    job = replace(kept.job, do=("generate",), serve=Configuration("m", "sim:n150", 4, multiprocess=False))
    timings = (modelled(FIRST_TOKEN, "sim:n150", 2_000_000, (1_000_000, 3_000_000), 0.8),)
    Store(tmp_path).write(replace(kept, job=job, timings=timings, report=told, memory=MemoryUse(dram_peak_bytes=9)))

    def shown(script: str) -> str:
        page = testing.AppTest.from_string(script, default_timeout=60).run()
        assert not page.exception
        return " ".join(block.proto.body for block in page.get("html"))

    model = shown(
        "import streamlit as st\nfrom proveout.app.explorer_model import page\n"
        "st.session_state['section'] = 'Ops'\npage()"
    )
    assert "b4 64+8 tokens" in model
    assert "Ops: not kept of a generation" in model
    assert "Top-1 against eager" in shown("from proveout.app.explorer_generation import page\npage()")
