"""Claims about running a model beside eager: every backend is compared, and a failure comes back as a sentence."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from proveout import cli, reference
from proveout.capture import Found
from proveout.capture.from_transformers import build, inputs_of
from proveout.coding import to_json
from proveout.errors import UsageError
from proveout.reference import Request, beside_eager, canonical
from proveout.types import Settings, Workload


def found(model: nn.Module) -> Found:
    return Found(Workload("tiny", "tiny.py", "ab12", parameters=15), model.eval(), (torch.ones(2, 4),), {})


def ran(model: nn.Module, backend: str, **settings: float):
    return beside_eager(found(model), backend, "sim:n150", Settings(precision="bfloat16", **settings), iterations=2)


def test_the_stat_backend_gives_eager_s_numbers_and_counts_ops():
    result = ran(nn.Linear(4, 3), "stat")
    assert result.passed
    assert [c.max_abs for c in result.comparisons] == [0]
    assert dict(result.ops) == {"aten.addmm.default": 1, "aten.t.default": 1}
    assert {t.kind for t in result.timings} == {"measured"}


def test_the_proveout_backend_is_close_and_has_a_modelled_time_beside_the_measured():
    result = ran(nn.Linear(4, 3), "proveout")
    assert result.passed
    assert result.ops_on_host == 0
    assert [(t.what, t.kind) for t in result.timings] == [
        ("eager", "measured"),
        ("backend", "measured"),
        ("device", "modelled"),
    ]


def test_outputs_that_differ_fail_with_the_reason():
    result = ran(nn.Linear(4, 3), "proveout", pcc=1.0)
    assert not result.passed
    assert "PCC" in result.reason


def test_a_model_that_raises_is_a_sentence():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("no such luck")

    assert ran(Broken(), "eager").reason == "RuntimeError: no such luck"


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


def test_a_script_without_models_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "empty.py"
    script.write_text("print('hello')\n")
    request = Request("empty", str(script), "", "eager", "sim:n150", Settings(), 1)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(to_json(request))))
    reference.main(str(tmp_path / "ran.json"))
    (one,) = json.loads((tmp_path / "ran.json").read_text())
    assert "ran no model" in one["error"]


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
