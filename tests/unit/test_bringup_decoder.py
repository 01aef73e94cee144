"""Bring-up's stage for decoders: Programs, tokens, times and memory of one that generates; a sentence for others."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("transformers")

from proveout.bringup import BringupJob, Folder
from proveout.bringup.data import DecoderData
from proveout.bringup.decoder import is_causal_model
from proveout.bringup.flow import run_stages
from proveout.bringup.stages import find_stage
from proveout.capture import discover
from proveout.coding import to_json
from proveout.types import Settings

SCRIPT = """# labels: name::speaks
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_embd=64, n_layer=1, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=2)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():
    model(torch.randint(0, 64, (1, 8)), use_cache=False)
"""
WANTED = [find_stage(name) for name in ("decoder", "report")]


@pytest.fixture
def brought_up(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / "cache"))

    def bring_up(text):
        script = tmp_path / "speaks.py"
        script.write_text(text)
        (workload,) = discover(script).workloads
        folder = Folder(tmp_path / "out")
        run_stages(BringupJob(workload, settings=Settings(precision="bfloat16"), tests=False), folder, WANTED)
        return folder

    return bring_up


@pytest.mark.slow
def test_a_decoder_s_folder_has_its_programs_tokens_times_and_memory(brought_up):
    folder = brought_up(SCRIPT)
    stage = folder.outcome("decoder")
    assert stage.status == "passed", stage
    assert {name for name, _ in stage.files} == {"programs/prefill_32.txt", "programs/decode.txt", "decoder.json"}
    data = folder.data(DecoderData)
    one, many = data.rows
    assert (one.users, many.users, one.positions) == (1, 32, 64)
    for row in (one, many):
        assert 0 < row.tpot_interval_ns[0] < row.tpot_ns < row.tpot_interval_ns[1]
        assert row.slowest < row.tokens_per_s < row.quickest
        assert row.weight_bytes > 0
    assert many.cache_bytes == 32 * one.cache_bytes == 32 * 64 * 2 * 64 * 2  # users, positions, both, size, bytes
    assert one.longest_context == 64, "the model knows no more"
    assert one.largest_batch > 1000
    assert data.agreement.steps == 32
    assert data.agreement.top5 >= 0.95
    page, text = (folder.path / name for name in ("report.html", "report.md"))
    assert "longest context" in page.read_text()
    assert f"top-1 {data.agreement.top1:.1%}" in text.read_text()
    assert json.loads((folder.path / "decoder.json").read_text())["rows"] == to_json(data.rows)


@pytest.mark.slow
def test_what_generates_nothing_is_passed_by_with_a_sentence(brought_up):
    folder = brought_up("import torch\n\ntorch.nn.Linear(4, 4)(torch.randn(2, 4))\n")
    stage = folder.outcome("decoder")
    assert (stage.status, stage.applies, stage.is_done) == ("skipped", False, True)
    assert stage.headline == "Linear is not a causal language model of transformers"
    assert "0 of 11 stages done" in folder.outcome("report").headline


def test_a_masked_language_model_is_no_decoder():
    import transformers

    sizes = dict(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    masked = transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
    assert not is_causal_model(masked)
    assert is_causal_model(transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)))
