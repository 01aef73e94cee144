"""Every command, option, variable and example of MLAgility's manual, as it stands there; rows are in `manual.py`."""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import io
import json
import multiprocessing
import os
import stat
import sys
from concurrent.futures import Future
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import manual

from proveout.capture import Discovery, watch
from proveout.cli import main
from proveout.cli.benchit import repeated, script_arguments, spelled
from proveout.compat.mlagility.served import mlagility_names
from proveout.errors import UsageError
from proveout.prove import prove_here
from proveout.store import Store
from proveout.types import Job, Record

MISSING = [name for name in ("onnx", "onnxruntime", "onnxscript") if find_spec(name) is None]
needs_onnx = pytest.mark.skipif(bool(MISSING), reason="needs the extra `onnx`")

HELLO = """# labels: name::hello_world author::mlagility test_group::a
import torch

torch.manual_seed(1)


class SmallModel(torch.nn.Module):
    def __init__(self, input_size, output_size):
        super(SmallModel, self).__init__()
        self.fc = torch.nn.Linear(input_size, output_size)

    def forward(self, x):
        return self.fc(x)


model = SmallModel(10, 5)
model(**{"x": torch.rand(10)})
"""
TWO = (
    HELLO.replace("::a\n", "::b domain::nlp\n")
    + """
another = SmallModel(50, 10)
another(**{"x": torch.rand(50)})
"""
)
PARSED = """# labels: name::parsed
from mlagility.parser import parse
import torch

batch_size, max_seq_length = parse(["batch_size", "max_seq_length"])
torch.nn.Linear(max_seq_length, 2)(torch.ones(batch_size, max_seq_length))
"""
SEQUENCE = """
from onnxflow.justbuildit.stage import Sequence
import onnxflow.justbuildit.export as export


def get_sequence():
    return Sequence(
        unique_name="example_sequence",
        monitor_message="Only exports",
        stages=[export.ExportPytorchModel(), export.SuccessStage()],
        enable_model_validation=True,
    )
"""
HELLO_HASH, TWO_HASH = "479b1332", "215ca1e3"
"""As MLAgility's manual prints them for these very models."""


@dataclasses.dataclass
class Bench:
    """`benchit` in a folder of scripts, its models found and proven in this process."""

    folder: Path
    capsys: Any
    proven: list[Job] = dataclasses.field(default_factory=list)

    def __call__(self, *words: str, code: int = 0) -> str:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            found = main(words, "benchit")
        out = self.capsys.readouterr().out + errors.getvalue()
        assert found == code, out
        return out

    def discover(self, script: Path, **how: Any) -> Discovery:
        if script.suffix == ".onnx":
            from proveout.capture.onnx import describe

            return Discovery(str(script), tuple(describe(script)[0]), (), "", "", 0.0)
        found, raised = watch(script, how["script_args"], max_depth=how["max_depth"])
        labels = found[0].workload.labels if found else ()
        error = f"{script.name} raised {raised}" if raised and not found else ""
        return Discovery(str(script), tuple(f.workload for f in found), labels, error, "printed\n", 0.0)

    def prove(self, job: Job, run: Any = None) -> Record:
        self.proven.append(job)
        record = prove_here(dataclasses.replace(job, iterations=2, duration_s=0.0, warmup=0))
        return dataclasses.replace(record, job=job)


class Here:
    """Workers that are this process."""

    slots, anywhere = 1, False

    def __init__(self, *given: Any) -> None: ...

    def submit(self, task: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(task(None))
        return done

    def stop(self) -> None: ...


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys) -> Bench:
    made = Bench(tmp_path, capsys)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("proveout.sweep.tasks.discover", made.discover)
    monkeypatch.setattr("proveout.sweep.tasks.prove", made.prove)
    for verb in ("jobs", "verbs.discover"):
        monkeypatch.setattr(f"proveout.cli.{verb}.Local", Here)
    for name in ("CACHE_DIR", "ONNX_OPSET", "TIMEOUT_SECONDS", "TRACEBACK", "DEBUG"):
        monkeypatch.delenv(f"MLAGILITY_{name}", raising=False)
    (tmp_path / "scripts").mkdir()
    for name, text in (("hello_world", HELLO), ("two_models", TWO), ("parsed", PARSED)):
        (tmp_path / "scripts" / f"{name}.py").write_text(text)
    (tmp_path / "sequence.py").write_text(SEQUENCE)
    return made


EAGER = ("--runtime", "torch-eager")


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_is_what_the_rows_say():
    assert manual.PAGE.read_text(encoding="utf-8") == manual.page(), "python tests/conformance/mlagility/manual.py"


def test_every_option_of_the_page_is_an_option_of_benchit(bench):
    shown = "".join(bench(verb, "--help") for verb in ("benchmark", "cache", "models", "report"))
    for row in manual.OPTIONS:
        for option in row.name.split(", "):
            word = option.split()[0]
            assert word in shown or word in ("-d", "--plugins"), row.name


@pytest.mark.parametrize("row", manual.NAMES, ids=lambda row: row.name)
def test_a_python_name_imports_where_a_script_runs(row):
    module, _, name = row.name.rpartition(".")
    with mlagility_names():
        assert hasattr(import_module(module), name)


# ------------------------------------------------------------------------------------------------ commands


def test_a_script_alone_is_benchmarked_on_the_cpu_and_then_read_from_the_cache(bench):
    told = bench("scripts/hello_world.py", *EAGER)
    for word in ("hello_world.py:", "(executed 1x)", "Model Type:\tPytorch", "SmallModel", "Parameters:\t55 (<0.1 MB)"):
        assert word in told
    assert "Successfully benchmarked on" in told
    assert "(torch-eager v" in told
    assert "Mean Latency:" in told
    assert "Throughput:" in told
    assert "1 new, 0 read" in told
    assert "0 new, 1 read" in bench("benchmark", "scripts/hello_world.py", "--device", "x86", *EAGER)
    assert [job.device for job in bench.proven] == ["cpu"]


def test_the_default_runtime_is_onnx_runtime_where_it_is_installed(bench, monkeypatch):
    from proveout.cli.benchit import targets

    assert [t.runtime for t in targets.targets("x86", [])] == ["ort"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [(t.device, t.runtime) for t in targets.targets("x86", [])] == [("cpu", "proveout")]


@pytest.mark.parametrize("hash_", [HELLO_HASH, TWO_HASH])
def test_mlagilitys_own_hashes_pick_a_model(bench, hash_):
    """The script's other models are listed too, and nothing is done with them."""
    shown = bench("benchmark", f"scripts/two_models.py::{hash_}", *EAGER)
    assert (shown.count("(executed"), shown.count("Successfully benchmarked")) == (2, 1)
    (job,) = bench.proven
    assert job.workload.parameters == {HELLO_HASH: 55, TWO_HASH: 510}[hash_]


def test_several_hashes_and_one_that_is_not_there(bench):
    bench(f"scripts/two_models.py::{HELLO_HASH},{TWO_HASH}", *EAGER)
    assert len(bench.proven) == 2
    for more in (EAGER, ["--analyze-only"]):
        assert "has no model 00000000; it has" in bench("scripts/two_models.py::00000000", *more, code=2)


def test_what_a_script_without_a_model_prints_comes_first(bench):
    (bench.folder / "scripts" / "prints.py").write_text("")
    assert bench("scripts/prints.py", *EAGER, code=1).startswith("printed\nModels discovered:")


def test_the_cache_commands(bench):
    words = ("-d", "tmp_cache")
    bench("scripts/hello_world.py", "scripts/two_models.py", *words, *EAGER)
    listed = bench("cache", "list", "--cache-dir", "tmp_cache")
    assert "Builds available in cache tmp_cache" in listed
    assert listed.count("hello_world_") == 1
    assert listed.count("two_models_") == 2
    for verb in ("stats", "print"):
        shown = bench("cache", verb, f"hello_world_{HELLO_HASH}", *words)
        assert "build_status: successful_build" in shown
        assert "author: [mlagility]" in shown
    assert "unknown build" in bench("cache", "stats", "nothing", *words, code=2)
    assert "removed the build artifacts from: two_models_" in bench("cache", "clean", f"two_models_{TWO_HASH}", *words)
    assert "deleted build: two_models_" in bench("cache", "delete", f"two_models_{TWO_HASH}", *words)
    assert bench("cache", "list", *words).count("two_models_") == 1
    assert "name one build, or say --all: benchit cache delete NAME" in bench("cache", "delete", *words, code=2)
    bench("cache", "clean", "--all", *words)
    bench("cache", "delete", "--all", *words)
    assert not Store("tmp_cache").records()[0]
    assert "is not a folder" in bench("cache", "list", "-d", "nowhere", code=2)


def test_reports_of_one_cache_and_of_several(bench):
    bench("scripts/hello_world.py", "-d", "one", *EAGER)
    bench("scripts/two_models.py", "-d", "two", *EAGER)
    for words in (("report", "-d", "one", "two"), ("cache", "report", "-d", "one", "two", "-r", "reports")):
        assert "Summary spreadsheet saved at" in bench(*words)
    (path,) = Path("reports").glob("????-??-??.csv")
    rows = list(csv.DictReader(path.open()))
    assert list(rows[0]) == [
        "model_name", "author", "model_class", "params", "hash", "license", "task", "groq_chips_used",
        "groq_estimated_latency", "nvidia_latency", "x86_latency", "onnx_exported", "onnx_optimized", "onnx_converted",
    ]  # fmt: skip
    assert sorted(row["params"] for row in rows) == ["510", "55", "55"]
    assert all(float(row["x86_latency"]) > 0 for row in rows)
    with mlagility_names():
        from mlagility.api.report import get_dict
    assert get_dict(path, ["onnx_exported"])["hello_world"] == {"onnx_exported": False}


def test_locations_and_the_version(bench, monkeypatch):
    monkeypatch.setenv("MLAGILITY_CACHE_DIR", "/somewhere/else")
    assert "/somewhere/else" in bench("cache", "location")
    folder = bench("models", "location", "--quiet").strip()
    assert Path(folder, "selftest").is_dir()
    assert Path(folder, "transformers", "bert.py").is_file()
    assert Path(folder, "readme.md").is_file()
    assert folder in bench("models", "location")
    assert len(bench("version").split(".")) == len(bench("--version").split(".")) == 3


def test_errors_are_in_benchits_own_name(bench):
    assert bench("gobbledegook", code=2).startswith("benchit: error: ")
    assert "proveout" not in bench("scripts/none.py::xyz", code=2)
    assert "Run: benchit discover" in bench("scripts/hello_world.py::xyz", code=2)
    assert "benchit benchmark --help" in bench("benchmark", "--no-such-option", code=2)
    assert "benchit" in bench("compile", "--help")
    assert main(["gobbledegook"], "proveout") == 2
    assert bench.capsys.readouterr().err.startswith("proveout: error: ")


def test_a_library_s_module_without_parameters_is_a_model_where_a_script_calls_it(bench):
    """As in models/graph_convolutions/skip/appnp.py and lgconv.py."""
    pytest.importorskip("torch_geometric", reason="needs the extra `corpora`")
    Path("lgconv.py").write_text(
        "import torch\nfrom torch_geometric.nn import APPNP, LGConv\n"
        "x, edges = torch.ones(6, 4), torch.ones(2, 6, dtype=torch.long)\n"
        "LGConv()(x=x, edge_index=edges)\nAPPNP(2, 0.5)(x, edges)\ntorch.nn.GELU()(x)\n"
    )
    bench("lgconv.py", *EAGER)
    assert [(job.workload.class_name, job.workload.parameters) for job in bench.proven] == [("LGConv", 0), ("APPNP", 0)]


def test_scripts_of_its_models_folder_import_one_another(bench):
    """As in models/llm_layer/llama_7b_layer.py."""
    layers = Path("models", "llm_layer")
    layers.mkdir(parents=True)
    (layers / "prototype.py").write_text("import torch\n\ndef call(n):\n    torch.nn.Linear(n, n)(torch.ones(1, n))\n")
    (layers / "seven.py").write_text("from mlagility_models.llm_layer.prototype import call\n\ncall(7)\n")
    bench("models/llm_layer/seven.py", *EAGER)
    assert bench.proven[0].workload.parameters == 56


def test_a_script_beside_a_folder_named_mlagility_works(bench):
    Path("scripts/mlagility").mkdir()
    bench("scripts/parsed.py", *EAGER)
    assert len(bench.proven) == 1


# ------------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--device", "nvidia"], 3, "nvidia is device `cuda` here, and"),
        (["--device", "groq"], 3, "a GroqChip needs GroqFlow"),
        (["--runtime", "trt"], 2, "runtime 'trt' is not for device 'x86'"),
        (["--device", "nvidia", "--runtime", "trt"], 3, "needs NVIDIA's TensorRT"),
        (["--runtime", "tvm"], 2, "unknown runtime 'tvm'"),
        (["--backend", "remote"], 2, "--ray ADDRESS"),
        (["--plugins", "x"], 2, "is not needed"),
        (["--use-slurm", "--process-isolation"], 2, "keep one"),
        (["--onnx-opset", "3"], 2, "PyTorch exports to the versions"),
        (["--rebuild", "sometimes"], 2, "'sometimes' is not one of"),
        (["--sequence-file", "nothing.py"], 2, "nothing.py is not a file"),
        (["--runtimes"], 2, "--runtimes takes one value or several, and none follows"),
        (["--labels", "--build-only"], 2, "--labels takes one value or several, and none follows"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_says_what_to_do(bench, words, code, says, monkeypatch):
    monkeypatch.setattr("proveout.devices.registry.GPU_FILES", ())
    assert says in bench("scripts/hello_world.py", *words, code=code)
    assert not bench.proven


@pytest.mark.parametrize("runtime", ["torch-eager", "torch-compiled"])
def test_runtimes_of_pytorch(bench, runtime, monkeypatch):
    monkeypatch.setattr(bench, "prove", lambda job, run=None: bench.proven.append(job) or Record(job, "passed"))
    monkeypatch.setattr("proveout.sweep.tasks.prove", bench.prove)
    bench("scripts/hello_world.py", "--runtime", runtime)
    assert [job.runtime for job in bench.proven] == [{"torch-eager": "eager", "torch-compiled": "inductor"}[runtime]]


@needs_onnx
def test_runtimes_one_after_the_other_and_an_onnx_file_of_the_version_asked_for(bench):
    import onnx

    told = bench("scripts/hello_world.py", "--runtimes", "ort", "torch-eager", "--onnx-opset", "15", "-d", "kept")
    assert "(ort v" in told
    assert "(torch-eager v" in told
    assert [job.runtime for job in bench.proven] == ["ort", "eager"]
    (path,) = Path("kept").rglob("*-base.onnx")
    assert path.parts[-2] == "onnx"
    assert [known.version for known in onnx.load(path).opset_import if not known.domain] == [15]
    assert "onnx_opset: 15" in bench("cache", "stats", f"hello_world_{HELLO_HASH}", "-d", "kept")
    again = bench(str(path), "--iterations", "2", "-d", "kept")
    assert "ONNX file" in again
    assert "Successfully benchmarked on" in again
    bench("scripts/hello_world.py", "--runtime", "ort", "--onnx-opset", "15", "--lean-cache", "-d", "kept")
    assert not list(Path("kept").rglob("*.onnx"))


@needs_onnx
def test_export_only_and_build_only_run_nothing(bench, monkeypatch):
    monkeypatch.setenv("MLAGILITY_ONNX_OPSET", "16")
    told = bench("benchmark", "scripts/hello_world.py", "--export-only", "-d", "out")
    (path,) = Path("out").rglob("*-op16-base.onnx")
    assert "Model successfully built! (compiled" in told
    assert path.name in told
    assert "hello_world on cpu: compiled" in told
    assert "compiled" in bench("scripts/hello_world.py", "--build-only", "--runtime", "torch-eager")
    assert [job.do for job in bench.proven] == [("compile",), ("compile",)]
    monkeypatch.setenv("MLAGILITY_ONNX_OPSET", "many")
    assert "takes a version of ONNX, not 'many'" in bench("scripts/hello_world.py", code=2)


@needs_onnx
def test_a_model_that_takes_a_dict_is_exported_by_both_of_pytorchs_exporters(bench):
    """A script that hands on a batch as its loader gives it; a last dict means keywords to `torch.onnx.export`."""
    Path("batch.py").write_text(
        "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, batch):\n"
        "        return batch['x'] * 2\n\nNet()({'x': torch.ones(1, 4)})\n"
    )
    bench("batch.py", "--iterations", "2", "-d", "new")
    bench("batch.py", "--iterations", "2", "--onnx-opset", "15", "-d", "old")
    bench("batch.py", "--sequence-file", "sequence.py", "--build-only", "-d", "own")
    bench("report", "-d", "new", "-r", "reports")
    (row,) = csv.DictReader(next(Path("reports").glob("*.csv")).open())
    assert float(row["x86_latency"]) > 0
    assert row["groq_chips_used"] == "-"


@needs_onnx
@pytest.mark.parametrize("option", ["--sequence-file", "--sequence"])
def test_a_sequence_file_says_how_the_model_is_built(bench, option):
    bench("benchmark", "scripts/hello_world.py", option, "sequence.py", "--build-only", "-d", "out")
    (state,) = Path("out").rglob("*_state.yaml")
    saved = json.loads(state.read_text())
    assert saved["build_status"] == "successful_build"
    assert saved["info"]["completed_build_stages"] == ["export_pytorch", "set_success"]
    (Path("other.py")).write_text("nothing = 1")
    assert "defines no get_sequence()" in bench("scripts/hello_world.py", option, "other.py", "-d", "out", code=1)


def test_options_that_change_nothing_here_are_taken(bench):
    told = bench(
        "benchmark", "scripts/hello_world.py", "--rebuild", "always", "--groq-num-chips", "1", "--groqview",
        "--groq-compiler-flags=--large-program", "--groq-assembler-flags=--no-metrics", "--build-only",
        "--process-isolation", "--backend", "local", *EAGER,
    )  # fmt: skip
    assert "are for GroqFlow" in told
    assert "built" in told


def test_rebuild(bench):
    bench("scripts/hello_world.py", *EAGER)
    bench("scripts/hello_world.py", *EAGER, "--rebuild", "never")
    assert len(bench.proven) == 1
    bench("scripts/hello_world.py", *EAGER, "--rebuild", "always")
    assert len(bench.proven) == 2


def test_analyze_only_lists_models_and_max_depth_goes_deeper(bench, monkeypatch):
    told = bench("scripts/hello_world.py", "--analyze-only")
    assert told.count("(executed") == 1
    assert HELLO_HASH not in told or "Hash:" in told
    assert bench("scripts/hello_world.py", "--analyze-only", "--max-depth", "1").count("(executed") == 2
    monkeypatch.setenv("MLAGILITY_DEBUG", "True")
    assert "printed" in bench("scripts/hello_world.py", "--analyze-only")
    assert not bench.proven


def test_labels_choose_scripts(bench):
    bench("scripts/hello_world.py", "scripts/two_models.py", "--labels", "test_group::a", *EAGER)
    assert {Path(job.workload.script).name for job in bench.proven} == {"hello_world.py"}
    bench("scripts/*.py", "--labels", "test_group::b", "domain::nlp", *EAGER)
    assert {Path(job.workload.script).name for job in bench.proven} == {"hello_world.py", "two_models.py"}


@pytest.mark.parametrize("given", ["--batch_size=8,--max_seq_len=64", "--batch_size 8 --max_seq_length 64"])
def test_script_arguments_with_commas_or_spaces(bench, given):
    bench("scripts/parsed.py", f"--script-args={given}", *EAGER)
    assert bench.proven[0].workload.inputs[0][1].shape == (8, 64)


def test_resume_leaves_out_what_was_tried_whatever_came_of_it(bench):
    Path("scripts/crash.py").write_text("raise ValueError('crash!')")
    bench("scripts/crash.py", *EAGER, code=1)
    told = bench("scripts/*.py", "--resume", *EAGER)
    assert "1 of 4 scripts were tried before" in told
    assert len(bench.proven) == 4
    assert "every script was tried before" in bench("scripts/*.py", "--resume", *EAGER)


def test_the_timeout_is_mlagilitys_or_the_variables(monkeypatch):
    monkeypatch.delenv("MLAGILITY_TIMEOUT_SECONDS", raising=False)
    assert spelled(["a.py"])[-2:] == ["--timeout", "3600"]
    monkeypatch.setenv("MLAGILITY_TIMEOUT_SECONDS", "1800")
    assert spelled(["a.py"])[-2:] == ["--timeout", "1800"]
    assert "1800" not in spelled(["a.py", "--timeout", "5"])
    monkeypatch.setenv("MLAGILITY_TIMEOUT_SECONDS", "soon")
    with pytest.raises(UsageError, match="MLAGILITY_TIMEOUT_SECONDS takes whole seconds, not 'soon'"):
        spelled(["a.py"])


def test_the_traceback_of_a_failure_can_be_left_out(bench, monkeypatch):
    def failing(job: Job, run: Any = None) -> Record:
        return Record(job, "failed", "no luck", failure="lowering", log="Traceback: here")

    monkeypatch.setattr("proveout.sweep.tasks.prove", failing)
    assert "Traceback: here" in bench("scripts/hello_world.py", *EAGER, code=1)
    monkeypatch.setenv("MLAGILITY_TRACEBACK", "False")
    told = bench("scripts/hello_world.py", *EAGER, "--rebuild", "always", code=1)
    assert "Traceback: here" not in told
    assert "no luck" in told


def test_slurm_is_asked_for_a_job_a_script(bench, monkeypatch):
    assert "there is none on the PATH" in bench("scripts/hello_world.py", "--use-slurm", code=3)
    tools = bench.folder / "bin"
    tools.mkdir()
    sbatch = tools / "sbatch"
    sbatch.write_text('#!/bin/sh\necho "$@" >> submitted\nfor last; do :; done\ncp "$last" "$(basename $last).kept"\n')
    sbatch.chmod(sbatch.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_ML_CACHE", "/shared/downloads")
    bench("scripts/hello_world.py", "-d", "shared", *EAGER)
    told = bench(
        "scripts/hello_world.py", "scripts/two_models.py", "--use-slurm", "--build-only", "-d", "shared", *EAGER
    )
    submitted = Path("submitted").read_text().splitlines()
    assert len(submitted) == 2
    assert "--wait -c 1 --mem=128000 --time=01:00:00 --job-name=hello_world" in "\n".join(submitted)
    job = Path("hello_world.sh.kept").read_text()
    assert "-m proveout.cli.benchit benchmark" in job
    assert "--build-only" in job
    assert "--runtimes torch-eager" in job
    assert "/shared/downloads/huggingface" in job
    assert "--use-slurm" not in job
    assert "Successfully benchmarked" in told, "what the cache has"
    assert "no Record yet of two_models.py" in told
    monkeypatch.setenv("MLAGILITY_SLURM_USE_DEFAULT_MEMORY", "True")
    bench("scripts/hello_world.py", "--use-slurm", "-d", "shared", *EAGER)
    assert "--mem" not in Path("submitted").read_text().splitlines()[-1]


@needs_onnx
def test_a_build_leaves_mlagilitys_files(bench):
    """Its own tests and its users' scripts read the state, the statistics and the times of every build of a script."""
    bench("scripts/hello_world.py", "--runtimes", "ort", "torch-eager", "-d", "kept")
    with mlagility_names():
        import mlagility.common.filesystem as filesystem
        import onnxflow.common.build as build
        import onnxflow.common.cache as cache
        from mlagility.api.ortmodel import ORTModel
    (name,), script = filesystem.get_builds_from_script("kept", "scripts/hello_world.py")
    assert (name.rpartition("_")[0], script) == ("hello_world_mlagility", "hello_world")
    assert name in bench("cache", "list", "-d", "kept")
    (state_file,) = cache.get_all("kept")
    state = build.load_state(state_path=state_file)
    assert state.build_status is build.Status.SUCCESSFUL_BUILD
    assert all(map(os.path.exists, (state.base_onnx_file, state.opt_onnx_file, state.converted_onnx_file)))
    stats = json.loads(Path(filesystem.stats_file("kept", name)).read_text())
    assert stats == filesystem.get_stats("kept", name)
    assert (stats["parameters"], stats["labels"]["author"]) == (55, ["mlagility"])
    assert stats["onnx_model_information"]["opset"] == build.DEFAULT_ONNX_OPSET
    assert (sum(stats["onnx_ops_counter"].values()) > 0, stats["onnx_input_dimensions"]) == (True, {"x": [10]})
    assert len(stats["performance"]) == 2
    timed = ORTModel("kept", name)
    assert timed.throughput == pytest.approx(1e3 / timed.mean_latency)
    bench("report", "-d", "kept", "-r", "reports")
    (path,) = Path("reports").glob("*.csv")
    (row,) = csv.DictReader(path.open())
    assert (row["onnx_exported"], row["onnx_optimized"], row["onnx_converted"]) == ("True", "True", "True")
    assert row["hash"] == stats["hash"] == HELLO_HASH
    bench("cache", "clean", name, "-d", "kept")
    assert not os.path.exists(state.base_onnx_file)
    assert cache.get_all("kept")
    bench("cache", "delete", "--all", "-d", "kept")
    assert not cache.get_all("kept")
    assert not filesystem.get_available_builds("kept")


def test_a_lean_build_has_its_state(bench):
    with mlagility_names():
        import onnxflow.common.build as build
        import onnxflow.common.cache as cache
    bench("scripts/hello_world.py", "--lean-cache", *EAGER, "-d", "kept")
    (state,) = (build.load_state(state_path=path) for path in cache.get_all("kept"))
    assert state.build_status is build.Status.SUCCESSFUL_BUILD


# ------------------------------------------------------------------------------------------------ Python


@pytest.mark.parametrize(
    "words", [("gobbledegook",), ("scripts/hello_world.py", "--device", "x86", "--runtime", "trt")]
)
def test_the_command_line_raises_what_mlagility_raises(bench, words):
    with mlagility_names():
        import onnxflow.common.exceptions as exceptions
        from mlagility.cli.cli import main as benchitcli
    for kind in (exceptions.ArgError, argparse.ArgumentError):
        with pytest.raises(kind):
            benchitcli(words)


def test_modules_below_cli_import_by_every_spelling():
    with mlagility_names():
        import mlagility.api.report as api_report
        import mlagility.cli.cli as cli
        import mlagility.cli.report as report
    assert callable(cli.main)
    assert api_report.get_dict is report.get_dict


def test_benchmark_model_gives_a_measured_performance(bench):
    import torch

    with mlagility_names():
        from mlagility import benchmark_model
        from mlagility.common.labels import load_from_cache
    model, inputs = torch.nn.Linear(10, 5), {"input": torch.rand(10)}
    perf = benchmark_model(model, inputs, "api", runtime="torch-eager", cache_dir="c", iterations=3)
    assert (perf.latency_units, perf.throughput_units) == ("milliseconds (ms)", "inferences per second (IPS)")
    assert perf.mean_latency > 0
    assert perf.throughput == pytest.approx(1e3 / perf.mean_latency)
    assert "Mean Latency" in bench.capsys.readouterr().out
    assert load_from_cache("c", "api") == {"class": ["Linear"]}
    with mlagility_names():
        from onnxflow.common import build
    assert build.load_state("c", "api").build_status is build.Status.SUCCESSFUL_BUILD
    with pytest.raises(ValueError, match="only 'local' is served"):
        benchmark_model(torch.nn.Linear(1, 1), {}, backend="remote")


def test_benchmark_script_is_benchit_with_arguments(bench):
    with mlagility_names():
        from mlagility import benchmark_script
        from mlagility.common.labels import load_from_cache
    benchmark_script(["scripts/hello_world.py"], runtimes=["torch-eager"], cache_dir="c", labels=["test_group::a"])
    assert "Successfully benchmarked on" in bench.capsys.readouterr().out
    assert load_from_cache("c", f"hello_world_{HELLO_HASH}") == {
        "name": ["hello_world"], "author": ["mlagility"], "test_group": ["a"], "class": ["SmallModel"],
    }  # fmt: skip
    with pytest.raises(ValueError, match="unknown runtime"):
        benchmark_script("scripts/hello_world.py", runtimes=["tvm"])


@needs_onnx
def test_build_model_exports_optimises_and_converts(tmp_path, capsys):
    import onnx
    import torch

    with mlagility_names():
        from onnxflow import build_model, load_state
        from onnxflow.common import build
        from onnxflow.justbuildit import export, stage

        class Funny(stage.Stage):
            def fire(self, state: Any) -> Any:
                print("said in its log")
                return state

        model, inputs = torch.nn.Linear(10, 5), {"input": torch.rand(10)}
        made = build_model(model, inputs, "linear", tmp_path)
        assert made.state.build_status is build.Status.SUCCESSFUL_BUILD
        assert made.state.info.all_build_stages == ["export_pytorch", "optimize_onnx", "fp16_conversion", "set_success"]
        numbers = {i.data_type for i in onnx.load(made.state.converted_onnx_file).graph.initializer}
        assert onnx.TensorProto.FLOAT16 in numbers
        assert onnx.TensorProto.FLOAT not in numbers
        build_model(model, inputs, "linear", tmp_path)
        assert "found in the cache" in capsys.readouterr().out
        own = stage.Sequence("own", "Mine", [export.ExportPytorchModel(), Funny("funny", "Fun"), export.SuccessStage()])
        build_model(model, inputs, "linear", tmp_path, sequence=own, onnx_opset=15)
        state = load_state(tmp_path, "linear")
        assert state.info.completed_build_stages == ["export_pytorch", "funny", "set_success"]
        assert [k.version for k in onnx.load(state.base_onnx_file).opset_import] == [15]
        assert "said in its log" in (tmp_path / "linear" / "log_funny.txt").read_text()
        with pytest.raises(ValueError, match=r"not builtins\.object.*skl2onnx"):
            build_model(object(), {})


@needs_onnx
def test_a_build_goes_on_stage_by_stage_without_its_model(tmp_path):
    """test/build_model.py: sequences one after the other, nested ones, and ones that need no model."""
    import numpy as np
    import torch

    with mlagility_names():
        from onnxflow import build_model
        from onnxflow.common import build
        from onnxflow.justbuildit import export, stage

        class Saying(stage.Stage):
            def fire(self, state: Any) -> Any:
                print(self.unique_name, "says")
                return state

        first = stage.Sequence("first", "", [export.ExportPytorchModel()])
        build_model(torch.nn.Linear(10, 5), {"input": torch.rand(10)}, "linear", tmp_path, sequence=first)
        (inputs,) = np.load(tmp_path / "linear" / "inputs.npy", allow_pickle=True)
        assert inputs["input"].dtype == np.float32
        for step in (export.OptimizeOnnxModel(), export.ConvertOnnxToFp16(), export.SuccessStage()):
            one = stage.Sequence(f"only_{step.unique_name}", "", [step])
            state = build_model(build_name="linear", cache_dir=tmp_path, sequence=one).state
        assert state.build_status is build.Status.SUCCESSFUL_BUILD
        assert Path(state.converted_onnx_file).is_file()
        assert state.info.completed_build_stages == list(state.config.sequence)
        (inputs,) = np.load(state.original_inputs_file, allow_pickle=True)
        assert inputs["input"].dtype == np.float16
        assert build_model(build_name="linear", cache_dir=tmp_path).state.config.sequence == state.config.sequence
        inner = stage.Sequence("inner", "", [Saying("one", ""), Saying("two", "")])
        outer = stage.Sequence("outer", "", [inner, Saying("three", "")])
        build_model(build_name="talk", cache_dir=tmp_path, sequence=outer, rebuild="always")
        assert [(tmp_path / "talk" / f"log_{n}.txt").read_text() for n in ("one", "two", "three")] == [
            "one says\n", "two says\n", "three says\n",
        ]  # fmt: skip
        with pytest.raises(ValueError, match=r"holds no build 'nowhere'"):
            build_model(build_name="nowhere", cache_dir=tmp_path)


@needs_onnx
def test_an_onnx_file_keeps_its_opset_and_one_too_old_is_refused(tmp_path):
    """test/build_model.py: the state says the file's own version; below 13 the build ends with a StageError."""
    import onnx
    from onnx import TensorProto, helper

    def file(opset: int) -> str:
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.save(model, tmp_path / f"{opset}.onnx")
        return str(tmp_path / f"{opset}.onnx")

    with mlagility_names():
        from onnxflow import build_model
        from onnxflow.common import build
        from onnxflow.common.exceptions import StageError

        made = build_model(file(build.MINIMUM_ONNX_OPSET), None, "received", tmp_path)
        assert made.state.config.onnx_opset == build.MINIMUM_ONNX_OPSET
        with pytest.raises(StageError, match=r"opset 12, and builds take 13 and later"):
            build_model(file(12), None, "old", tmp_path)
        with pytest.raises(ValueError, match=r"of opset 13, not of 15"):
            build_model(file(13), None, "other", tmp_path, onnx_opset=15)


def test_words_are_spelled_as_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("scripts", "cache"):
        Path(name).mkdir()
    assert spelled(["scripts"])[:2] == ["benchmark", "scripts"]
    assert spelled(["scripts.txt"])[:2] == ["benchmark", "scripts.txt"]
    assert spelled(["cache", "list"]) == ["cache", "list"]
    assert spelled(["a.py", "--groq-compiler-flags", "--large"])[2:4] == ["--groq-compiler-flags", "--large"]
    assert repeated(["benchmark", "--runtimes", "ort", "torch-eager", "a.py"]) == [
        "benchmark", "--runtimes", "ort", "--runtimes", "torch-eager", "a.py",
    ]  # fmt: skip
    assert spelled(["report", "-d", "a", "b"]) == ["report", "--cache-dir", "a", "--cache-dir", "b"]
    assert script_arguments("--batch_size=8,--max_seq_len=128") == "--batch_size=8 --max_seq_len=128"
    assert script_arguments("--shape 1,2") == "--shape 1,2"
    assert spelled([]) == ["--help"]
    assert spelled(["selftest/__init__.py", "selftest/linear.py"])[:3] == [
        "benchmark",
        "selftest/linear.py",
        "--device",
    ]


# ---- its list of scripts and builds (test/database.py) --------------------------------------------------------------


@pytest.fixture
def database(tmp_path):
    with mlagility_names():
        from mlagility.common import filesystem

        filesystem.make_cache_dir(tmp_path / "cache")
        filesystem.check_cache_dir(tmp_path / "cache")
        yield filesystem.CacheDatabase(str(tmp_path / "cache"))


def test_a_script_goes_from_the_list_with_its_last_build(database):
    """test/database.py, 006 to 009."""
    assert not database.exists()
    for script, build in (("one", "one_a"), ("one", "one_b"), ("two", "two_a")):
        database.add_build(script, build)
    database.remove_build("one_a")
    assert database.script_in_database("one")
    database.remove_build("one_b")
    assert not database.script_in_database("one")
    assert database.exists()
    assert database.remove_script("two") == {}
    assert not database.exists()
    with pytest.raises(UsageError, match="two is not in the list"):
        database.remove_script("two")


def test_processes_that_add_scripts_at_once_lose_none(database):
    """test/database.py, 012."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=database.add_script, args=(f"s{n}",)) for n in range(20)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert all(database.script_in_database(f"s{n}") for n in range(20))


def test_a_damaged_list_and_a_folder_that_is_no_cache_are_told(database, tmp_path):
    (tmp_path / "cache" / ".cache_database.yaml").write_text("- a\n- b\n")
    with pytest.raises(UsageError, match="is not a list of scripts"):
        database.exists()
    with mlagility_names():
        from mlagility.common import filesystem

        with pytest.raises(filesystem.CacheError, match="is not a cache of MLAgility"):
            filesystem.get_available_builds(tmp_path)
        filesystem.make_build_dir(tmp_path / "cache", "b1")
        assert filesystem.get_available_builds(tmp_path / "cache") == ["b1"]
