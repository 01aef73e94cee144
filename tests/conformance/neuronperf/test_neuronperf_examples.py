"""The examples and options of NeuronPerf's manual, each on a model as small as it can be."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import pickle
import sys
import time
from pathlib import Path

import neuronperf as npf
import neuronperf.torch
import numpy as np
import pytest
import torch
import torch.neuron
import torch_neuronx
from neuronperf_manual import NEURON

from proveout.errors import UsageError

HERE = {"multiprocess": False, "keep": False, "verbosity": 0}
"""Threads of this process: what a test says of a worker process, another test says of all of them."""
QUICK = {**HERE, "duration": 0.05, "n_models": 1, "workers_per_model": 1}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)

    def forward(self, x):
        return self.second(self.first(x).relu())


class Sum(torch.nn.Module):
    def forward(self, x, y, z):
        return x + y + z


@pytest.fixture
def file():
    torch.jit.trace(Net().eval(), torch.ones(2, 32)).save("net.pt")
    return "net.pt"


def rows(batch):
    return torch.ones(batch, 32)


def test_benchmark_a_compiled_model(file):
    """Examples: the first call of the manual, with its four configurations."""
    reports = npf.torch.benchmark(file, rows(2), 2, 0.05, [1, 2], **HERE)
    assert [(r["n_models"], r["workers_per_model"]) for r in reports] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    assert {(r["status"], r["device_type"], r["model_filename"], r["batch_size"]) for r in reports} == {
        ("finished", "cpu", "net.pt", 2)
    }


def test_benchmark_a_model_from_source(monkeypatch):
    """Examples: traced for Neuron, saved, measured; the inputs are a list, as there."""
    inputs = [rows(1)]
    said, log = io.StringIO(), logging.getLogger("neuronperf.benchmarking")
    monkeypatch.setattr(log, "handlers", [logging.StreamHandler(said)])
    log.setLevel(logging.WARNING)  # whatever verbosity another example asked for
    try:
        torch.neuron.trace(Net().eval(), inputs).save("net_b1.pt")
        assert not said.getvalue()
        traced = torch_neuronx.trace(Net().eval(), (rows(1),), compiler_args="--model-type=transformer")
    finally:
        log.setLevel(logging.NOTSET)
    assert "compiler_args: for Neuron's compiler" in said.getvalue()
    assert torch.equal(traced(rows(1)), Net()(rows(1)))
    (report,) = npf.torch.benchmark("net_b1.pt", inputs, [1], **QUICK)
    assert (report["status"], report["device_type"], report["batch_size"]) == ("finished", "cpu", 1)


def test_a_batch_in_parts():
    """The SDK's benchmark scripts: a trace of one batch size serves twice that on two cores."""
    traced = torch_neuronx.trace(Net().eval(), rows(2))
    assert torch_neuronx.async_load(traced) is torch_neuronx.dynamic_batch(traced) is traced
    x = torch.arange(128.0).reshape(4, 32)
    parallel = torch_neuronx.DataParallel(traced, [0, 1], set_dynamic_batching=False)
    assert torch.allclose(parallel(x), Net()(x), atol=1e-6)
    assert all(hasattr(torch_neuronx, name) for row in NEURON for name in row.name.split(", "))


def test_files_that_are_no_models_are_refused_by_name(file):
    """A file is a stranger's: what would run Python when it is opened is not opened."""
    torch.save(Net(), "pickled.pt")
    Path("text.pt").write_text("no model")
    Path("cut.pt").write_bytes(Path(file).read_bytes()[:400])
    for name, sentence in (("pickled.pt", "pickled Python objects"), ("text.pt", "no saved"), ("cut.pt", "no saved")):
        with pytest.raises(UsageError, match=sentence):
            npf.torch.benchmark(name, rows(2), **QUICK)


def test_torchscript_on_a_chip(file):
    """Benchmark guide: pipeline mode of a file; truly cut where the device has two chips."""
    (whole,) = npf.torch.benchmark(file, rows(2), device_type="sim", **QUICK)
    (cut,) = npf.torch.benchmark(file, rows(2), device_type="sim:n300", pipeline_sizes=2, **HERE, duration=0.05)
    assert (whole["status"], cut["status"]) == ("finished", "finished")
    assert whole["outputs_wrong"] == cut["outputs_wrong"] == 0
    assert (cut["pipeline_size"], cut["workers_per_model"], cut["n_models"]) == (2, 2, 1)
    assert cut["throughput_modelled"] > 1.5 * whole["throughput_modelled"]


def test_pipelines_of_an_index(capfd):
    """Benchmark guide: an index of several pipeline sizes; compile guide: compile for them."""
    index = npf.torch.compile(Net().eval(), rows(2), pipeline_sizes=[1, 2, 4], filename="net", verbosity=1)
    assert "ERROR:neuronperf.benchmarking - Not compiled: batch size 2 for 4 chips" in capfd.readouterr().err
    entries = npf.model_index.load(index)["model_configs"]
    assert [(e["pipeline_size"], e["device"]) for e in entries] == [(1, "sim:n150"), (2, "sim:n300")]
    one, two = npf.torch.benchmark(
        index, rows(2), pipeline_sizes=[1, 2, 3], workers_per_model=2, n_models=1, **HERE, duration=0.05
    )
    assert (one["pipeline_size"], two["pipeline_size"]) == (1, 2)
    stages = int(two["conditions"]["pipeline_interval_ns"])
    assert stages < round(two["device_modelled_ms_p50"] * 1e6) <= 2 * stages, "a call takes both stages"
    assert two["throughput_modelled"] == pytest.approx(2e9 / stages)
    assert one["throughput_modelled"] == pytest.approx(2e3 / one["device_modelled_ms_p50"])
    (alone,) = npf.torch.benchmark(
        index, rows(2), pipeline_sizes=2, workers_per_model=1, n_models=1, **HERE, duration=0.05
    )
    assert alone["throughput_modelled"] == pytest.approx(2e3 / alone["device_modelled_ms_p50"]), "one call at a time"
    npf.model_index.save(npf.model_index.filter(index, pipeline_sizes=2), "cut.json")
    (scored,) = npf.torch.evaluate("cut.json", [(rows(2), rows(2))], "MAE", batch_sizes=2, verbosity=0)
    expected = float((Net()(rows(2)) - 1).abs().mean().detach())
    assert scored["MAE"] == pytest.approx(expected, rel=0.02), "stages that were saved compute what the model does"


def test_a_pipeline_on_the_cpu_runs_whole(file, capfd):
    """Benchmark guide: `pipeline_sizes` says what a model needs; a CPU has no chips to cut it for."""
    for size in (1, 2, 3):
        npf.model_index.save(npf.model_index.create(file, pipeline_size=size, batch_size=2), f"p{size}")
    npf.model_index.save(npf.model_index.append("p1.json", "p2.json", "p3.json"), "all.json")
    reports = npf.torch.benchmark("all.json", rows(2), pipeline_sizes=[1, 2, 3], **(QUICK | {"verbosity": 1}))
    assert [(r["pipeline_size"], r["n_devices"]) for r in reports] == [(1, 1), (2, 2), (3, 3)]
    assert capfd.readouterr().err.count("runs whole on cpu") == 2
    npf.print_reports(reports)
    told = capfd.readouterr().out
    assert told.count("no pipeline: the model ran whole on cpu") == 2
    assert "pipeline_size 3 only counts places" in told


def test_copies_and_workers(file):
    """Benchmark guide: `n_models` and `workers_per_model`, one number or a list."""
    reports = npf.torch.benchmark(file, rows(2), n_models=list(range(1, 3)), workers_per_model=1, **HERE, duration=0.05)
    assert [r["n_models"] for r in reports] == [1, 2]
    reports = npf.torch.benchmark(file, rows(2), 2, n_models=1, workers_per_model=[1, 2], **HERE, duration=0.05)
    assert [r["workers_per_model"] for r in reports] == [1, 2]


def test_multi_input_models():
    """Benchmark guide: a tuple is several arguments, a list of tuples several configurations."""
    given = [(torch.ones(b, 3),) * 3 for b in (1, 2)]
    assert [r["batch_size"] for r in npf.torch.benchmark(Sum, given, **QUICK)] == [1, 2]
    (one,) = npf.torch.benchmark(Sum(), given[0], preprocess_fn=lambda x, y, z: (x / 255, y / 255, z / 255), **QUICK)
    assert one["preprocess_avg_ms"] > 0


def test_preprocessing_and_postprocessing(file):
    """Benchmark guide: both are part of a call and timed alone."""
    functions = {"preprocess_fn": lambda x: x * 5, "postprocess_fn": lambda x: x.argmax()}
    (report,) = npf.torch.benchmark(file, rows(2), **functions, **QUICK)
    parts = sum(report[f"{part}_avg_ms"] for part in ("preprocess", "infer", "postprocess"))
    assert parts == pytest.approx(report["e2e_avg_ms"], rel=0.05)


def test_a_batch_that_is_not_in_front():
    """API: `batch_sizes` are the user's word."""
    options = {"batch_sizes": 4, "preprocess_fn": lambda x: x + 1, **QUICK}
    (report,) = npf.cpu.benchmark(torch.nn.Identity, torch.zeros(10, 4, 8), **options)
    assert (report["status"], report["batch_size"]) == ("finished", 4)
    assert report["total_infs"] == 4 * report["total_calls"]


class Labelled(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.ones(32), index


def test_custom_datasets(file):
    """Benchmark guide: a Dataset of (image, label), in batches, once or again and again; a loader of one's own."""
    npf.model_index.save(npf.model_index.create(file, batch_size=4), "model_index.json")
    take = {"preprocess_fn": lambda x: x[0], **QUICK}
    (report,) = npf.torch.benchmark("model_index.json", inputs=Labelled(), batch_sizes=[4], loop_dataset=False, **take)
    assert (report["status"], report["total_infs"]) == ("finished", 12)
    (looped,) = npf.torch.benchmark("model_index.json", inputs=Labelled(), batch_sizes=[4], loop_dataset=True, **take)
    assert looped["total_infs"] > 12

    def dataset_loader_fn(inputs, workers):
        return iter([torch.ones(4, 32)] * len(inputs) * workers)

    (own,) = npf.torch.benchmark(file, [1, 2, 3], 4, dataset_loader_fn=dataset_loader_fn, **QUICK)
    assert own["total_infs"] == 12
    (listed,) = npf.torch.benchmark(file, [torch.ones(4, 32)] * 3, 4, dataset_inputs=True, **QUICK)
    assert (listed["status"], listed["total_infs"]) == ("finished", 12)
    with pytest.raises(UsageError, match=r"give its dataset, batch_sizes=4, and what else it was made with"):
        npf.torch.benchmark(file, torch.utils.data.DataLoader(Labelled(), 4), 4, **QUICK)


def test_duration_zero(file):
    """Evaluate guide: untimed, once through a dataset."""
    options = QUICK | {"duration": 0}
    (report,) = npf.torch.benchmark(file, Labelled(), 4, preprocess_fn=lambda x: x[0], **options)
    assert report["total_infs"] == 12
    with pytest.raises(UsageError, match="duration=0 runs once through a dataset"):
        npf.torch.benchmark(file, rows(2), **options)


def load_sum(filename, **more):
    return lambda *parts: sum(parts)


def without_cores(*_):
    """As Amazon's script of OPT: its model spreads over all cores by itself."""
    del os.environ["NEURON_RT_VISIBLE_CORES"]


def test_calls_are_counted_and_one_report_is_enough(capsys):
    """Benchmark scripts (opt_benchmark.py): `max_infers` without a time, a list of arguments, one report alone."""
    (report,) = npf.benchmark(
        load_sum,
        "./a-folder",
        [["a text", "another"]],
        batch_sizes=1,
        max_infers=5,
        max_duration=0,
        env_setup_fn=without_cores,
        preprocess_fn=lambda texts: [torch.tensor(len(text)) for text in texts],
        **{name: value for name, value in QUICK.items() if name not in ("duration", "verbosity")},
    )
    told = capsys.readouterr().err.splitlines()
    assert [
        line.endswith(", until its calls are done.") or line.endswith("; until its calls are done.") for line in told
    ]
    assert (report["status"], report["total_infs"]) == ("finished", 5)
    assert report["latency_ms_avg"] == report["e2e_avg_ms"] > 0
    report["tokens_per_s"] = 12.5
    capsys.readouterr()
    npf.print_report(report)
    assert capsys.readouterr().out.splitlines()[0].split() == list(npf.SUMMARY_COLS)
    assert json.loads(Path(npf.write_json(report)).read_text())[0]["tokens_per_s"] == 12.5
    assert Path(npf.write_csv(report)).exists()


def test_an_index_written_in_an_editor(file):
    """Model index guide: its example has a version, and neither a name nor a status."""
    entry = {"filename": file, "input_idx": 0, "batch_size": 2, "pipeline_size": 1, "compile_s": 5.32}
    Path("model_index.json").write_text(json.dumps({"version": "0.0.0.0+0bc220a", "model_configs": [entry]}))
    (report,) = npf.torch.benchmark("model_index.json", rows(2), **QUICK)
    assert (report["status"], report["model_filename"], report["model_name"]) == ("finished", file, "model_index")
    (loaded,) = npf.torch.benchmark(npf.model_index.load("model_index.json"), rows(2), **QUICK)
    assert (loaded["status"], loaded["model_filename"]) == ("finished", file)


def test_an_index_with_several_inputs_is_filtered(file):
    """Model index guide: inputs stay at their places, `batch_sizes` chooses."""
    batch_sizes = [1, 2, 3]
    inputs = [rows(b) for b in batch_sizes]
    entries = [npf.model_index.create(file, i, b) for i, b in enumerate(batch_sizes)]
    npf.model_index.save(npf.model_index.append(*entries), "model_index.json")
    (two,) = npf.torch.benchmark("model_index.json", inputs, batch_sizes=2, **QUICK)
    assert (two["batch_size"], two["input_idx"]) == (2, 1)
    assert [r["batch_size"] for r in npf.torch.benchmark("model_index.json", inputs, **QUICK)] == batch_sizes


def test_compile_several_variants():
    """Examples and compile guide: batch sizes in one index; two indexes joined; filters when it is benchmarked."""
    inputs = [rows(b) for b in (2, 4)]
    index = npf.torch.compile(
        Net().eval(), inputs, batch_sizes=[2, 4], filename="net.json", model_name="net", verbosity=0
    )
    other = npf.torch.compile(Net().eval(), inputs[0], batch_sizes=2, models_dir="more", cast_modes="all", verbosity=0)
    assert Path(other).exists()
    npf.model_index.save(npf.model_index.append(index, other), "both.json")
    reports = npf.torch.benchmark("both.json", inputs, **QUICK)
    assert [(r["batch_size"], r["input_idx"], r["cast_mode"]) for r in reports] == [
        (2, 0, None),
        (4, 1, None),
        (2, 0, "all"),
    ]
    assert {(r["status"], r["device_type"]) for r in reports} == {("finished", "sim:n150")}
    assert reports[0]["model_filename"].startswith("models/net_b2_p1_")
    npf.model_index.delete(index)
    assert not list(Path("models").iterdir())


def test_casts_and_levels():
    """Compile guide and API: each makes a model of its own, no slower as accuracy is given up; both are filters."""
    x = torch.randn(32, 32)
    index = npf.torch.compile(Net().eval(), x, performance_levels=[0, 3], cast_modes=["none", "all"], verbosity=0)
    settings = {"n_models": 1, "workers_per_model": 1, "duration": 0.05, **HERE}
    reports = npf.torch.benchmark(index, x, **settings)
    assert [(r["performance_level"], r["cast_mode"]) for r in reports] == [
        (0, "none"),
        (0, "all"),
        (3, "none"),
        (3, "all"),
    ]
    times = [r["device_modelled_ms_p50"] for r in reports]
    assert times[-1] < times[0]
    (one,) = npf.torch.benchmark(index, x, cast_modes="all", performance_levels=3, **settings)
    assert one["device_modelled_ms_p50"] == times[-1]
    (told,) = npf.torch.benchmark(Net, x, cast_modes="all", **QUICK)
    assert told["cast_mode"] == "all"
    for wrong in ({"cast_modes": "some"}, {"performance_levels": 7}):
        with pytest.raises(UsageError, match=r"cast mode 'some'|performance level 7"):
            npf.torch.compile(Net(), x, **wrong, verbosity=0)


def test_compiler_args_and_target(capfd):
    """Compile guide: Neuron's flags that mean something here, our settings, and targets."""
    flags = {"--fast-math": "none", "--verbose": 1, "math_fidelity": "HiFi2"}
    index = npf.torch.compile(Net().eval(), rows(2), compiler_args=flags, compiler_target="inf2")
    (entry,) = npf.model_index.load(index)["model_configs"]
    assert (entry["device"], entry["cast_mode"]) == ("sim:n150", "none")
    told = capfd.readouterr().err
    assert "There is no inf2 here" in told
    assert "The compiler has no --verbose" in told
    cut = {"--neuroncore-pipeline-cores": "2"}
    index = npf.torch.compile(Net().eval(), rows(2), compiler_args=cut, compiler_target="n300", verbosity=0)
    assert npf.model_index.filter(index, pipeline_sizes=2, device="sim:n300")["model_configs"]


def test_generic_compile():
    """API: `compile(compile_fn, model, inputs, …)`; one variant that fails is told and left out."""
    seen = []

    def compile_fn(model, inputs, models_dir, model_name, compiler_args, flavour):
        seen.append((model, tuple(inputs.shape), compiler_args, flavour))
        if inputs.shape[0] == 3:
            raise RuntimeError("no threes")
        path = Path(models_dir, f"{model_name}.txt")
        path.write_text("2")
        return str(path)

    inputs = [torch.ones(b, 2) for b in (1, 3)]
    index = npf.compile(compile_fn, "m", inputs, [1, 3], [1, 2], filename="mine", flavour="plain", verbosity=0)
    entries = npf.model_index.load(index)["model_configs"]
    assert [(e["batch_size"], e["pipeline_size"]) for e in entries] == [(1, 1), (1, 2)]
    assert seen[1] == ("m", (1, 2), {"--neuroncore-pipeline-cores": "2"}, "plain")
    reports = npf.benchmark(lambda path, device_id: lambda x: x * int(Path(path).read_text()), index, inputs, **QUICK)
    assert [r["status"] for r in reports] == ["finished"] * 2
    with pytest.raises(UsageError, match="compile takes a compile_fn"):
        npf.compile(None)


def test_generic_benchmark():
    """API: `benchmark(load_fn, model_filename, inputs, …)` by position and keyword, whatever `load_fn` takes."""
    seen = []

    def load_fn(path, device_id):
        seen.append((path, device_id))
        return lambda x: None

    (report,) = npf.benchmark(load_fn, "any.file", [[1]], None, 0.05, 2, None, None, 1, **HERE)
    assert (report["status"], report["model_filename"], report["n_models"]) == ("finished", "any.file", 2)
    assert sorted(seen) == [("any.file", 0), ("any.file", 1)]
    for other in (lambda path: len, lambda path, **kwargs: len, lambda path, place: len):
        (report,) = npf.benchmark(load_fn=other, model_filename="m", inputs=[[1]], **QUICK)
        assert report["status"] == "finished"
    assert npf.benchmark(npf.DummyModel, np.array([1, 2]), **QUICK)[0]["status"] == "finished"
    with pytest.raises(ValueError, match="takes a load_fn first"):
        npf.benchmark(None, "any.file", [[1]])


def test_model_class_of_a_file():
    """API: `model_class_name` and `model_class_file`, imported where the model runs."""
    Path("mine.py").write_text("class Net:\n    def __call__(self, x):\n        return x\n")
    options = {"model_class_name": "Net", "model_class_file": "mine.py", **QUICK}
    assert npf.torch.benchmark("Net", [[1]], **options)[0]["status"] == "finished"


def test_benchmark_on_the_cpu():
    """Benchmark guide: a class without arguments, which its worker makes."""
    (report,) = npf.cpu.benchmark(Net, rows(2), **QUICK)
    assert (report["device_type"], report["model_filename"]) == ("cpu", "Net")


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU: tests/unit/test_benchmark_devices.py measures it"
)
def test_benchmark_on_a_gpu():
    """Benchmark guide: `device_type="gpu"`, where there is none."""
    for call in (npf.gpu.benchmark, npf.torch.benchmark):
        with pytest.raises(ValueError, match="finds no GPU here"):
            call(Net, rows(2), device_type="gpu", **QUICK)


def test_device_types(file, capfd):
    """API: NeuronPerf's own device is the one that a model was compiled for."""
    (report,) = npf.torch.benchmark(file, rows(2), device_type="neuron", **(QUICK | {"verbosity": 1}))
    assert report["device_type"] == "cpu"
    assert "There is no Neuron device here" in capfd.readouterr().err
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        npf.torch.benchmark(file, rows(2), device_type="tpu", **QUICK)


def test_processes(capfd):
    """Benchmark guide: a process for each copy; setup functions run there, and what they print is shown."""

    def setup_fn(id, config, model):
        print(f"copy {id} of {config['n_models']} is a {type(model).__name__}")

    options = {"n_models": 2, "workers_per_model": 1, "duration": 0.1, "keep": False}

    def env_setup_fn(id, config):
        loaded = {"torch", "numpy"} & set(sys.modules)
        print(loaded or "before everything")

    options["env_setup_fn"] = env_setup_fn
    (pair,) = npf.cpu.benchmark(
        npf.DummyModel, np.array([1, 2]), setup_fn=setup_fn, return_timers=True, verbosity=2, **options
    )
    _, results = pair
    told = capfd.readouterr()
    first = ["before everything"] * 2
    assert sorted(told.out.splitlines()) == [*first, *(f"copy {n} of 2 is a DummyModel" for n in (0, 1))]
    assert len(results["timers"]["setup"]) == 2
    assert all(len(timer) == 1 for timer in results["timers"]["setup"])
    assert len({run.pid for run in pair.outcome.workers}) == 2
    for line in ("Running model config: {", "Benchmarker 1, Worker 0 started.", "Benchmarker 0 finished."):
        assert f"DEBUG:neuronperf.benchmarking - {line}" in told.err
    options |= {"n_models": 1, "multiprocess": False, "multiinterpreter": True, "verbosity": 0}
    (report,) = npf.cpu.benchmark(npf.DummyModel, np.array([1, 2]), **options)
    assert (report["status"], report["multiinterpreter"]) == ("finished", True)


def test_setup_functions(file, capfd):
    """API: `env_setup_fn(id, config)` and `setup_fn(id, config, model)`."""
    seen = []
    functions = {"env_setup_fn": lambda *given: seen.append(given), "setup_fn": lambda *given: seen.append(given)}
    (report,) = npf.torch.benchmark(file, rows(2), **functions, **QUICK)
    (number, config), (_, _, model) = seen
    assert number == 0
    assert {
        "model_filename",
        "batch_size",
        "n_models",
        "workers_per_model",
        "pipeline_size",
        "device_type",
    } <= config.keys()
    assert isinstance(model, torch.jit.ScriptModule)
    assert report["setup_avg_ms"] > 0 < report["env_setup_avg_ms"]


def test_verbosity(file, capfd):
    """Benchmark guide: silence, progress, everything."""
    for verbosity, levels in ((0, set()), (1, {"INFO"}), (2, {"INFO", "DEBUG"})):
        npf.torch.benchmark(file, rows(2), **(QUICK | {"verbosity": verbosity}))
        lines = capfd.readouterr().err.splitlines()
        assert {line.partition(":")[0] for line in lines if ":neuronperf." in line} == levels
        assert ("INFO:neuronperf.benchmarking - Benchmarking 'net.pt', ~0 seconds remaining." in lines) == (
            verbosity > 0
        )
    with pytest.raises(UsageError, match="verbosity is 3"):
        npf.set_verbosity(3)
    to_stderr = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(to_stderr)  # as basicConfig does
    npf.torch.benchmark(file, rows(2), **(QUICK | {"verbosity": 1}))
    logging.getLogger().removeHandler(to_stderr)
    assert capfd.readouterr().err.count("Benchmarking 'net.pt', ~0 seconds remaining.") == 1


def test_pairs_unpack_and_make_reports(file):
    """Benchmark guide: full timing results, and the reports made of them."""
    results = npf.torch.benchmark(file, rows(2), return_timers=True, **QUICK)
    ((config, found),) = results
    assert found["status"] == "finished"
    assert found["n_infs"] == len(found["timers"]["e2e"][0]) > 0
    assert {"cpu_percents", "mem_percents", "total_s", "workers_per_model"} <= found.keys()
    (report,) = npf.get_reports(results)
    (plain,) = npf.get_reports([(config, found)])
    (kept,) = npf.get_reports(pickle.loads(pickle.dumps(results)))
    for other in (plain, kept):
        assert other["latency_ms_p50"] == report["latency_ms_p50"]
        assert other["total_infs"] == report["total_infs"] == 2 * found["n_infs"]
        assert other["status"] == "finished"
    (counted,) = npf.get_reports(results, batch_sizes=[1])
    assert counted["total_infs"] == found["n_infs"]
    (priced,) = npf.get_reports(results, 1.0)
    assert priced["cost_per_1m_inf"] > 0
    with pytest.raises(UsageError, match="no 'timers' in its results"):
        npf.get_reports([(config, {"status": "finished"})])


def test_fields(file):
    """API and tests: what scripts read of a report."""
    (report,) = npf.torch.benchmark(file, rows(2), **(QUICK | {"duration": 0.3}), stats_interval=0.05)
    assert set(npf.REPORT_COLS) <= report.keys()
    for name in ("outcome", "input_idx", "n_devices", "start_dts", "stop_dts", "load_avg_ms", "latency_ms_p100"):
        assert report[name] is not None
    assert report["outcome"] == "passed"
    assert time.strptime(report["start_dts"], "%Y%m%d-%H%M%S") <= time.strptime(report["stop_dts"], "%Y%m%d-%H%M%S")
    for name in ("warmup_avg_ms", "input_avg_ms", "setup_avg_ms", "throughput_modelled"):
        assert report[name] is None
        assert report["reasons"][name]

    def fails(x):
        raise RuntimeError("broken")

    (failed,) = npf.benchmark(lambda path, device_id: fails, "broken", [[1]], **QUICK)
    assert (failed["status"], failed["outcome"]) == ("error", "failed")
    assert "broken" in failed["reason"]


def test_cost_names_and_samples(file):
    """API: `cost_per_hour`, `model_name`, `stats_interval`."""
    options = {"cost_per_hour": 3.6, "model_name": "MyFancyModel", "stats_interval": 0.05}
    (report,) = npf.torch.benchmark(file, rows(2), **options, **(QUICK | {"duration": 0.3}))
    assert report["cost_per_1m_inf"] == pytest.approx(3.6 * 1e6 / 3600 / report["throughput_avg"])
    assert (report["model_name"], report["model_filename"]) == ("MyFancyModel", file)
    assert report["n_stats_intervals"] >= 2


def test_reports_are_printed(file, capsys):
    """API: the eight columns; columns and order of one's own."""
    reports = npf.torch.benchmark(file, rows(2), n_models=1, workers_per_model=[1, 2], **HERE, duration=0.05)
    npf.print_reports(reports)
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == list(npf.SUMMARY_COLS)
    npf.print_results(reports)
    assert capsys.readouterr().out == printed
    npf.print_reports(reports, cols=["workers_per_model"], sort_by="workers_per_model", reverse=True)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[1:3]] == ["2", "1"]


def test_reports_are_written(file):
    """API: CSV and JSON, with a name of one's own or one that is given back."""
    reports = npf.torch.benchmark(file, rows(2), **QUICK)
    assert npf.write_csv(reports, "mine.csv", cols=npf.REPORT_COLS) == "mine.csv"
    with open("mine.csv") as written:
        (row,) = csv.DictReader(written)
    assert tuple(row) == npf.REPORT_COLS
    assert Path(npf.write_csv(reports)).exists()
    assert json.loads(Path(npf.write_json(reports)).read_text())[0]["status"] == "finished"


def test_benchmarker():
    """Its tests: one copy of a model under calls, from start to stop."""
    model = npf.benchmarking.Benchmarker(
        id=3,
        device_id=1,
        load_fn=lambda path, device_id: lambda x: x,
        model_filename="m",
        inputs=[],
        workers_per_model=2,
    )
    assert model.status == "ready"
    model.start()
    deadline = time.monotonic() + 60
    while model.model is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    with pytest.raises(RuntimeError, match="stop"):
        model.results()
    model.stop()
    results = model.results()
    assert (model.status, results["id"], results["device_id"]) == ("finished", 3, 1)
    assert all(count > 10 for count in model.n_infs)
    assert results["n_infs"] == sum(model.n_infs) == sum(len(timer) for timer in results["timers"]["e2e"])
    broken = npf.benchmarking.Benchmarker(0, 0, lambda path, device_id: 1 / 0, "m", [], 1)
    broken.start()
    broken.join()
    assert broken.status == "error"
    assert "ZeroDivisionError" in broken.error.trace


class Classes(torch.nn.Module):
    def forward(self, x):
        return torch.stack((1 - x, x), -1)


def test_evaluate():
    """Evaluate guide: `eval_metrics` of `benchmark`, `metrics` of `evaluate`, and the target's column."""
    torch.jit.trace(Classes(), torch.ones(1)).save("classes.pt")
    items = [(torch.tensor([float(n % 3 == 0)]), torch.tensor([n % 2])) for n in range(12)]
    right = sum(int(x.item() == y.item()) for x, y in items) / 12
    options = {"n_models": 1, "workers_per_model": 2, "duration": 0, "eval_metrics": ["accuracy", "precision"]}
    (first,) = npf.torch.benchmark("classes.pt", items, **options, verbosity=0)
    (second,) = npf.torch.evaluate("classes.pt", items, metrics=["accuracy", "precision"], verbosity=0)
    turned = [(y, x) for x, y in items]
    (third,) = npf.torch.evaluate("classes.pt", turned, metrics="accuracy", eval_target_col=0, verbosity=0)
    assert [r["accuracy"] for r in (first, second, third)] == pytest.approx([right] * 3)
    assert first["precision"] == second["precision"]
    numbers = [(x, int(y)) for x, y in items]  # a target is any object, here without the batch of one
    (plain,) = npf.torch.evaluate("classes.pt", numbers, metrics="accuracy", verbosity=0)
    assert plain["accuracy"] == pytest.approx(right)
    assert first["status"] == "finished"
    index = npf.torch.compile(Classes(), torch.ones(1), verbosity=0)
    (chip,) = npf.torch.evaluate(index, items, metrics="accuracy", verbosity=0)
    assert (chip["device_type"], chip["accuracy"]) == ("sim:n150", pytest.approx(right))


class AllRight(npf.BaseEvalMetric):
    def __init__(self):
        self.passing = self.processed = 0

    def process_record(self, output, target):
        self.processed += 1
        self.passing += int(output.argmax() == target)

    @staticmethod
    def aggregate(metrics):
        return sum(m.passing for m in metrics) / max(sum(m.processed for m in metrics), 1)


def test_metrics(capsys):
    """Evaluate guide: the list, variants, and metrics of one's own."""
    npf.list_metrics()
    listed = capsys.readouterr().out
    names = (
        "Accuracy TruePositiveRate Sensitivity Recall TrueNegativeRate Specificity Selectivity PositivePredictiveValue "
        "Precision NegativePredictiveValue FalseNegativeRate FalsePositiveRate FalseDiscoveryRate FalseOmissionRate "
        "PositiveLikelihoodRatio NegativeLikelihoodRatio PrevalenceThreshold ThreatScore F1Score MeanAbsoluteError "
        "MeanSquaredError topk"
    )
    assert {*names.split(), "Hit Rate"} <= {line[:24].strip() for line in listed.splitlines()}
    npf.register_metric("AllRight", AllRight)
    npf.register_metric_from_existing("topk", "topk_1_of_two", k=1)
    items = [(torch.tensor([1.0]), torch.tensor([n % 2])) for n in range(8)]
    (report,) = npf.torch.evaluate(Classes, items, metrics=["AllRight", "topk_1_of_two"], verbosity=0)
    assert report["AllRight"] == report["topk_1_of_two"] == 0.5


def test_an_error_of_several_lines_is_told_by_its_first():
    """neuronperf_troubleshooting.rst: a user reads a worker's error; TorchScript's ends with the value."""
    from proveout.measure.runs import raised_line

    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
    cast = "RuntimeError: forward() expected a Tensor\nPosition: 1\nCast error details: [[0.1\n  0.2]] to Tensor\n"
    assert raised_line(trace + cast) == "RuntimeError: forward() expected a Tensor"
    assert raised_line(trace + "Boom: no luck\n") == "Boom: no luck"
    assert raised_line(trace + cast + "\nDuring …\n\n" + trace + "KeyError: 1\n") == "KeyError: 1"
    assert raised_line("TypeError: found 'int'.") == "TypeError: found 'int'"
    assert raised_line("") == ""
