"""`explain`, `minimize`, `tune` on a model that is further off than it should be, each once in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_here import proveout_here
from proveout.devices.registry import devices

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
START = "import sys; from proveout.cli import main; sys.exit(main())"
SCRIPT = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 32)).eval()
model(torch.randn(32, 64))
"""
COARSE = ("--set", "weights=bfloat4_b", "--pcc", "0.9999")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(SCRIPT)
    return tmp_path


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PROVEOUT_CACHE": str(cwd / "cache")}
    command = [sys.executable, "-c", START, *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, env=env)


def test_explain_names_an_op_and_leaves_json_and_a_picture(folder: Path):
    done = run("explain", "net.py", *COARSE, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (model,) = json.loads(done.stdout)["models"]
    (graph,) = model["graphs"]
    assert graph["contributions"][0]["op"] == "ttnn.linear"
    assert sum(part["share"] for part in graph["contributions"]) == pytest.approx(graph["whole"])
    (picture,) = model["pictures"]
    assert Path(picture).read_text().startswith("<svg")
    shown = proveout_here("explain", "net.py", *COARSE, "--against", "weights=same", cwd=folder)
    assert "of the difference" in shown.stdout
    other = proveout_here("explain", "net.py", *COARSE, "--set", "numerics=faithful", "--against", "cpu", cwd=folder)
    assert "on sim:n150" in other.stdout or "sim:n150)" in other.stdout, other.stderr
    assert "do not run the same Steps" in " ".join(other.stdout.split())
    absent = proveout_here("explain", "net.py", "--against", "cuda", cwd=folder)
    if not devices()["cuda"].available:
        assert absent.returncode == 3
        assert absent.stderr.count("\n") == 1
        assert "there is no NVIDIA GPU" in absent.stderr
    wrong = proveout_here("explain", "net.py", "--against", "cpu", "--against", "numerics=faithful", cwd=folder)
    assert wrong.returncode == 1
    assert "of the difference" not in wrong.stdout, "what another question left is not told"
    assert "device 'cpu' has its own" in wrong.stderr
    refused = proveout_here("explain", "net.py", "--against", "cpu", "--against", "sim:p150", cwd=folder)
    assert refused.returncode == 2
    assert "--against takes one device" in refused.stderr


def test_minimize_leaves_a_file_that_fails_alone_and_says_so(folder: Path):
    done = run("minimize", "net.py", *COARSE, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (small,) = json.loads(done.stdout)["models"]
    assert small["verified"]
    assert small["failure"]["kind"] == "pcc"
    assert len(small["ops"]) <= 3
    (folder / "none.py").write_text("print('no model')")
    for absent in ("none.py", "nowhere.py"):
        assert proveout_here("minimize", absent, "-o", "empty", cwd=folder).returncode in (1, 2)
        assert not (folder / "empty").exists()
    passes = proveout_here("minimize", "net.py", cwd=folder)
    assert passes.returncode == 0
    assert "it does not fail" in passes.stderr


def test_tune_leaves_a_certificate_that_holds_and_one_that_was_changed_does_not(folder: Path):
    done = run("tune", "net.py", "--pcc", "0.999", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["models"]
    assert found["verified_ns"] <= found["greedy_ns"] <= found["start_ns"]
    assert min(found["verified_pcc"]) >= 0.999
    held = proveout_here("tune", "net.py", "--check", found["file"], cwd=folder)
    assert held.returncode == 0, held.stderr
    assert "holds" in held.stdout
    text = Path(found["file"]).read_text().replace('"verified_ns": ', '"verified_ns": 1')
    (folder / "changed.json").write_text(text)
    changed = proveout_here("tune", "net.py", "--check", "changed.json", cwd=folder)
    assert changed.returncode == 1
    assert "does NOT hold" in changed.stdout
    assert "changed after it was written" in changed.stdout


def test_tune_finds_a_cure_and_refuses_what_makes_no_sense(folder: Path):
    cured = proveout_here("tune", "net.py", *COARSE, "--cure", cwd=folder)
    assert cured.returncode == 0, cured.stderr
    assert "cure it: PCC" in cured.stdout
    for words, sentence in (
        (("--cure", "--check", "x.json"), "choose one"),
        (("--check", "nowhere.json"), "cannot be read as a certificate"),
        (("--device", "cpu"), "has no modelled chip"),
        (("--budget-minutes", "31"), "--budget-minutes"),
    ):
        refused = proveout_here("tune", "net.py", *words, cwd=folder)
        assert refused.returncode == 2
        assert sentence in refused.stderr
