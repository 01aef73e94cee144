"""`proveout compare` with real processes: eager against itself, two devices, a script of two models."""

from __future__ import annotations

import json

import pytest

from proveout import cli

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).eval()
model(torch.randn(4, 64))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_model_is_compared_with_itself_in_fresh_processes(script, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that spin for a core which another test has stall for long
    words = ["compare", f"{script}@eager", f"{script}@eager", "--pairs", "2", "--iterations", "50", "--json"]
    assert cli.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pairs"], told["calls_per_run"], told["kind"]) == (2, 50, "measured")
    assert told["ratio"]["value"] is None, "no ratio without an interval"
    assert 0.1 < told["median_ms"]["a"] / told["median_ms"]["b"] < 10
    assert told["ratio"]["reason"] == "an interval needs 3 pairs of runs; there are 2"


def test_modelled_chips_are_compared_by_their_models(script, capsys):
    assert cli.main(["compare", f"{script}@sim", f"{script}@sim,trace=true", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["pairs"]) == ("modelled", 1)
    assert told["ratio"]["value"] < 1, "a replayed trace has no dispatch"


def test_a_script_of_two_models_asks_for_one(tmp_path, capsys):
    path = tmp_path / "two.py"
    path.write_text(SCRIPT + "torch.nn.Linear(8, 8)(torch.randn(1, 8))\n")
    assert cli.main(["compare", str(path), str(path)]) == 2
    assert "holds 2 models; choose one: two.py::" in capsys.readouterr().err
