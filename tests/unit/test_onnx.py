"""ONNX Runtime, the real one: a file as it is, and a model exported to it."""

from __future__ import annotations

import json

import pytest
import torch

from proveout.cli import main

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


def test_a_broken_file_fails_with_what_the_runtime_says(folder, capsys):
    (folder / "bad.onnx").write_text("this is no protobuf")
    row = row_of(["benchmark", "bad.onnx"], capsys)
    assert (row["exit"], row["status"]) == (1, "failed")
    assert "Protobuf parsing failed" in row["reason"]


def test_a_device_that_it_would_not_run_on_is_refused(folder, capsys):
    (folder / "any.onnx").write_bytes(b"")
    assert main(["benchmark", "any.onnx", "--device", "sim:p150"]) == 2
    assert "ONNX Runtime runs any.onnx on the CPU; leave --device sim:p150 out." in capsys.readouterr().err
