"""What MLAgility's manual documents, each with its source in `groq/mlagility`, what it is here, and whether it works.

The page docs/reference/mlagility.md is made of these rows: `python tests/conformance/mlagility/manual.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mlagility.md"


class Row(NamedTuple):
    name: str
    source: str
    here: str
    served: bool = True
    """False: it ends with a sentence that says what to type instead."""


GUIDE, CLI, BUILD, CACHE = (
    "docs/tools_user_guide.md",
    "examples/cli/readme.md",
    "examples/cli/build.md",
    "examples/cli/cache.md",
)
FIND, MODELS, INSTALL = "examples/cli/discovery.md", "models/readme.md", "docs/install.md"

COMMANDS = [
    Row("benchit SCRIPT", CLI, "`benchit benchmark SCRIPT`; also of a folder, or a list of scripts (`.txt`)"),
    Row(
        "benchit benchmark SCRIPT…",
        GUIDE,
        "finds the models of the scripts, builds and times them; folders, globs and lists are taken too",
    ),
    Row("benchit FILE.onnx", CLI, "times the file as it is with ONNX Runtime"),
    Row(
        "benchit SCRIPT::HASH,HASH",
        FIND,
        "only these models: our hash of 12 digits, or MLAgility's of 8; the script's others are listed",
    ),
    Row("benchit cache list", GUIDE, "names of the builds: script, author and MLAgility's hash"),
    Row(
        "benchit cache stats BUILD",
        GUIDE,
        "all Records of a build, as indented lines; `--json` for all of it. BUILD may have MLAgility's hash",
    ),
    Row("benchit cache print BUILD", GUIDE, "the same"),
    Row("benchit cache delete BUILD | --all", GUIDE, "forgets builds: their Records and folders"),
    Row(
        "benchit cache clean BUILD | --all",
        GUIDE,
        "deletes ONNX files; with `--all` compiled Programs and discoveries too",
    ),
    Row(
        "benchit cache report",
        GUIDE,
        "a CSV file, named by the day, with MLAgility's columns; `-` where Groq's tools would have to say it",
    ),
    Row(
        "benchit cache location",
        GUIDE,
        "where the cache is: `$MLAGILITY_CACHE_DIR`, `$PROVEOUT_CACHE` or `~/.cache/proveout`",
    ),
    Row("benchit report", MODELS, "`benchit cache report`; with `-o DIR` the files of `proveout report`"),
    Row("benchit models location", GUIDE, "the folder of the corpora"),
    Row("benchit version", GUIDE, "the version number alone; also `benchit --version`"),
    Row("benchit COMMAND --help", GUIDE, "the options of a command"),
]
OPTIONS = [
    Row("--device x86", GUIDE, "this machine's CPU; the default of `benchit` (`proveout`'s is `sim`)"),
    Row("--device nvidia", GUIDE, "device `cuda`; where there is no GPU, a sentence and exit code 3"),
    Row("--device groq", GUIDE, "needs GroqFlow; for a modelled accelerator: `--device sim`", served=False),
    Row(
        "--runtime ort",
        GUIDE,
        "exports the model to ONNX and runs ONNX Runtime; the default on `x86` where it is installed",
    ),
    Row("--runtime torch-eager", GUIDE, "PyTorch as it is: `proveout … --runtime eager`"),
    Row("--runtime torch-compiled", GUIDE, "torch.compile with Inductor: `proveout … --runtime inductor`"),
    Row(
        "--runtime trt", GUIDE, "TensorRT is not driven; `--device nvidia` alone uses kernels of our own", served=False
    ),
    Row("--runtimes A B", GUIDE, "several, one after the other"),
    Row("--backend local", GUIDE, "as it always is"),
    Row("--backend remote", GUIDE, "other machines: `--ray ADDRESS`, or `--use-slurm`", served=False),
    Row(
        "--use-slurm",
        GUIDE,
        "each script as a job submitted by `sbatch --wait`; its job script and output are in `CACHE/slurm`",
    ),
    Row("--process-isolation", GUIDE, "taken; every model always has a process of its own"),
    Row("--cache-dir DIR, -d DIR", GUIDE, "folder of the builds"),
    Row("--lean-cache", GUIDE, "keeps Records, no ONNX files and compiled Programs"),
    Row("--rebuild if_needed|always|never", GUIDE, "whether to make what is in the cache"),
    Row(
        "--sequence-file FILE",
        GUIDE,
        "the build's stages are those that FILE's `get_sequence()` gives; also `--sequence FILE`",
    ),
    Row("--script-args ARGS", GUIDE, "words as in a shell, or with commas: `--batch_size=8,--max_seq_len=128`"),
    Row("--max-depth N", GUIDE, "submodules so many calls deep are models too"),
    Row("--onnx-opset N", GUIDE, "the version of the ONNX file, 9 to 23"),
    Row("--analyze-only", GUIDE, "lists the models"),
    Row("--build-only", GUIDE, "builds them, runs nothing; the status is `compiled`"),
    Row("--export-only", GUIDE, "writes `CACHE/BUILD/onnx/BUILD-opN-base.onnx`, runs nothing"),
    Row("--resume", GUIDE, "leaves out scripts that have a Record in the cache, passed or failed"),
    Row("--labels key::value …", GUIDE, "only scripts with all of these labels; of several values of one key, any"),
    Row(
        "--groq-compiler-flags FLAG …",
        GUIDE,
        "taken and ignored with a line that says so: `--set KEY=VALUE` sets our compiler",
    ),
    Row("--groq-assembler-flags FLAG …", GUIDE, "the same"),
    Row("--groq-num-chips N", GUIDE, "the same; several chips here: `--device sim:n300`"),
    Row("--groqview", GUIDE, "the same; a model's times and memory: `proveout perf`"),
    Row("--report-dir DIR, -r DIR", GUIDE, "where the CSV file goes"),
    Row("--quiet", GUIDE, "`models location`: the folder alone"),
    Row(
        "--plugins NAME",
        "later versions",
        "other packages' devices are found by themselves: `proveout devices`",
        served=False,
    ),
]
VARIABLES = [
    Row("MLAGILITY_CACHE_DIR", GUIDE, "the cache of `benchit` where `--cache-dir` names none"),
    Row("MLAGILITY_TRACEBACK", GUIDE, "`False`: a failed model's reason without the last lines of its log"),
    Row(
        "MLAGILITY_DEBUG",
        GUIDE,
        "the terminal is never cleared; `True` prints what scripts print under `--analyze-only`",
    ),
    Row("MLAGILITY_ONNX_OPSET", GUIDE, "the version of ONNX where `--onnx-opset` names none"),
    Row("MLAGILITY_TIMEOUT_SECONDS", GUIDE, "seconds for each model where `--timeout` says none; else 3600"),
    Row("SLURM_ML_CACHE", INSTALL, "where Slurm's jobs keep downloads"),
    Row("HUGGINGFACE_API_KEY", INSTALL, "handed to Slurm's jobs as `HF_TOKEN`"),
    Row("MLAGILITY_SLURM_USE_DEFAULT_MEMORY", "src/mlagility/cli/spawn.py", "`True`: jobs ask for no `--mem`"),
]
NAMES = [
    Row("mlagility.benchmark_script", GUIDE, "`benchit benchmark` with arguments for options; all of MLAgility's are taken"),
    Row("mlagility.benchmark_model", GUIDE, "times a live model in this process, 100 calls; a `MeasuredPerformance`"),
    Row("mlagility.benchitcli", "src/mlagility/__init__.py", "`benchit` on this process's words; what is wrong is raised"),
    Row("mlagility.parser.parse", MODELS, "the standard parameters; a beginning that only one has is enough"),
    Row("mlagility.common.labels.load_from_cache", MODELS, "labels of a build or model in a cache; its class is the label `class`"),
    Row("mlagility.common.labels.load_from_file", "src/mlagility/common/labels.py", "labels of a script"),
    Row("mlagility.common.labels.to_dict", "src/mlagility/common/labels.py", "labels as a dict"),
    Row("mlagility.common.labels.is_subset", "src/mlagility/common/labels.py", "whether labels fit"),
    Row("mlagility.common.filesystem.MODELS_DIR", INSTALL, "the folder of the corpora"),
    Row("mlagility.common.filesystem.DEFAULT_CACHE_DIR", GUIDE, "the cache"),
    Row("mlagility.common.filesystem.make_cache_dir", "test/database.py", "a folder that is marked as a cache"),
    Row("mlagility.common.filesystem.CacheDatabase", "test/database.py", "scripts and their builds; `benchit` adds its own"),
    Row("mlagility.common.filesystem.get_builds_from_script", "test/cli.py", "the builds of a script in a cache"),
    Row("mlagility.common.filesystem.get_available_builds", "test/cli.py", "every build in a cache"),
    Row("mlagility.common.filesystem.get_stats", "src/mlagility/common/filesystem.py", "a build's `mlagility_stats.yaml`: hash, parameters, labels, what its ONNX file holds, times"),
    Row("mlagility.common.filesystem.save_stat", "src/mlagility/common/filesystem.py", "adds to them; `add_sub_stat` below a key"),
    Row("mlagility.api.ortmodel.ORTModel", "test/cli.py", "the times of a build, read back; `trtmodel.TRTModel` those of a file from elsewhere"),
    Row("mlagility.filesystem.DEFAULT_CACHE_DIR", GUIDE, "the same, as the manual spells it"),
    Row("mlagility.filesystem.MODELS_DIR", GUIDE, "the same"),
    Row("mlagility.cli.spawn.DEFAULT_TIMEOUT_SECONDS", GUIDE, "3600, or the variable's"),
    Row("mlagility.cli.cli.main", "docs/code.md", "`benchit`"),
    Row("mlagility.api.script_api.benchmark_script", "docs/code.md", "`benchmark_script`"),
    Row("mlagility.api.model_api.benchmark_model", "docs/code.md", "`benchmark_model`"),
    Row("mlagility.api.performance.MeasuredPerformance", "docs/code.md", "`mean_latency`, `latency_units`, `throughput`, `throughput_units`; `kind` is measured or modelled"),
    Row("mlagility.api.devices.SUPPORTED_DEVICES", "src/mlagility/api/devices.py", "its devices and their runtimes"),
    Row("mlagility.api.report.get_dict", "src/mlagility/api/report.py", "columns of a report's CSV file, by model"),
    Row("mlagility.version.__version__", "docs/code.md", "our version"),
    Row("onnxflow.build_model", "docs/code.md", "exports a PyTorch model or takes an ONNX file, optimises it with ONNX Runtime, converts it to float16; without a model, takes a build in the cache further; Keras and scikit-learn models are refused with what exports them"),
    Row("onnxflow.load_state", "src/onnxflow/__init__.py", "a build's state"),
    Row("onnxflow.common.build.DEFAULT_ONNX_OPSET", GUIDE, "20, which PyTorch's exporter writes where nothing is asked, or the variable's"),
    Row("onnxflow.common.build.State", "docs/code.md", "handed from stage to stage; `original_inputs_file` is `BUILD/inputs.npy`, float16 once the ONNX file is"),
    Row("onnxflow.common.build.Status", "docs/code.md", "how far a build is"),
    Row("onnxflow.common.stage.Sequence", GUIDE, "stages in their order"),
    Row("onnxflow.justbuildit.stage.Sequence", "examples/cli/extras/example_sequence.py", "the same"),
    Row("onnxflow.justbuildit.stage.Stage", "docs/code.md", "a step of a build; `fire(state)` is the user's"),
    Row("onnxflow.justbuildit.export.ExportPytorchModel", "examples/cli/extras/example_sequence.py", "`export_pytorch`"),
    Row("onnxflow.justbuildit.export.ReceiveOnnxModel", "docs/code.md", "`receive_onnx`; the build has the file's own opset, 13 or later"),
    Row("onnxflow.justbuildit.export.OptimizeOnnxModel", "docs/code.md", "`optimize_onnx`"),
    Row("onnxflow.justbuildit.export.ConvertOnnxToFp16", "docs/code.md", "`fp16_conversion`, by ONNX Runtime's converter"),
    Row("onnxflow.justbuildit.export.SuccessStage", "examples/cli/extras/example_sequence.py", "`set_success`"),
    Row("onnxflow.common.exceptions.StageError", "docs/code.md", "a stage that cannot go on"),
]  # fmt: skip
TITLES = {"Commands": COMMANDS, "Options": OPTIONS, "Variables": VARIABLES, "Python names": NAMES}

HEAD = """# MLAgility: every name and option of its manual, and what it does here

Generated by `tests/conformance/mlagility/manual.py`; do not edit. Each row has a test in the same folder.

`benchit` is MLAgility's command line: everything its manual documents, and everything that `proveout` takes besides. Its
Python names import in scripts that `benchit` runs, and in plain Python after `proveout compat on`. ✘ marks what ends with a
sentence that says what to type instead.

What differs, and why: a model is named by its script and class (scripts' variables are not looked at); our hash has 12
digits and covers parameters and buffers too; MLAgility's own names builds, is shown beside it and taken everywhere; times come from 5 s of
calls, or `--iterations 100`, with an interval and a verdict in the Record; what is timed is the exported file, float32 as the
model is, which ONNX Runtime optimises when it loads it (a build has optimised and float16 files too); a Record in the cache
is shown, not measured again (`--rebuild always`). A script that crashes does not end `benchit`, and a model that its script
compiled is benchmarked as it was before.

## Its own tests

Run as they are against these names, with PyTorch 2.13 and timm 1.0: `database` 12 of 12, `model_api` 4 of 4, `cli` 16 of the 18
that it does not skip, `analysis` 12 of 14, `build_model` 11 of 19. `gpu` and Slurm's were not run. The others:

| test | what it asks for | here |
|---|---|---|
| cli 012 | a script that crashes ends `benchit`; `--resume` goes on | the next script runs at once |
| cli 018 | a model that its script compiled is left out | it is benchmarked, as it was before |
| analysis 11, 15 | a count of models by the names of variables; by timm's insides of 2023 | every module that is called, to `--max-depth` |
| build_model 003, 004 | Keras models | refused with what exports them |
| build_model 006, 007, 016, 018 | scikit-learn, XGBoost and LightGBM by Hummingbird | refused with what exports them |
| build_model 012, 015 | files that PyTorch exported to opset 12 and 13 | pass with `torch.onnx.export(…, dynamo=False)`: PyTorch's new exporter writes 18 |
"""


def page() -> str:
    lines = [HEAD]
    for title, rows in TITLES.items():
        lines += [f"\n## {title}\n", "| MLAgility | here | its source |", "|---|---|---|"]
        lines += [f"| `{_cell(r.name)}` | {'' if r.served else '✘ '}{_cell(r.here)} | {r.source} |" for r in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
