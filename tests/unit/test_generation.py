"""Claims about generation: the prompt is no token, every gap counts, a refused percentile says what it needs."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import torch

import proveout
from proveout.errors import UsageError
from proveout.measure.generation import Generated, benchmark_generation, generation_report, time_generate
from proveout.report import bench


def generated(first_ms, gaps_ms, batch=1):
    stamps = np.cumsum([first_ms, *gaps_ms]) * 1e6
    return Generated(1000, (1000 + stamps).astype(np.int64), batch, 7)


class Speaker:
    """Stands for a model: hands the prompt to the streamer, then tokens, as transformers' generate does."""

    def generate(self, inputs, streamer, max_new_tokens):
        streamer.put(inputs)
        for i in range(max_new_tokens):
            time.sleep(0.02 if i == 0 else 0.002)
            streamer.put(inputs[:, -1])
        streamer.end()


def test_times_are_those_of_the_tokens_and_rates_their_quotients():
    runs = [generated(50, [10] * 200), generated(70, [10] * 199 + [510])]
    told = generation_report(runs)
    assert told["ttft_avg_ms"] == pytest.approx(60)
    assert told["gap_ms_p50"] == pytest.approx(10)
    assert told["gap_ms_p100"] == pytest.approx(510), "every gap counts"
    assert told["total_tokens"] == 402
    assert told["tokens_per_s"] == pytest.approx(402 / (2.05 + 2.57))
    assert told["decode_tokens_per_s"] == pytest.approx(400 / (2.0 + 2.5))
    assert told["prompt_tokens"] == 7
    assert bench.table([told]).startswith("tokens_per_s decode_tokens_per_s ttft_avg_ms")


def test_two_runs_support_no_percentile_of_first_tokens_and_say_so():
    told = generation_report([generated(50, [10] * 100), generated(70, [10] * 100)])
    assert told["ttft_ms_p0"] == pytest.approx(50)
    assert told["ttft_ms_p99"] is None
    assert "needs" in told["reasons"]["ttft_ms_p99"]
    assert told["ttft_avg_ms_low"] is None
    json.loads(bench.render_json([told]), parse_constant=pytest.fail)


def test_a_batch_gives_as_many_tokens_a_step():
    told = generation_report([generated(50, [10] * 50, batch=4)])
    assert told["total_tokens"] == 204
    assert told["decode_tokens_per_s"] == pytest.approx(400)


def test_a_streamer_sees_tokens_and_not_the_prompt():
    once = time_generate(Speaker(), torch.zeros(3, 9, dtype=torch.long), max_new_tokens=5)
    assert (len(once.tokens_ns), once.batch, once.prompt_tokens) == (5, 3, 9)
    assert once.first_ns > 15e6
    assert once.first_ns > once.gaps_ns.min()


@pytest.mark.slow
def test_a_plain_iterator_will_do():
    [told] = benchmark_generation(lambda: iter(range(20)), runs=3)
    assert told["total_tokens"] == 60
    assert len(told["runs"]) == 3
    assert len(told["runs"][0]["gaps_ms"]) == 19


def test_one_token_has_no_gap_and_no_decode_rate():
    [told] = benchmark_generation(lambda: iter([1]), runs=2, warmup=0)
    assert told["decode_tokens_per_s"] is None
    assert told["reasons"]["gap_ms_p50"] == "no generation gave a second token"


@pytest.mark.slow
def test_a_transformers_model_is_timed_token_by_token():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, bos_token_id=0, eos_token_id=49)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.ones(2, 4, dtype=torch.long)
    [told] = proveout.benchmark_generation(
        model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, runs=3, min_new_tokens=8, max_new_tokens=8,
        do_sample=False, pad_token_id=0,
    )  # fmt: skip
    assert told["total_tokens"] == 3 * 2 * 8
    assert (told["batch_size"], told["prompt_tokens"]) == (2, 4)
    assert told["ttft_ms_p0"] > 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: benchmark_generation(Speaker()), "needs inputs"),
        (lambda: benchmark_generation(3), "generates nothing"),
        (lambda: benchmark_generation(lambda: iter([])), "not one token"),
        (lambda: benchmark_generation(lambda: iter([1]), runs=0), "at least 1 run"),
        (lambda: benchmark_generation(lambda: iter([1]), torch.zeros(1)), "takes none"),
        (lambda: generation_report([]), "at least one generation"),
    ],
)
def test_what_cannot_be_timed_is_refused(call, says):
    with pytest.raises(UsageError, match=says):
        call()
