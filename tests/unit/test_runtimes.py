"""Claims about running a model beside eager: every backend is compared, and a failure comes back as a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from proveout import cli
from proveout.capture import LiveModel
from proveout.capture.from_transformers import build, inputs_of
from proveout.coding import to_json
from proveout.errors import UsageError
from proveout.prove import prove_here
from proveout.runtimes import RUNTIMES, Candidate, RuntimeRow, canonical
from proveout.stages import STAGES
from proveout.store import Store
from proveout.types import Job, Record, Runtime, Settings, Workload


def ran(model: nn.Module, runtime: Runtime, **settings: float) -> Record:
    workload = Workload("tiny", "tiny.py", "ab12", parameters=15)
    chosen = Settings(precision="bfloat16", **settings)  # type: ignore[arg-type]
    job = Job(workload, "sim:n150", chosen, ("run", "benchmark"), iterations=2, warmup=1, runtime=runtime)
    return prove_here(job, LiveModel(workload, model.eval(), (torch.ones(2, 4),), {}))


@pytest.mark.slow
def test_the_stat_backend_gives_eager_s_numbers_and_counts_ops():
    result = ran(nn.Linear(4, 3), "stat")
    assert result.status == "passed"
    assert [c.max_abs for c in result.comparisons] == [0]
    assert sorted(op.aten for op in result.coverage.ops) == ["aten.addmm.default", "aten.t.default"]
    assert {t.kind for t in result.timings} == {"measured"}


@pytest.mark.slow
def test_the_proveout_backend_is_close_and_has_a_modelled_time_beside_the_measured():
    result = ran(nn.Linear(4, 3), "proveout")
    assert result.status == "passed"
    assert result.coverage.remain == 0
    assert [(t.what, t.kind) for t in result.timings] == [
        ("compiled", "modelled"),
        ("eager", "measured"),
        ("simulation", "measured"),
    ]


@pytest.mark.slow
def test_outputs_that_differ_fail_with_the_reason():
    result = ran(nn.Linear(4, 3), "proveout", pcc=1.0)
    assert (result.status, result.failure) == ("failed", "numerics")
    assert "PCC" in result.reason


@pytest.mark.parametrize("runtime", ["eager", "inductor", "stat", "proveout"])
def test_a_model_that_raises_is_a_sentence(runtime: Runtime):
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("no such luck")

    assert ran(Broken(), runtime).reason == "model: RuntimeError: no such luck"


@pytest.mark.slow
def test_a_dummy_runtime_is_one_row_and_works_on_the_spine(monkeypatch: pytest.MonkeyPatch):
    def doubled(job, found, folder, after_pass):
        return Candidate(lambda *args: 2 * found.module(*args))

    monkeypatch.setitem(RUNTIMES, "dummy", RuntimeRow(doubled))
    result = ran(nn.Linear(4, 3), canonical("dummy"))
    assert (result.status, result.failure) == ("failed", "numerics")
    assert [t.what for t in result.timings] == ["eager", "compiled"]
    assert {t.verdict for t in result.timings} == {"too few"}


def test_a_dummy_stage_is_one_row_and_works_on_the_spine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(
        STAGES, "count", lambda subject, record: replace(record, accuracy=float(subject.call[0][0].sum()))
    )
    workload = Workload("tiny", "tiny.py", "ab12")
    job = Job(workload, "cpu", Settings(), ("count",))  # type: ignore[arg-type]
    record = prove_here(job, LiveModel(workload, nn.Linear(4, 3).eval(), (torch.ones(2, 4),), {}))
    assert (record.status, record.accuracy) == ("passed", 8.0)


@pytest.mark.parametrize(("given", "name"), [("torch_ttnn", "proveout"), ("torch_stat", "stat"), ("eager", "eager")])
def test_the_original_tools_names_are_accepted(given: str, name: str):
    assert canonical(given) == name


def test_an_unknown_backend_is_refused_by_name():
    with pytest.raises(UsageError, match=r"unknown backend 'inductr'.*Did you mean 'inductor'"):
        canonical("inductr")


@pytest.mark.e2e
def test_run_takes_a_model_of_the_corpora_by_its_stem(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["run", "--model", "linear", "--search-dir", "selftest", "--backend", "torch_stat", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    assert (one["model"], one["backend"], one["passed"]) == ("linear", "stat", True)
    assert all(timing["verdict"] == "too few" for timing in one["timings"])
    [record] = Store().records()[0]
    assert (record.job.runtime, record.timing("eager") is not None) == ("stat", True)
    assert to_json(record.timings) == one["timings"]


@pytest.mark.slow
def test_a_script_without_models_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "empty.py"
    script.write_text("print('hello')\n")
    assert cli.main(["run", "--model", str(script), "--backend", "eager", "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    assert "ran no model" in one["reason"]


@pytest.mark.parametrize(
    ("name", "settings", "inputs"),
    [
        ("bert", {"num_hidden_layers": 1, "hidden_size": 48, "vocab_size": 90}, {"input_ids": (1, 16)}),
        ("T5Model", {"num_layers": 1, "vocab_size": 90, "d_model": 32, "num_heads": 2, "d_kv": 16, "d_ff": 32},
         {"input_ids": (1, 16), "decoder_input_ids": (1, 16)}),
        ("vit", {"num_hidden_layers": 1, "hidden_size": 48, "image_size": 32}, {"pixel_values": (1, 3, 32, 32)}),
    ],
)  # fmt: skip
def test_transformers_models_get_the_inputs_that_they_take(name: str, settings: dict, inputs: dict):
    pytest.importorskip("transformers")
    model = build(name, settings).eval()
    made = inputs_of(model, batch_size=1, max_seq_length=16)
    assert {key: tuple(value.shape) for key, value in made.items()} == inputs
    with torch.no_grad():
        model(**made)
