"""The five tasks without a page: padding, answers, weights, and a worker that can be followed, stopped and lost."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from quick_runs import experts, quick

from proveout import isolate
from proveout.app import data, results, weights
from proveout.app import prepare as prepared
from proveout.app.evidence import EVIDENCE, Candidate
from proveout.app.prepare import prepare
from proveout.app.runs import Run, trouble
from proveout.app.spans import Calibration, Read, begins_word, best_answer, completed, ends_word
from proveout.app.tasks import STAGES, TASKS, Inputs
from proveout.errors import UsageError
from proveout.generation.cached import Cached, prompt_call, token_call
from proveout.store import Store
from proveout.types import Settings, Timing


def eager(prepared):
    with torch.no_grad():
        return prepared.iterate(prepared.model, lambda output: None)


@pytest.mark.parametrize("length", [40, 96])
def test_padding_leaves_the_answer_unchanged(tmp_path, length):
    given = TASKS["answers"].defaults
    tight, wide = (
        eager(prepare(quick("answers", tmp_path, inputs=Inputs(given.context, given.question, length=n))))
        for n in (128, 128 + length)
    )
    assert tight["span"] == wide["span"]
    assert tight["score"] == pytest.approx(wide["score"], abs=1e-4)
    first, last = tight["span"]
    assert given.context[first:last] == "330 metres"


@pytest.mark.parametrize("task", ["text", "code"])
def test_padding_leaves_the_tokens_unchanged_whatever_it_holds(task):
    """What pads a prompt lies in the cache behind it, where later tokens overwrite it before anyone looks."""
    loaded = weights.load(TASKS[task], "small", None)
    tokens = loaded.tokenizer(TASKS[task].defaults.prompt)["input_ids"]
    outputs = []
    for filler in (0, 7):
        model = Cached(loaded.model, 64).eval()
        with torch.no_grad():
            first = model(**prompt_call(tokens, 64, filler))
            outputs.append((first, model(**token_call(int(first[0].argmax()), len(tokens)))))
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", ["text", "code"])
def test_a_task_generates_the_tokens_of_transformers_own_generate(tmp_path, task):
    prepared = prepare(
        quick(task, tmp_path, inputs=Inputs(prompt=TASKS[task].defaults.prompt, length=20, new_tokens=9))
    )
    loaded = weights.load(TASKS[task], "small", None)
    ids = torch.tensor([loaded.tokenizer(TASKS[task].defaults.prompt)["input_ids"][-20:]])
    tokens = loaded.model.generate(ids, max_new_tokens=9, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert eager(prepared)["text"] == loaded.tokenizer.decode(tokens[0, ids.shape[1] :])


def test_a_prompt_that_is_too_long_keeps_its_end(tmp_path):
    words = "one two three four five six seven eight nine ten"
    output = eager(prepare(quick("text", tmp_path, inputs=Inputs(prompt=words, length=3, new_tokens=1))))
    assert words.endswith(output["prompt"])
    assert len(output["prompt"]) < len(words)


def ann_ran(logits: torch.Tensor) -> Read:
    return Read("Ann ran", "Who ran?", logits, logits, [[0, 0], [0, 3], [4, 7]], [False, True, True])


def test_no_answer_is_said_where_the_first_token_is_likelier():
    start = torch.tensor([5.0, 0.0, 1.0])
    answer = best_answer(ann_ran(start))
    assert answer.span is None
    assert answer.says_none


def test_an_answer_is_whole_words_however_sure_the_model_is_of_a_part():
    passage = "It is 1,083 ft tall in Oslo."
    pieces = ["It", "is", "1", ",", "083", "ft", "tall", "in", "Osl", "o", "."]
    offsets, place = [[0, 0]], 0
    for piece in pieces:
        place = passage.index(piece, place)
        offsets.append([place, place + len(piece)])
        place += len(piece)
    inside = [False, *[True] * len(pieces)]
    for first, last, whole in ((9, 9, "Oslo"), (5, 5, "1,083"), (3, 3, "1,083")):
        start, end = torch.full((len(offsets),), -9.0), torch.full((len(offsets),), -9.0)
        start[first], end[last] = 9.0, 9.0
        answer = best_answer(Read(passage, "Where?", start, end, offsets, inside), Calibration(threshold=0.0))
        assert whole in passage[slice(*answer.guess)].split() or not answer.span
        assert begins_word(passage, answer.guess[0])
        assert ends_word(passage, answer.guess[1])


def test_an_unsure_model_does_not_answer_but_shows_its_guess():
    start = torch.tensor([0.0, 1.0, 0.9])
    answer = best_answer(ann_ran(start), Calibration(3.0, 0.95))
    assert answer.span is None
    assert answer.guess is not None
    assert 0 < answer.confidence < 0.95


@pytest.mark.parametrize("digit", ["3", "8"])
def test_a_digit_of_the_samples_is_read(tmp_path, digit):
    from proveout.app import pictures

    image = pictures.encoded(pictures.opened(pictures.samples("digits")[digit].read_bytes()))
    assert eager(prepare(quick("digits", tmp_path, inputs=Inputs(image=image))))["label"] == digit


def test_an_upload_that_is_no_image_is_told_in_a_sentence():
    from proveout.app import pictures
    from proveout.errors import UsageError

    with pytest.raises(UsageError, match=r"^that file is not a readable image\. Use PNG or JPEG\.$"):
        pictures.opened(b"%PDF-1.7 not an image")


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
    found = data.recorded(board, entry)
    assert [one.program.fingerprint for one in found] == list(entry.programs)
    assert data.sheet(entry, found).rows


@pytest.mark.slow
def test_an_op_without_a_kernel_names_the_stage_the_pass_and_the_next_step(tmp_path):
    own, strict = experts(tmp_path / "own"), Settings(precision="bfloat16", fallback="error")
    run = Run(quick("answers", tmp_path, settings=strict, source="folder", weights=own))
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
    assert run.pid is not None
    worker = isolate.descendants(run.pid)
    assert worker
    run.stop()  # how soon: tests/unit/test_isolate.py
    assert isolate.descendants(run.pid) == []  # it is over when the click has been dealt with, not some time later
    run.wait()
    assert trouble(run) is None
    assert Store(tmp_path / "cache").records() == ([], [])


def test_what_cannot_fit_is_refused_with_the_numbers(tmp_path):
    with pytest.raises(UsageError, match="takes 1 to 512 in all"):
        prepare(quick("text", tmp_path, inputs=Inputs(prompt="a", length=500, new_tokens=20)))


def test_questions_of_a_person_are_answered_right_or_not_at_all():
    """Questions that a person wrote and that nothing was chosen by: a wrong answer is worse than none, and a model that
    mostly says "I don't know" is no use."""
    items = json.loads((Path(__file__).parents[2] / "training" / "held_out_questions.json").read_text())
    loaded = weights.load(TASKS["answers"], "small", None)
    calibration = prepared._calibration(loaded.folder)
    assert set(calibration.evidence) == set(EVIDENCE)
    told = dict.fromkeys(("right", "abstained", "wrong", "all", "answerable", "answered"), 0)
    for item in items:
        for question, *wanted in item["questions"]:
            batch = loaded.tokenizer(question, item["passage"], return_offsets_mapping=True, return_tensors="pt")
            offsets = batch.pop("offset_mapping")[0].tolist()
            inside = [part == 1 for part in batch.sequence_ids(0)]
            with torch.no_grad():
                out = loaded.model(**batch)
            read = Read(item["passage"], question, out.start_logits[0], out.end_logits[0], offsets, inside)
            answer = best_answer(read, calibration)
            said = item["passage"][slice(*answer.span)] if answer.span else None
            correct = any(plain(said or "") == plain(text) for text in wanted) if wanted else said is None
            told["right" if correct else "abstained" if said is None else "wrong"] += 1
            told["all"] += 1
            told["answerable"] += bool(wanted)
            told["answered"] += bool(wanted) and correct
    assert told["all"] >= 60
    assert told["wrong"] <= told["all"] / 10
    assert told["answered"] >= 0.45 * told["answerable"]
    assert weights.score_of(loaded.folder)["held_out"] == told, "what the page says of it is what it did"


@pytest.mark.parametrize(
    ("feature", "question", "good", "bad"),
    [
        ("fits_kind", "When did the mill open?", "1902", "Ann Lee"),
        ("fits_kind", "How many rooms does it have?", "nine", "rooms"),
        ("fits_kind", "Who opened the mill?", "Ann Lee", "1902"),
        ("fits_kind", "What did Ann Lee open?", "the mill", "1902"),
        ("says_it", "When did the mill open?", "1902", "nine"),
        ("says_all", "Where did the mill open?", "York", "nine"),
        ("led_up", "Where did the mill open?", "York", "Ann"),
        ("ragged", "What has nine rooms?", "It has", "the mill"),
        ("cut", "What did Ann Lee open?", "the mill", "Ann Lee"),
        ("long", "Who?", "the mill in York", "Ann"),
    ],
)
def test_evidence_tells_a_good_answer_from_a_bad_one(feature, question, good, bad):
    passage = "Ann Lee opened the mill in York in 1902. It has nine rooms."
    spans = ((passage.index(text), passage.index(text) + len(text)) for text in (good, bad))
    first, second = (EVIDENCE[feature](Candidate(passage, question, span)) for span in spans)
    assert first < second if feature == "cut" else first > second


def test_a_name_keeps_its_middle():
    passage = "It was Guido van Rossum who wrote it."
    assert completed(passage, 7, 12) == (7, 23)


@pytest.mark.parametrize(
    ("passage", "part", "whole"),
    [
        ("It was built by Anna Maria Lind in 1901.", "Anna", "Anna Maria Lind"),
        ("It opened on 3 March 1950 in Rome.", "1950", "3 March 1950"),
        ("About nine million people came.", "nine", "nine million"),
        ("The rivers meet at Koblenz, a city.", "meet at Koblenz", "Koblenz"),
        ("Take 20 grams of salt, 300 grams of rice.", "20 grams of salt, 300 grams", "20 grams of salt"),
        ("Yesterday Ann Lee left. Tom stayed.", "Lee", "Ann Lee"),
        ("In Oslo it rains.", "Oslo", "Oslo"),
    ],
)
def test_a_span_is_completed_as_a_person_would_mark_it(passage, part, whole):
    start = passage.index(part)
    first, last = completed(passage, start, start + len(part))
    assert passage[first:last] == whole


def plain(text: str) -> str:
    return text.lower().removeprefix("the ").removeprefix("about ").strip(" .,")


def test_a_long_time_is_told_in_whole_numbers():
    slow = Timing("eager", "measured", "cpu", (861_000_000,) * 3, interval_ns=(483e6, 1310e6), verdict="too few")
    assert results._note(slow) == "measured, median of 3, 483 to 1,310 ms; too few"


def test_a_short_times_interval_has_its_unit():
    """Beside 368 µs it said 0.246 to 0.612 ms."""
    short = Timing("compiled", "modelled", "sim:n150", (368_000,), interval_ns=(246e3, 612e3))
    assert results._note(short) == "modelled, 246 to 612 µs"
