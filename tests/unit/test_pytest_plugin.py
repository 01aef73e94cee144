"""Claims about the pytest plugin: a recorded model is compiled, a wrong one fails its test, and Records are kept.

One process runs all of the sample tests: torch can be imported only once in each, which is what takes the time.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from proveout.store import Store
from proveout.types import Record

INSTALLED = any(entry.value == "proveout.pytest_plugin" for entry in entry_points(group="pytest11"))
SAMPLES = """
import pytest, torch
from torch import nn

X = torch.randn(8, 8)

class Wrong(nn.Module):
    def forward(self, x):
        return x + 1 if torch.compiler.is_compiling() else -x

class Adds(nn.Module):
    def forward(self, x, y):
        return x + y

class Two(nn.Module):
    def forward(self, x):
        return {"a": x + 1, "b": x * 2}

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, x):
        return self.step(x)

    def generate(self, x):
        for _ in range(3):
            x = self(x)
        return x

def test_tuple(record_property):
    record_property("model_name", "adds")
    inputs = (X, X[0])
    record_property("proveout", (Adds(), inputs, Adds()(*inputs)))

def test_dict_and_the_original_key(record_property):
    record_property("model_name", "named")
    model, x = nn.Linear(8, 3), X
    record_property("torch_ttnn", (model, {"input": x}, model(input=x)))

def test_generate(record_property):
    record_property("model_name", "counts")
    model, x = Counts(), torch.randn(2, 4)
    record_property("torch_ttnn", (model.generate, x, model.generate(x)))

def test_picked_output(record_property):
    record_property("proveout", (Two(), X, Two()(X)["a"]))

def test_wrong(record_property):
    record_property("proveout", (Wrong(), X, -X))

@pytest.mark.compilation_xfail(reason="known")
def test_known(record_property):
    record_property("model_name", "known")
    record_property("proveout", (Wrong(), X, -X))

@pytest.mark.compilation_xfail
def test_not_strict(record_property):
    record_property("proveout", (nn.Tanh(), X, X.tanh()))

@pytest.mark.compilation_xfail(strict=True)
def test_strict(record_property):
    record_property("proveout", (nn.Tanh(), X, X.tanh()))

def test_that_fails_before(record_property):
    record_property("model_name", "early")
    assert 1 + 1 == 3

def test_nonsense(record_property):
    record_property("proveout", "a model")

def test_without_a_model(record_property):
    record_property("speed", 3)
"""


@dataclass(frozen=True)
class Session:
    """What one run of the samples left behind."""

    folder: Path
    output: str
    outcomes: dict[str, str]
    """By test: passed, failed or skipped (as xfailed is in JUnit's XML)."""
    records: dict[str, Record]


def run_samples(folder: Path, *arguments: str) -> Session:
    (folder / "test_samples.py").write_text(SAMPLES)
    plugin = () if INSTALLED else ("-p", "proveout.pytest_plugin")
    options = ("-p", "no:cacheprovider", "--strict-markers", "--junitxml", "junit.xml")
    command = [sys.executable, "-m", "pytest", *plugin, *options, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    cases = ElementTree.parse(folder / "junit.xml").iter("testcase")
    kinds = {case.get("name", ""): {part.tag for part in case} - {"properties"} for case in cases}
    outcomes = {
        name: "failed" if "failure" in tags else "xfailed" if "skipped" in tags else "passed"
        for name, tags in kinds.items()
    }
    found, bad = Store(folder / "out" / "cache").records()
    assert bad == []
    return Session(folder, done.stdout, outcomes, {record.job.workload.name: record for record in found})


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return run_samples(tmp_path_factory.mktemp("samples"), "--proveout-report", "out")


@pytest.mark.slow
def test_recorded_models_become_records(session: Session) -> None:
    assert {name: record.status for name, record in session.records.items()} == {
        "adds": "passed",
        "named": "passed",
        "counts": "passed",
        "test_picked_output": "passed",
        "test_wrong": "failed",
        "known": "expected_failure",
        "test_not_strict": "passed",
        "test_strict": "failed",
        "early": "failed",
    }
    assert session.records["adds"].job.workload.class_name == "Adds"
    assert [t.kind for t in session.records["named"].timings] == ["modelled", "measured", "measured"]


@pytest.mark.slow
def test_the_session_ends_with_the_report(session: Session) -> None:
    assert {p.name for p in (session.folder / "out").iterdir()} >= {"report.html", "report.md", "report.csv"}
    assert "proveout: report in out/report.html" in session.output


@pytest.mark.slow
def test_generate_is_compiled_as_a_whole(session: Session) -> None:
    record = session.records["counts"]
    assert record.job.workload.class_name == "Counts.generate"
    assert sum(op.aten == "aten.addmm.default" for op in record.coverage.ops) == 3


@pytest.mark.slow
def test_a_compiled_model_that_differs_fails_its_test_unless_that_is_expected(session: Session) -> None:
    assert session.outcomes["test_wrong"] == "failed"
    assert "compiled test_wrong: output" in session.output
    assert session.outcomes["test_known"] == "xfailed"


@pytest.mark.slow
def test_a_compiled_model_that_passes_against_expectation_fails_only_where_strict(session: Session) -> None:
    assert session.outcomes["test_not_strict"] == "passed"
    assert session.outcomes["test_strict"] == "failed"
    assert "was expected to fail, but passed: remove the marker compilation_xfail" in session.output


@pytest.mark.slow
def test_a_test_that_fails_before_its_model_is_compiled_is_recorded_with_the_reason(session: Session) -> None:
    assert "before its model was compiled: AssertionError" in session.records["early"].reason


@pytest.mark.slow
def test_outputs_that_the_test_picked_are_compared_with_eager_s_own(session: Session) -> None:
    compared = [c.name for c in session.records["test_picked_output"].comparisons if c.scope == "output"]
    assert compared == ["['a']", "['b']"]


@pytest.mark.slow
def test_properties_hold_the_verdict_instead_of_live_objects(session: Session) -> None:
    xml = (session.folder / "junit.xml").read_text()
    assert 'name="proveout_status" value="passed"' in xml
    assert 'name="proveout"' not in xml
    assert 'name="torch_ttnn"' not in xml


@pytest.mark.slow
def test_what_is_no_model_is_told_how_to_be_one(session: Session) -> None:
    assert session.outcomes["test_nonsense"] == "failed"
    assert "takes (model, inputs, outputs), not str" in session.output
    assert session.outcomes["test_without_a_model"] == "passed"


@pytest.mark.slow
def test_without_the_option_models_are_checked_and_nothing_is_written(tmp_path: Path) -> None:
    session = run_samples(tmp_path, "-k", "tuple or wrong")
    assert session.outcomes == {"test_tuple": "passed", "test_wrong": "failed"}
    assert not (tmp_path / "out").exists()


def test_loading_the_plugin_does_not_import_torch() -> None:
    code = "import sys, proveout.pytest_plugin; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
