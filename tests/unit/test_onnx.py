"""ONNX Runtime, the real one: a file as it is, and a model exported to it."""

from __future__ import annotations

import json

import pytest
import torch

from proveout.capture import LiveModel
from proveout.cli import main
from proveout.runtimes import export_onnx, open_onnx
from proveout.types import Workload

pytest.importorskip("onnxruntime", reason="needs the extra `onnx`")
pytest.importorskip("onnxscript", reason="needs the extra `onnx`")
pytestmark = pytest.mark.slow
SCRIPT = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
with torch.no_grad():
    model(torch.randn(2, 8))
"""


def row_of(words, capsys) -> dict:
    code = main([*words, "--json"])
    (found,) = json.loads(capsys.readouterr().out)["records"]
    return {**found, "exit": code}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp.py").write_text(SCRIPT)
    return tmp_path


def test_an_onnx_file_runs_as_it_is_and_claims_no_more(folder, capsys):
    program = torch.onnx.export(torch.nn.Linear(8, 4).eval(), (torch.randn(2, 8),), dynamo=True, verbose=False)
    program.save(str(folder / "linear.onnx"))
    row = row_of(["benchmark", "linear.onnx", "--iterations", "5"], capsys)
    assert (row["exit"], row["status"], row["device"], row["precision"]) == (0, "passed", "cpu", "model")
    assert (row["compiled_kind"], row["parameters"], row["pcc"]) == ("measured", None, None)


def test_a_model_is_exported_checked_against_eager_and_timed(folder, capsys):
    row = row_of(["benchmark", "mlp.py", "--runtime", "ort", "--iterations", "5"], capsys)
    assert (row["exit"], row["status"], row["device"]) == (0, "passed", "cpu")
    assert row["pcc"] > 0.9999
    assert row["compiled_kind"] == row["original_kind"] == "measured"


CACHED = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=50, bos_token_id=0, eos_token_id=0)
GPT2LMHeadModel(config).eval()(torch.arange(8)[None])
"""


def test_a_model_that_gives_its_cache_is_exported_with_keys_and_values_as_outputs(folder, capsys):
    """As language models do unless told otherwise; all of MLAgility's call them so."""
    (folder / "gpt2.py").write_text(CACHED)
    row = row_of(["benchmark", "gpt2.py", "--runtime", "ort", "--iterations", "5"], capsys)
    assert (row["exit"], row["status"]) == (0, "passed")
    assert row["pcc"] > 0.9999


class Held:
    def __init__(self, keys):
        self.keys = keys


class GivesAnObject(torch.nn.Module):
    def forward(self, x):
        return {"doubled": x * 2, "held": [Held(x + 1), Held(x.sum())], "none": None}


@pytest.mark.parametrize("opset", [None, 17])
def test_outputs_inside_of_objects_are_in_the_file_in_their_order(tmp_path, opset):
    x = torch.randn(2, 3)
    captured = LiveModel(Workload("m", "m.py", "m"), GivesAnObject().eval(), (x,), {})
    session = open_onnx(export_onnx(captured, tmp_path, opset))
    results = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for ours, theirs in zip(results, (x * 2, x + 1, x.sum()), strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs)


def test_what_cannot_be_exported_is_told_in_one_sentence_of_pytorchs(folder, capsys):
    branch = SCRIPT.replace("model(torch.randn(2, 8))", "Branch(model).eval()(torch.randn(2, 8))")
    cls = """
class Branch(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        y = self.inner(x)
        return y if y.sum() > 0 else -y
"""
    (folder / "branch.py").write_text(branch.replace("\ntorch.manual_seed", f"{cls}\ntorch.manual_seed"))
    row = row_of(["benchmark", "branch.py", "--runtime", "ort"], capsys)
    assert (row["exit"], row["status"]) == (1, "failed")
    assert row["reason"].startswith("PyTorch cannot export the model to ONNX: Could not guard on data-dependent")
    assert "\n" not in row["reason"]


def test_a_broken_file_fails_with_what_the_runtime_says(folder, capsys):
    (folder / "bad.onnx").write_text("this is no protobuf")
    row = row_of(["benchmark", "bad.onnx"], capsys)
    assert (row["exit"], row["status"]) == (1, "failed")
    assert "Protobuf parsing failed" in row["reason"]


def test_a_device_that_it_would_not_run_on_is_refused(folder, capsys):
    (folder / "any.onnx").write_bytes(b"")
    assert main(["benchmark", "any.onnx", "--device", "sim:p150"]) == 2
    assert "ONNX Runtime runs any.onnx on the CPU; leave --device sim:p150 out." in capsys.readouterr().err
