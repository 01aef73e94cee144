"""`proveout perf` in processes of its own: a script, and whatever Programs a command runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_here import proveout_here

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PROVEOUT = str(Path(sys.executable).parent / "proveout")

COMMAND = """
import torch

def test_model():
    model = torch.compile(torch.nn.Linear(64, 32).eval(), backend="proveout", options={"device": "sim:p150"})
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(8, 64))
"""


def run(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PROVEOUT_CACHE": str(cwd / "cache"), **environment}
    return subprocess.run([PROVEOUT, "perf", *words], cwd=cwd, capture_output=True, text=True, timeout=300, env=env)


def test_a_script_gets_its_sheet_and_both_folders(tmp_path):
    done = run("attention.py", "--search-dir", "selftest", "--trace", "-o", "out", cwd=tmp_path, COLUMNS="100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("attention on sim:n150: 8×8 cores at 1 GHz, traced. All times are modelled")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "SDPAOperation" in done.stdout
    assert "What would save time" in done.stdout
    assert len(list((tmp_path / "out" / "performance").glob("*/ops_perf_results_*.csv"))) == 1
    assert (tmp_path / "out" / "memory" / "attention" / "db.sqlite").exists()


def test_two_models_have_a_folder_each_and_one_document(tmp_path):
    done = proveout_here("perf", "two_models.py", "--search-dir", "selftest", "--json", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sheets = json.loads(done.stdout)["sheets"]
    assert len(sheets) == 2
    assert len({sheet["files"]["csv"] for sheet in sheets}) == 2
    for sheet in sheets:
        assert (tmp_path / sheet["files"]["csv"]).exists()
        assert sheet["kind"] == "modelled"


def test_the_programs_of_a_command_are_the_sheet(tmp_path):
    (tmp_path / "test_it.py").write_text(COMMAND)
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider test_it.py"
    for _ in range(2):  # what was recorded before is gone
        done = run("-n", "linear", "-c", command, "--json", "-o", "out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (sheet,) = json.loads(done.stdout)["sheets"]
        assert (sheet["name"], sheet["device"]) == ("linear", "sim:p150")
        assert [program["calls"] for program in sheet["programs"]] == [3]
    assert "1 passed" in done.stderr


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("exit 3", "the command exited with code 3 before it ran a Program"),
        ("true", "ran no Program on a modelled chip"),
    ],
)
def test_a_command_without_programs_is_one_sentence_and_exit_1(tmp_path, command, sentence):
    done = run("-n", "x", "-c", command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr


def test_a_folder_that_cannot_be_written_is_exit_3(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("-n", "x", "-c", "true", "-o", "file/out", cwd=tmp_path)
    assert done.returncode == 3
    assert "Choose another folder with -o DIR" in done.stderr


def test_a_model_that_fails_is_told_and_exit_1(tmp_path):
    done = proveout_here("perf", "broken.py", "--search-dir", "selftest", "-o", "out", cwd=tmp_path)
    assert "shapes cannot be multiplied" in done.stderr
    assert done.stdout == ""
