"""Every door that times a model leaves a Record whose timings have their interval and their verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import proveout
from proveout import cli
from proveout.api import benchmark_model
from proveout.app import worker
from proveout.app.tasks import Inputs, TaskRequest
from proveout.cli.verbs import compare, run
from proveout.clock import loops
from proveout.clock.timing import MOST_KEPT, judged
from proveout.clock.timing import kept as thinned
from proveout.columns.table import row
from proveout.columns.words import numbers
from proveout.report.tables.markdown import render_model
from proveout.store import Store
from proveout.types import Record, Timing

CALLS = 12
SCRIPT = """import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU())
model(torch.ones(4, 32))
"""


def sound(record: Record) -> dict[str, str]:
    """Its timings' names and kinds, each with what it must have."""
    assert record.timings
    for timing in record.timings:
        assert timing.samples_ns, timing
        assert timing.verdict in ("steady", "unsteady", "too few", "predicted"), timing
        assert timing.kind == "modelled" or timing.verdict != "predicted", timing
        assert timing.interval_ns is not None or len(timing.samples_ns) < 10, timing
        assert timing.verdict in ("steady", "predicted") or timing.why, timing
    return {timing.what: timing.kind for timing in record.timings}


def kept(folder: Path | None = None) -> Record:
    records, bad = Store(folder).records()
    assert bad == []
    [record] = records
    return record


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 32), nn.ReLU()).eval()


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls each use of the one loop made."""
    calls: list[int] = []
    measure = loops.measure

    def counted(*args: Any, **more: Any) -> loops.LoopResult:
        ran = measure(*args, **more)
        calls.append(ran.calls)
        return ran

    monkeypatch.setattr(loops, "measure", counted)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_live_model_of_the_api(model: nn.Module, looped: list[int], device: str) -> None:
    told = sound(benchmark_model(model, torch.ones(4, 32), device=device, iterations=CALLS).record)
    assert told["compiled"] == ("measured" if device == "cpu" else "modelled")
    assert CALLS in looped


def test_of_more_samples_than_a_record_holds_all_are_judged() -> None:
    """Every third call is slow: evenly spaced ones show none of those."""
    calls = np.tile(np.array([1_000, 1_000, 9_000], dtype=np.int64), MOST_KEPT)
    samples, conditions = thinned(calls)
    assert (len(samples), dict(conditions)["kept"]) == (20_000, "one in 3 of 60000 samples")
    few = Timing("infer", "measured", "cpu", samples, conditions)
    assert "33% of the calls take 9 times as long" in judged(few, calls).why
    assert "33%" not in judged(few).why


def test_a_dataset_that_is_evaluated(model: nn.Module, looped: list[int]) -> None:
    items = [(torch.ones(4, 32), torch.zeros(4)) for _ in range(CALLS)]
    [report] = proveout.evaluate(model, items, "accuracy")
    record = kept()
    assert sound(record)["eager"] == "measured"
    assert record.job.do == ("evaluate",)
    assert record.report == json.loads(json.dumps(report))
    assert looped == [CALLS]


def test_a_dataset_on_a_chip_keeps_modelled_and_measured_apart(model: nn.Module) -> None:
    items = [(torch.ones(4, 32), torch.zeros(4)) for _ in range(CALLS)]
    proveout.evaluate(model, items, "accuracy", device_type="sim")
    told = sound(kept())
    assert (told["simulation"], told["compiled"]) == ("measured", "modelled")


@pytest.mark.slow
def test_a_generation_and_its_tokens(looped: list[int]) -> None:
    [report] = proveout.benchmark_generation(lambda: iter(range(5)), runs=CALLS, model_name="words")
    record = kept()
    assert sound(record) == dict.fromkeys(("generation", "first token", "token gap"), "measured")
    assert (record.job.do, record.job.workload.name) == (("generate",), "words")
    assert record.report == json.loads(json.dumps(report))
    assert looped == [1, CALLS]


@pytest.mark.slow
@pytest.mark.parametrize(("device", "kind"), [("cpu", "measured"), ("sim", "modelled")])
def test_the_command_generate(tmp_path: Path, device: str, kind: str) -> None:
    words = ["transformers/gpt2", "--small", "--prompt-length", "8", "--new-tokens", str(CALLS + 1)]
    assert cli.main(["generate", *words, "--device", device, "--cache-dir", str(tmp_path)]) == 0
    record = kept(tmp_path)
    times = sound(record)
    assert (times["first token"], times["time per token"]) == (kind, kind)
    assert len(record.timing("time per token" if device == "cpu" else "simulation").samples_ns) == CALLS
    assert record.report["equal_tokens"] == CALLS + 1
    flat = row(record)
    assert (flat.load, flat.l1_peak_bytes) == (f"b1 8+{CALLS + 1} tokens", None), "no words of a server's, no made-up 0"
    packed = replace(record, job=replace(record.job, settings=replace(record.job.settings, cache="bfloat8_b")))
    assert numbers(row(packed)) == numbers(flat).replace(flat.precision, f"{flat.precision} bfloat8_b cache")
    assert "No graph was captured" not in render_model(record, flat)


@pytest.mark.slow
def test_what_is_not_to_be_kept_is_not(model: nn.Module) -> None:
    proveout.evaluate(model, [(torch.ones(4, 32), torch.zeros(4))], "accuracy", keep=False)
    proveout.benchmark_generation(lambda: iter(range(5)), runs=1, keep=False)
    assert Store().records() == ([], [])


@pytest.mark.slow
def test_a_model_under_load(model: nn.Module) -> None:
    proveout.benchmark(
        model, torch.ones(4, 32), n_models=1, workers_per_model=1, multiprocess=False, verbosity=0, duration=0.2
    )
    assert sound(kept())["eager"] == "measured"


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "sim:n150"])
def test_a_generation_of_the_app(tmp_path: Path, device: str) -> None:
    inputs = Inputs(prompt="Once", length=12, new_tokens=2)
    request = TaskRequest(
        "text", inputs, device=device, iterations=CALLS, enough_s=0, cache_dir=str(tmp_path / "store")
    )
    worker.run(request, tmp_path)
    told = sound(kept(tmp_path / "store"))
    assert told["first token"] == told["compiled"]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_the_command_benchmark(tmp_path: Path, device: str) -> None:
    (tmp_path / "net.py").write_text(SCRIPT)
    words = [str(tmp_path / "net.py"), "--device", device, "--iterations", str(CALLS)]
    assert cli.main(["benchmark", *words, "--cache-dir", str(tmp_path / "store")]) == 0
    assert {"eager", "compiled"} <= sound(kept(tmp_path / "store")).keys()


@pytest.mark.slow
def test_the_command_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[Record] = []
    prove_named = run.prove_named
    monkeypatch.setattr(run, "prove_named", lambda *a: ran.extend(found := prove_named(*a)) or found)
    words = ["--model", "linear", "--backend", "proveout", "--iterations", str(CALLS), "--json"]
    assert cli.main(["run", *words]) == 0
    [record] = ran
    assert sound(record)["compiled"] == "modelled"
    [shown] = json.loads(capsys.readouterr().out)["runs"]
    assert all(timing["verdict"] != "not judged" for timing in shown["timings"])


@pytest.mark.slow
def test_the_command_compare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Bring-up's Record is looked at in test_bringup."""
    (tmp_path / "net.py").write_text(SCRIPT)
    ran: list[Record] = []
    prove = compare.prove
    monkeypatch.setattr(compare, "prove", lambda *a, **k: ran.append(record := prove(*a, **k)) or record)
    sides = [f"{tmp_path / 'net.py'}@sim", f"{tmp_path / 'net.py'}@sim,math_fidelity=LoFi"]
    assert cli.main(["compare", *sides, "--cache-dir", str(tmp_path / "store")]) == 0
    assert [sound(record)["compiled"] for record in ran] == ["modelled"] * 2
