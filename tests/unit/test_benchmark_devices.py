"""Benchmarks of what is compiled: modelled beside measured times, saved models, pipelines, NeuronPerf's names."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import textwrap

import pytest
import torch

import proveout
from proveout import model_index
from proveout.engine.artifact import load_compiled
from proveout.errors import DeviceError, ProveoutError, UsageError
from proveout.measure.pipeline import pipelined


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x, *, shift):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return {"out": x, "more": (x + shift, shift)}


def call():
    generator = torch.Generator().manual_seed(1)
    x, shift = (torch.randn(8, 64, generator=generator) for _ in range(2))
    return (x,), {"shift": shift}


@pytest.fixture(scope="module")
def compiled():
    return proveout.compile(Mlp().eval(), device="sim", call=call())


@pytest.fixture(scope="module")
def relu():
    return proveout.compile(torch.nn.ReLU(), torch.randn(4, 32), device="sim")


def test_a_saved_model_gives_the_same_without_its_code(compiled, tmp_path):
    args, kwargs = call()
    path = compiled.save(tmp_path / "mlp")
    saved = load_compiled(path)
    ours, theirs = saved(*args, **kwargs), compiled(*args, **kwargs)
    assert torch.equal(ours["out"], theirs["out"])
    assert all(torch.equal(a, b) for a, b in zip(ours["more"], theirs["more"]))
    assert saved.modelled_ns == compiled.modelled_ns
    assert {p.name for p in path.iterdir()} == {
        "compiled.json",
        "program",
        "weights.safetensors",
        "reference.safetensors",
    }


def test_a_saved_model_refuses_other_shapes_and_calls(compiled, tmp_path):
    saved = load_compiled(compiled.save(tmp_path / "mlp"))
    with pytest.raises(DeviceError, match="compiled for"):
        saved(torch.randn(2, 64), shift=torch.randn(8, 64))
    with pytest.raises(DeviceError, match="takes"):
        saved(torch.randn(8, 64))
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="no saved model"):
        compiled.save(tmp_path / "other")


@pytest.mark.slow
def test_modelled_device_times_stand_beside_measured_host_times(relu, tmp_path):
    path = relu.save(tmp_path / "relu")
    (outcome,) = proveout.benchmark(
        str(path), torch.randn(4, 32), n_models=1, workers_per_model=2, duration=0.2, return_timers=True, verbosity=0
    )
    assert (outcome.status, outcome.device_kind, outcome.configuration.device) == ("passed", "modelled", "sim:n150")
    for worker in outcome.workers:
        assert set(worker.device_ns) == {relu.plan.total_ns}
        assert worker.device_ns.size == worker.ends_ns.size > 0
    (report,) = proveout.get_reports([outcome])
    assert report["device_modelled_ms_p50"] == pytest.approx(relu.plan.total_ns / 1e6)
    assert report["device_modelled_avg_ms"] is None
    assert report["device_modelled_ms_p100"] is None
    assert "one prediction" in report["reasons"]["device_modelled_avg_ms"]
    assert report["device_measured_avg_ms"] is None


@pytest.mark.slow
def test_a_module_of_a_script_is_compiled_in_its_worker_and_checked_there(tmp_path):
    (outcome,) = proveout.sim.benchmark(
        torch.nn.Linear(32, 32), torch.randn(4, 32), n_models=1, workers_per_model=1, duration=0.1, return_timers=True
    )
    assert (outcome.status, outcome.reason) == ("passed", "")
    assert outcome.check.compared > 0
    assert outcome.check.worst_pcc > 0.99
    assert outcome.workers[0].load_ns > 0


def test_a_pipeline_of_what_is_compiled_as_a_whole_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("proveout.measure.benchmarking.run", lambda *given: pytest.fail("work was started"))
    path = proveout.compile(torch.nn.ReLU(), torch.randn(4, 32), device="sim:n300").save(tmp_path / "relu")
    index = model_index.save(model_index.create(path, model_name="relu", batch_size=4), tmp_path / "relu.json")
    for model, sentence in ((index, "no model of the index"), (str(path), "a pipeline is cut from the model itself")):
        with pytest.raises(UsageError, match=sentence):
            proveout.torch.benchmark(model, torch.randn(4, 32), pipeline_sizes=2, duration=0.1, verbosity=0)


@pytest.mark.slow
def test_a_compiled_index_is_benchmarked_and_filtered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = [torch.randn(1, 32), torch.randn(4, 32)]
    index = proveout.torch.compile(torch.nn.ReLU, inputs, batch_sizes=[1, 4], filename="relu", model_name="relu")
    assert index == "relu.json"
    common = {"n_models": 1, "workers_per_model": 1, "duration": 0.05, "multiprocess": False, "verbosity": 0}
    reports = proveout.torch.benchmark(index, inputs, **common)
    assert [(r["batch_size"], r["model_name"], r["status"]) for r in reports] == [
        (1, "relu", "finished"),
        (4, "relu", "finished"),
    ]
    (four,) = proveout.torch.benchmark(index, inputs[1], batch_sizes=4, **common)
    assert four["batch_size"] == 4
    assert four["model_filename"].startswith("models")
    with pytest.raises(UsageError, match="no model of the index"):
        proveout.torch.benchmark(index, torch.randn(2, 32), batch_sizes=2, **common)
    with pytest.raises(UsageError, match="batch size 4, and no input"):
        proveout.torch.benchmark(index, inputs[0], **common)
    with pytest.raises(UsageError, match="was compiled for 'sim:n150'"):
        proveout.torch.benchmark(index, inputs, device_type="sim:p150", **common)


class TestPipeline:
    @pytest.mark.slow
    def test_two_stages_compute_what_the_model_does(self):
        model = Mlp().eval()
        pipeline = pipelined(model, call(), "sim:n300", 2)
        (args, kwargs), expected = call(), model(*call()[0], **call()[1])
        found, spent = pipeline.call(args, kwargs)
        torch.testing.assert_close(found["out"], expected["out"], rtol=0.02, atol=0.02)
        torch.testing.assert_close(found["more"][0], expected["more"][0], rtol=0.02, atol=0.02)
        assert spent == sum(pipeline.stage_ns)
        assert len(pipeline.stages) == 2

    @pytest.mark.slow
    def test_the_cut_balances_the_stages(self):
        pipeline = pipelined(Mlp().eval(), call(), "sim:n300", 2)
        whole = proveout.compile(Mlp().eval(), device="sim:n300", call=call(), settings={"parallel": "none"})
        assert pipeline.interval_ns < 0.8 * whole.plan.total_ns
        assert sum(pipeline.stage_ns) >= whole.plan.total_ns

    @pytest.mark.slow
    def test_benchmark_fills_it_with_as_many_workers_as_stages(self):
        model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
        (outcome,) = proveout.sim.benchmark(
            model,
            torch.randn(4, 32),
            pipeline_sizes=2,
            device_type="sim:n300",
            duration=0.1,
            multiprocess=False,
            return_timers=True,
            verbosity=0,
        )
        assert (outcome.status, outcome.reason) == ("passed", "")
        assert len(outcome.workers) == 2
        told = dict(outcome.conditions)
        assert "once filled (modelled)" in told["pipeline"]
        latency = int(outcome.workers[0].device_ns[0])
        assert int(told["pipeline_interval_ns"]) < latency


NEURONPERF_SCRIPT = """
import torch
import proveout as npf
import proveout.cpu

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, y):
        return self.linear(x) + y

def preprocess_fn(x, y):
    return x / 255, y / 255

def postprocess_fn(x):
    return x.argmax()

inputs = (torch.ones(2, 8), torch.ones(2, 8))
reports = npf.cpu.benchmark(Model, inputs, batch_sizes=[2], n_models=[1, 2], workers_per_model=1, duration=0.3,
                            preprocess_fn=preprocess_fn, postprocess_fn=postprocess_fn, cost_per_hour=1.2)
npf.print_reports(reports)
print(npf.write_csv(reports, "out.csv"))
print(npf.write_json(reports, "out.json"))
results = npf.cpu.benchmark(Model, inputs, n_models=1, workers_per_model=1, duration=0.2, return_timers=True,
                            verbosity=2)
assert len(npf.get_reports(results)) == 1
"""


@pytest.mark.slow
def test_a_neuronperf_script_for_the_cpu_runs_after_changing_its_import(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(NEURONPERF_SCRIPT))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        *("throughput_avg", "latency_ms_p50", "latency_ms_p99", "n_models", "pipeline_size", "workers_per_model"),
        *("batch_size", "model_filename"),
    ]
    assert lines[-2:] == ["out.csv", "out.json"]
    assert "[1/2] Model on cpu: 1 model × 1 worker, batch 2; at least" in done.stderr
    assert "Worker 0 finished after" in done.stderr
    written = json.loads((tmp_path / "out.json").read_text())
    assert [(r["n_models"], r["workers_per_model"]) for r in written] == [(1, 1), (2, 1)]
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    for report, row in zip(written, rows):
        assert float(row["throughput_avg"]) == pytest.approx(report["total_infs"] / report["total_s"])
        assert 0.29 < report["total_s"] < 1.5  # the duration that was asked for; a busy machine ends late
        parts = sum(report[f"{part}_avg_ms"] for part in ("preprocess", "infer", "postprocess"))
        assert parts == pytest.approx(report["e2e_avg_ms"], rel=0.01)
        assert report["cost_per_1m_inf"] == pytest.approx(1.2 / 3600 / report["throughput_avg"] * 1e6, rel=0.01)


def test_what_is_not_served_says_so_in_one_sentence():
    with pytest.raises(UsageError, match="are not served"):
        proveout.mxnet.benchmark("model", torch.ones(1))
    if not torch.cuda.is_available():
        with pytest.raises(ProveoutError, match="there is no NVIDIA GPU in this machine"):
            proveout.cuda.compile(torch.nn.ReLU(), torch.ones(1))


def test_the_namespaces_have_the_three_names():
    for space in (proveout.torch, proveout.cpu, proveout.cuda, proveout.sim):
        assert all(callable(getattr(space, name)) for name in ("compile", "benchmark", "evaluate"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_on_a_gpu_events_time_what_the_device_did():
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
    outcomes = proveout.cuda.benchmark(
        model,
        torch.randn(64, 1024),
        n_models=1,
        workers_per_model=[1, 2],
        duration=0.5,
        reference=model,
        return_timers=True,
        verbosity=0,
    )
    for outcome in outcomes:
        assert (outcome.status, outcome.reason, outcome.device_kind) == ("passed", "", "measured")
        assert outcome.check.compared > 0
        for worker in outcome.workers:
            assert (worker.device_ns > 0).all()
            assert (worker.device_ns <= worker.ends_ns - worker.starts_ns).all()
