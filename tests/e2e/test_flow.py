"""The command line from end to end, in processes of its own: the corpus, an interrupt, the wheel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PROVEOUT = [str(Path(sys.executable).parent / "proveout")]
BENCHMARK = ("benchmark", "--duration", "0.3")
ROOT = Path(__file__).parents[2]


def run(*arguments, cwd, program=PROVEOUT, **more):
    return subprocess.run(
        [*program, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300, **more
    )


def test_the_selftest_corpus_passes_and_the_broken_one_is_expected(tmp_path):
    done = run(*BENCHMARK, "--all", "--search-dir", "selftest", "--cache-dir", "c", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["records"]
    status = {row["model"]: row["status"] for row in rows}
    assert status.pop("broken") == "expected_failure"
    assert set(status.values()) == {"passed"}
    assert {"linear", "conv", "attention", "digits", "two_models::Encoder", "dynamic_shapes@4x64"} <= set(status)
    broken = next(row for row in rows if row["model"] == "broken")
    assert "shapes cannot be multiplied" in broken["reason"]
    for row in rows:
        if row["status"] == "passed":
            assert (row["original_kind"], row["compiled_kind"]) == ("measured", "modelled")
            assert row["pcc"] > 0.99
    digits = next(row for row in rows if row["model"] == "digits")
    assert digits["accuracy"] > 90

    report = run("report", "--cache-dir", "c", "-o", "out", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "expected failure" in (tmp_path / "out" / "report.html").read_text()

    again = run(*BENCHMARK, "--all", "--search-dir", "selftest", "--cache-dir", "c", "--json", cwd=tmp_path)
    rows = json.loads(again.stdout)["records"]
    assert {row["from_cache"] for row in rows} == {True}


def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(tmp_path):
    scripts = [f"{name}.py" for name in "abcdef"]
    for script in scripts:
        (tmp_path / script).write_text((ROOT / "corpora" / "selftest" / "linear.py").read_text())
    command = [*PROVEOUT, *BENCHMARK, *scripts, "--cache-dir", "cache"]
    child = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "cache").glob("*/*.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in errors
    assert "run the same command to continue" in errors
    kept = len(list((tmp_path / "cache").glob("*/*.json")))
    assert 1 <= kept < len(scripts)
    assert not _processes_below(tmp_path)

    done = run(*BENCHMARK, *scripts, "--cache-dir", "cache", "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)["records"]
    assert [row["status"] for row in rows] == ["passed"] * len(scripts)
    assert sum(row["from_cache"] for row in rows) == kept


def _heed_interrupts() -> None:
    """What a shell starts in the background ignores Ctrl-C, these tests included."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _processes_below(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "cwd") == str(folder):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_the_wheel_works_by_itself_corpora_included(tmp_path):
    built = run(
        "-m", "build", "--wheel", "--no-isolation", "-o", tmp_path, ROOT, cwd=tmp_path, program=[sys.executable]
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    held = zipfile.ZipFile(wheel)
    held.extractall(site)
    weights = [name for name in held.namelist() if name.endswith(".safetensors")]
    assert weights == ["proveout/app/weights/digits/model.safetensors"]
    assert wheel.stat().st_size < 4e6
    libraries = next(p for p in sys.path if p.endswith("site-packages"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), libraries]), "PROVEOUT_CACHE": str(tmp_path)}
    program = [sys.executable, "-S", "-c", "import sys; from proveout.cli import main; sys.exit(main())"]
    arguments = ("check", "linear.py", "--search-dir", "selftest", "--json")
    done = run(*arguments, cwd=tmp_path, program=program, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)["records"]
    assert row["status"] == "passed"
    assert str(site) in row["script"]


@pytest.mark.whole  # tests/corpora runs samples of every corpus alone
def test_every_selftest_script_runs_alone():
    for script in sorted((ROOT / "corpora" / "selftest").glob("*.py")):
        done = run(script, cwd=ROOT, program=[sys.executable])
        assert (done.returncode == 0) == (script.stem != "broken"), f"{script}: {done.stderr[-500:]}"
