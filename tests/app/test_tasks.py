"""The five tasks without a page: padding, answers, weights, and a worker that can be followed, stopped and lost."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch
from quick_runs import experts, quick

from proveout.app import data, weights
from proveout.app.prepare import NextToken, answer_span, padded, prepare
from proveout.app.runs import Run, trouble
from proveout.app.tasks import STAGES, TASKS, Inputs
from proveout.errors import UsageError
from proveout.store import Store
from proveout.types import Settings


def eager(prepared):
    with torch.no_grad():
        return prepared.iterate(prepared.model, lambda output: None)


@pytest.mark.parametrize("length", [40, 96])
def test_padding_leaves_the_answer_unchanged(tmp_path, length):
    given = TASKS["answers"].defaults
    tight, wide = (
        eager(prepare(quick("answers", tmp_path, inputs=Inputs(given.context, given.question, length=n))))
        for n in (96, 96 + length)
    )
    assert tight["span"] == wide["span"]
    assert tight["score"] == pytest.approx(wide["score"], abs=1e-4)
    first, last = tight["span"]
    assert given.context[first:last] == "1890"


@pytest.mark.parametrize("task", ["text", "code"])
def test_padding_leaves_the_next_token_unchanged_whatever_it_holds(task):
    loaded = weights.load(TASKS[task], "small", None)
    tokens = loaded.tokenizer(TASKS[task].defaults.prompt)["input_ids"]
    model = NextToken(loaded.model).eval()
    with torch.no_grad():
        bare, filled = model(**padded(tokens, len(tokens))), model(**padded(tokens, len(tokens) + 40, filler=7))
    torch.testing.assert_close(bare, filled, rtol=1e-4, atol=1e-4)


def test_a_prompt_that_is_too_long_keeps_its_end(tmp_path):
    words = "one two three four five six seven eight nine ten"
    output = eager(prepare(quick("text", tmp_path, inputs=Inputs(prompt=words, length=3, new_tokens=1))))
    assert words.endswith(output["prompt"])
    assert len(output["prompt"]) < len(words)


def test_no_answer_is_said_where_the_first_token_is_likelier():
    start = end = torch.tensor([5.0, 0.0, 1.0])
    in_context = torch.tensor([False, True, True])
    assert answer_span(start, end, in_context, [[0, 0], [0, 3], [4, 7]])["span"] is None


@pytest.mark.parametrize("digit", ["3", "8"])
def test_a_digit_of_the_samples_is_read(tmp_path, digit):
    from proveout.app import pictures

    image = pictures.encoded(pictures.opened(pictures.samples("digits")[digit].read_bytes()))
    assert eager(prepare(quick("digits", tmp_path, inputs=Inputs(image=image))))["label"] == digit


@pytest.mark.parametrize("ink", ["white", "black"])
def test_a_drawn_digit_is_read_on_either_ground(tmp_path, ink):
    from PIL import Image, ImageDraw

    from proveout.app import pictures

    drawing = Image.new("RGB", (256, 256), "black" if ink == "white" else "white")
    ImageDraw.Draw(drawing).line([(70, 50), (190, 50), (110, 220)], fill=ink, width=24, joint="curve")
    image = pictures.encoded(pictures.digit(drawing))
    assert eager(prepare(quick("digits", tmp_path, inputs=Inputs(image=image))))["label"] == "7"


def test_every_sample_picture_is_recognised(tmp_path):
    from proveout.app import pictures

    for label, path in pictures.samples("pictures").items():
        image = pictures.encoded(pictures.opened(path.read_bytes()))
        assert eager(prepare(quick("pictures", tmp_path, inputs=Inputs(image=image))))["label"] == label


def test_a_file_that_is_no_image_is_refused():
    from proveout.app import pictures

    with pytest.raises(UsageError, match="Use PNG or JPEG"):
        pictures.opened(b"not an image")


def test_offline_small_comes_first_and_what_is_on_is_said():
    small, random = weights.offers(TASKS["text"], None, lambda: False)[-2:]
    assert (small.source, random.source) == ("small", "random")
    assert "Held-out score: 19.3" in small.says
    assert "the answer is noise" in random.says


def test_own_weights_come_before_all_others(tmp_path):
    (tmp_path / "digits").mkdir()
    assert [o.source for o in weights.offers(TASKS["digits"], str(tmp_path), lambda: True)] == [
        "folder",
        "small",
        "random",
    ]
    with pytest.raises(UsageError, match=r"expected model\.safetensors"):
        weights.load(TASKS["digits"], "folder", str(tmp_path))


def test_the_hub_is_not_asked_where_the_user_is_offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(weights.socket, "create_connection", lambda *a, **k: pytest.fail("the hub was asked"))
    assert not weights.hub_answers()


# ----------------------------------------------------------------------------------------------------------- workers


@pytest.mark.slow
def test_a_run_tells_its_stages_its_samples_its_output_and_leaves_a_record(tmp_path):
    run = Run(quick("digits", tmp_path, iterations=2))
    run.wait(120)
    seen = run.seen()
    assert trouble(run) is None
    assert tuple(seen.stages) == STAGES
    assert [(what, warm) for what, _, warm in seen.samples] == [
        ("eager", True), ("eager", False), ("eager", False),
        ("simulation", True), ("simulation", False), ("simulation", False),
    ]  # fmt: skip
    assert "evict" in seen.passes
    assert seen.output["label"] == "0"
    (record,), _ = Store(tmp_path / "cache").records()
    assert record.status == "passed"
    assert record.programs[0][1] > 10
    assert dict(record.job.workload.labels)["weights"] == ("small",)


@pytest.mark.slow
def test_without_the_cpu_nothing_is_timed_on_it(tmp_path):
    run = Run(quick("digits", tmp_path, baseline=False))
    run.wait(120)
    assert {what for what, _, _ in run.seen().samples} == {"simulation"}
    assert run.seen().record.timing("eager") is None


@pytest.mark.slow
def test_what_ran_can_be_looked_into_without_another_command(tmp_path):
    run = Run(quick("digits", tmp_path, baseline=False))
    run.wait(120)
    board = data.board(tmp_path / "cache")
    (entry,) = board.entries
    assert not board.unreadable
    found = data.recorded(board.with_programs(entry), entry.programs)
    assert [one.program.fingerprint for one in found] == list(entry.programs)
    assert data.sheet(entry, found).rows


@pytest.mark.slow
def test_an_op_without_a_kernel_names_the_stage_the_pass_and_the_next_step(tmp_path):
    own, strict = experts(tmp_path / "own"), Settings(precision="bfloat16", fallback="error")
    run = Run(quick("text", tmp_path, settings=strict, source="folder", weights=own))
    run.wait(120)
    found = trouble(run)
    assert found.title == "The compiler stopped"
    assert "stays on the host" in found.what
    assert "in the compiler's pass lower" in found.what
    assert found.where.startswith("compile")
    assert "fallback to host" in found.next_step
    (record,), _ = Store(tmp_path / "cache").records()
    assert record.failure == "lowering"


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_and_remembered(tmp_path):
    run = Run(quick("digits", tmp_path))
    while run.seen().stage != "compile":
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGSEGV)
    run.wait(10)
    found = trouble(run)
    assert found.title == "The worker crashed"
    assert "SIGSEGV" in found.what
    assert found.where.startswith("compile")
    (record,), _ = Store(tmp_path / "cache").records()
    assert (record.status, record.failure) == ("failed", "crash")


@pytest.mark.slow
def test_out_of_memory_is_called_so(tmp_path):
    run = Run(quick("text", tmp_path, source="random", memory_gib=0.7))
    run.wait(120)
    assert trouble(run).title == "Out of memory"


@pytest.mark.slow
def test_the_time_limit_ends_a_run(tmp_path):
    run = Run(quick("digits", tmp_path, timeout_s=1.0))
    run.wait(60)
    assert trouble(run).title == "The time limit was reached"


@pytest.mark.slow
def test_stop_ends_a_run_and_leaves_no_record(tmp_path):
    run = Run(quick("digits", tmp_path, iterations=10_000))
    while not run.seen().stage:
        time.sleep(0.05)
    run.stop()
    run.wait(20)
    assert not run.running
    assert trouble(run) is None
    assert Store(tmp_path / "cache").records() == ([], [])


def test_what_cannot_fit_is_refused_with_the_numbers(tmp_path):
    with pytest.raises(UsageError, match="takes 1 to 512 in all"):
        prepare(quick("text", tmp_path, inputs=Inputs(prompt="a", length=500, new_tokens=20)))
