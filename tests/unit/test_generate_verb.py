"""`proveout generate` refuses in a sentence, plans without weights, and tells what eager mode says."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("transformers")

from proveout.capture.scripts import corpora_folder
from proveout.cli import main
from proveout.cli.verbs import generate, tokens
from proveout.cli.verbs.generate import _text
from proveout.errors import UsageError
from proveout.generation.child import generated, prompt_lengths
from proveout.generation.messages import GenerationRequest
from proveout.generation.speed import SpeedAsk
from proveout.generation.speed_child import speeds
from proveout.types import Settings

SCRIPT = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_embd=64, n_layer=1, n_head=2, n_positions=40, bos_token_id=1, eos_token_id=2)
model = GPT2LMHeadModel(config).eval()
model(torch.randint(0, 64, (1, 8)))
raise RuntimeError("what comes after the model's call is not run")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "speaks.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.slow
def test_a_script_runs_up_to_its_decoder_and_the_tokens_are_eagers(script):
    request = GenerationRequest(str(script), device="cpu", settings=Settings(), prompt_length=8, new_tokens=5, batch=2)
    report = generated(request)
    assert (report.prompt_lengths, report.new_tokens, report.max_length) == ((8, 6), 5, 32)
    assert report.equal_tokens == 10
    assert (report.agreement.top1, report.agreement.top5) == (1.0, 1.0)
    assert [(p.name, len(p.measured.samples_ns), p.modelled_ns) for p in report.phases] == [
        ("prefill 32", 1, None),
        ("decode", 4, None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("alibi", "packed"), [(False, True), (True, False)])
def test_the_performance_recipe_packs_the_cache_where_a_kernel_reads_it_so(tmp_path, alibi, packed):
    path = tmp_path / "speaks.py"
    path.write_text(
        "import torch\nfrom transformers import FalconConfig, FalconForCausalLM\n"
        "config = FalconConfig(vocab_size=64, hidden_size=128, num_hidden_layers=1, num_attention_heads=4,"
        f" multi_query=False, parallel_attn=False, alibi={alibi})\n"
        "FalconForCausalLM(config).eval()(torch.zeros(1, 4, dtype=torch.long))\n"
    )
    settings = Settings(precision="bfloat16")
    report = generated(GenerationRequest(str(path), settings=settings, recipe="performance", dry_run=True))
    assert report.notes == (("the cache is kept in bfloat8_b",) if packed else ())
    asked = replace(settings, cache="bfloat8_b")
    (note,) = generated(GenerationRequest(str(path), settings=asked, recipe="performance", dry_run=True)).notes
    assert ("unpacked at every step" in note) is not packed


@pytest.mark.slow
def test_the_cache_is_no_longer_than_the_model_s_positions(script):
    report = generated(GenerationRequest(str(script), prompt_length=30, new_tokens=10, dry_run=True))
    assert report.max_length == 40
    assert report.equal_tokens is None
    assert all(phase.modelled_ns and phase.low_ns < phase.modelled_ns < phase.high_ns for phase in report.phases)


def test_more_positions_than_the_model_has_are_refused_in_the_words_of_the_options(script):
    with pytest.raises(UsageError, match=r"need 41 positions, and GPT2LMHeadModel has 40: ask for a shorter prompt"):
        generated(GenerationRequest(str(script), prompt_length=30, new_tokens=12, dry_run=True))
    ask = SpeedAsk(str(script), "", "sim:n150", Settings(), (1,), (30,), new_tokens=11)
    with pytest.raises(UsageError, match="need 41 positions"):
        speeds(ask)


@pytest.mark.slow
def test_speeds_are_told_up_to_the_model_s_last_position(script):
    [row] = speeds(SpeedAsk(str(script), "", "sim:n150", Settings(), (1,), (30,), new_tokens=10)).rows
    assert row.max_length == 40


@pytest.mark.slow
def test_a_cache_in_pages_says_so_and_gives_eagers_tokens(script):
    request = GenerationRequest(str(script), device="cpu", prompt_length=8, new_tokens=5, batch=2, page_size=4)
    report = generated(request)
    assert (report.pages, report.page_size, report.max_length) == (16, 4, 32)
    assert report.equal_tokens == 10
    assert "16 pages of 4 positions, at most 32 for a user" in _text(request, report)
    with pytest.raises(UsageError, match=r"has 3 pages of 4 tokens; .* need 6"):
        generated(replace(request, pages=3))


def test_lengths_go_down_to_half():
    assert prompt_lengths(32, 1) == (32,)
    assert prompt_lengths(32, 4) == (32, 28, 24, 20)
    assert prompt_lengths(1, 3) == (1, 1, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--recipe", "soup"], "unknown recipe 'soup'"),
        (["--device", "abacus"], "abacus"),
        (["--set", "precision=none"], "precision"),
        (["--pages", "8"], "--paged"),
        (["--paged", "--page-size", "0"], "--page-size"),
        (["--recipe", "performance", "--device", "cpu"], "Leave it out"),
    ],
)
def test_wrong_words_are_refused_before_any_work(script, words, said, capsys):
    assert main(["generate", str(script), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_verb_plans_without_weights(script, capsys):
    assert main(["generate", str(script), "--dry-run", "--prompt-length", "8", "--new-tokens", "4", "--json"]) == 0
    [model] = json.loads(capsys.readouterr().out)["models"]
    assert model["model"] == "speaks (GPT2LMHeadModel)"
    assert [phase["name"] for phase in model["phases"]] == ["prefill 32", "decode"]
    silent = script.with_name("silent.py")
    silent.write_text("print('nothing to call')\n")
    assert main(["generate", str(silent)]) == 1
    assert capsys.readouterr().err.count("calls no language model") == 1, "said once"


def test_examples_name_models_that_there_are():
    for verb in (generate.verb, tokens.verb):
        models = re.findall(r"proveout (?:generate|tokens) (\S+/\S+)", verb.__doc__ or "")
        assert models
        assert all((corpora_folder() / f"{model}.py").is_file() for model in models)
