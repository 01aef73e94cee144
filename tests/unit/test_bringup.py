"""Bring-up of a small model: what the stages leave, that they are resumed, and that a failure is told."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import proveout
from proveout.bringup import STAGES, BringupJob, Folder, card, flow, missing, optimise, report_page, summary, trace
from proveout.bringup.code import WrittenClasses, write_graph
from proveout.bringup.data import DATA, EndToEndData, Exactness, MissingData, ModulesData, OptimiseData
from proveout.bringup.exactness import own_thresholds
from proveout.bringup.flow import bring_up, run_stages
from proveout.bringup.graph import GraphOp, _boxes
from proveout.bringup.graph_page import render
from proveout.bringup.method_text import at, indented
from proveout.bringup.modules import _graph, _input_names
from proveout.bringup.report import figures
from proveout.bringup.sizes import sized
from proveout.bringup.stages import NUMBERS, with_needs
from proveout.bringup.subject import Subject
from proveout.bringup.tree import attribute_of, tree_of
from proveout.capture import discover
from proveout.capture.identity import workload_of
from proveout.chip.specs import CHIPS
from proveout.cli import main
from proveout.coding import to_json
from proveout.errors import CompileError, EnvironmentFault
from proveout.program import Construct, Ref, Step
from proveout.reasons import NO_ELEMENTS, NOT_A_DTYPE, RANDOM
from proveout.report.drawing import element
from proveout.report.script import call_line, in_words
from proveout.store import Store
from proveout.tune.certificate import Rejected
from proveout.types import Fallback, Origin, Settings, TensorSpec

SCRIPT = """# labels: name::small licence::apache-2.0 task::testing
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x + torch.nn.functional.gelu(self.linear(x)))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(64, 32)

    def forward(self, x, kept):
        for block in self.blocks:
            x = block(x)
        return self.head(x), x * kept.cumprod(1).to(torch.bool).unsqueeze(-1)


model = Small().eval()
with torch.no_grad():
    model(torch.randn(2, 32, 64), torch.ones(2, 32, dtype=torch.int64))
"""


def asked_for(folder, text=SCRIPT, tests=False) -> BringupJob:
    script = folder / "small.py"
    script.write_text(text)
    os.utime(script, (1_700_000_000, 1_700_000_000))
    (workload,) = discover(script).workloads
    return BringupJob(workload, settings=Settings(precision="bfloat16"), tests=tests)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One model brought up, once: what was asked, and the folder."""
    folder = tmp_path_factory.mktemp("bringup")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVEOUT_CACHE", str(folder / "cache"))
        asked = asked_for(folder)
        run_stages(asked, Folder(folder / "out"), STAGES)
    return asked, folder / "out"


def outcomes(folder: Path):
    return {o.name: o for o in Folder(folder).outcomes()}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
def test_every_stage_of_a_small_model_is_done(made):
    _, folder = made
    found = outcomes(folder)
    # The mask's product stays on the host: whatever tells of that needs a look, and so does the report.
    wanted = dict.fromkeys(NUMBERS, "passed") | dict.fromkeys(("graph", "missing", "report"), "attention")
    wanted["decoder"] = "skipped"  # it generates no text
    assert {name: o.status for name, o in found.items()} == wanted
    assert "nothing to look at" not in found["report"].headline
    assert "generated tests were not run" in (folder / "report.md").read_text()
    assert all((folder / name).is_file() for o in found.values() for name, _ in o.files)
    expected = {
        "card.md", "graph.svg", "graph.html", "summary.md", "missing.md", "ttnn_model.py", "tests/test_ops.py",
        "tests/test_modules.py", "tests/test_trace.py", "optimise.md", "report.html", "report.md", "perf/perf.json",
    }  # fmt: skip
    assert expected <= contents(folder).keys()


@pytest.mark.slow
def test_its_time_is_a_record_with_interval_and_verdict(made):
    (record,), bad = Store(made[1] / "records").records()
    (timing,) = record.timings
    assert bad == []
    assert (timing.what, timing.kind, timing.verdict) == ("device", "modelled", "predicted")  # a cast is the host's
    low, high = timing.interval_ns
    assert low < timing.median_ns < high
    assert record.job.workload == made[0].workload


@pytest.mark.slow
def test_every_stage_s_figures_are_read_back_as_they_were_written(made):
    folder = Folder(made[1])
    assert list(DATA) == [stage.name for stage in STAGES[:-1]]
    for name, kind in DATA.items():
        written = json.loads(folder.file_of(name).read_text())["data"]
        data = folder.data(kind)
        assert (to_json(data) if data is not None else {}) == written, name
    assert [name for name, kind in DATA.items() if folder.data(kind) is None] == ["decoder"], "it does not apply"


@pytest.mark.slow
def test_figures_of_another_form_are_none_and_stop_nobody(made, tmp_path):
    folder = Folder(shutil.copytree(made[1], tmp_path / "older"))
    for document in ([], {"data": []}, {"data": {"speedup": "fast"}}, {}):
        folder.file_of("optimise").write_text(json.dumps(document))
        assert folder.data(OptimiseData) is None
    assert "optimise" not in [o.name for o in folder.outcomes()]


@pytest.mark.slow
def test_the_card_is_filled(made):
    text = (made[1] / "card.md").read_text()
    for fact in ("Small", "apache-2.0", "testing", "FLOPs", "float32[2,32,64]", "int64[2,32]", "wormhole"):
        assert fact in text


@pytest.mark.slow
def test_both_numerics_are_compared_and_the_report_says_whether_fast_can_be_trusted(made):
    trust = Folder(made[1]).data(EndToEndData).trust
    assert trust.trusted is True
    assert all(o.fast_pcc != o.faithful_pcc for o in trust.outputs)
    for page in ("report.md", "report.html"):
        assert "fast&#x27;s PCC can be trusted for this model" in (made[1] / page).read_text().replace("'", "&#x27;")


@pytest.mark.slow
def test_the_report_says_which_op_the_error_comes_from(made):
    (graph,) = Folder(made[1]).data(EndToEndData).why
    assert graph.said[0].startswith("No op stands out: the error is spread over ")
    assert "The largest share is " in graph.said[0]
    assert "of ttnn." in graph.said[0]
    assert graph.svg == (made[1] / "explain.svg").read_text()
    for page in ("report.md", "report.html"):
        assert graph.said[0].rstrip(".") in (made[1] / page).read_text().replace("&#x27;", "'")


def test_parameters_that_modules_share_count_once_as_on_the_card(tmp_path):
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight
    (tmp_path / "graph.json").write_text('{"ops": []}')
    given = SimpleNamespace(workload=SimpleNamespace(name="tied"))
    subject = SimpleNamespace(
        model=model, call=((torch.tensor([1]),), {}), bringup=given, folder=SimpleNamespace(path=tmp_path)
    )
    written = {}
    summary.run(subject, SimpleNamespace(text=written.__setitem__, json=written.__setitem__))
    assert workload_of(model, (), {}).parameters == 40
    assert "\n40 parameters; " in written["summary.md"]
    assert "| `(model)` | Sequential | 1 | 1×10 | 40 (0) | 1 |" in written["summary.md"]


@pytest.mark.slow
def test_alike_modules_share_a_class(made):
    text = (made[1] / "ttnn_model.py").read_text()
    assert text.count("class Block") == 2  # the first one's input is the model's and stays for the next call
    assert "self.blocks = [Block2(device, tensors, at(path, f'blocks.{i}')) for i in range(1, 3)]" in text
    assert "for layer in self.blocks:\n            hidden = layer(hidden" in text


@pytest.mark.slow
def test_the_written_model_is_the_optimised_one(made):
    """What the search chose is in the code, and the code is what the report names."""
    text = (made[1] / "ttnn_model.py").read_text()
    settings = Folder(made[1]).data(OptimiseData).settings
    chosen = {(what, value) for _, what, value in settings.per_op}
    fidelities = {f"ttnn.MathFidelity.{value}" for what, value in chosen if what == "fidelity"}
    formats = {f"dtype=ttnn.{value}" for what, value in chosen if what in ("weights", "result")}
    assert fidelities
    assert formats
    assert {name for name in fidelities | formats if name not in text} == set()
    assert NUMBERS["optimise"] < NUMBERS["modules"] < NUMBERS["trace"]


@pytest.mark.slow
def test_the_written_model_has_torchs_names(made):
    text = (made[1] / "ttnn_model.py").read_text()
    assert "def send(self, x, kept)" in text
    assert "arg0_1" not in text
    assert "weight_2" not in text


@pytest.mark.slow
def test_the_written_model_runs_on_twice_the_batch(made):
    """The stage tries it, and the code says it."""
    assert Folder(made[1]).data(ModulesData).any_batch
    assert "`python ttnn_model.py --copies 2` runs it on twice the batch" in (made[1] / "ttnn_model.py").read_text()


CONFIG = Construct.of("ttnn.MatmulMultiCoreReuseMultiCastProgramConfig", per_core_M=2)


@pytest.mark.parametrize(
    ("kernel", "attrs", "written"),
    [
        ("ttnn.reshape", {"shape": (4, 32, 8)}, "x, shape=[-1, 32, 8])"),
        ("ttnn.reshape", {"shape": (1, 1, 128, 8)}, "x, shape=[1, 1, -1, 8])"),
        ("ttnn.reshape", {"shape": (1, 3, 8)}, "x, shape=[1, 3, 8])"),
        ("ttnn.slice", {"slice_start": (0, 0, 2), "slice_end": (4, 32, 6)}, "slice_end=[x.shape[0], x.shape[1], 6])"),
        ("ttnn.add", {"other": Ref("table")}, "x, other=at_batch(self.table, x, 0))"),
        ("ttnn.add", {"other": Ref("row")}, "x, other=self.row)"),
        (
            "ttnn.max_pool2d",
            {"batch_size": 4, "input_h": 1, "input_w": 1},
            "batch_size=x.shape[0], input_h=1, input_w=1)",
        ),
        ("ttnn.linear", {"program_config": CONFIG}, f"program_config=at_shape(x, [4, 32, 8], {CONFIG}))"),
    ],
)
def test_sizes_are_read_from_the_tensors_where_the_batch_decides_them(kernel, attrs, written):
    shapes = {"x": (4, 32, 8), "table": (4, 32, 8), "row": (1, 32, 8)}
    if kernel == "ttnn.max_pool2d":
        shapes["x"] = (4, 1, 1, 8)
    specs = {name: TensorSpec(shape, "bfloat16") for name, shape in shapes.items()}
    names = {"x": "x", "table": "self.table", "row": "self.row", "y": "y"}
    step = Step(kernel, (("input_tensor", Ref("x")), *attrs.items()), ("y",))
    assert call_line(sized(step, specs, names, 4, {"table", "row"}), names).endswith(written)


@pytest.mark.slow
def test_a_model_whose_batch_matters_keeps_its_numbers_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / "cache"))
    script = "import torch\nfrom torch import nn\n\n\nclass Sums(nn.Linear):\n"
    script += "    def forward(self, x):\n        return super().forward(x).cumsum(0)\n\n\n"
    job = asked_for(tmp_path, f"{script}Sums(32, 32)(torch.randn(2, 32))\n")
    folder = Folder(tmp_path / "out")
    run_stages(job, folder, [stage for stage in STAGES if stage.name in with_needs("modules")])
    assert not folder.data(ModulesData).any_batch
    assert "another batch needs another bring-up" in (folder.path / "ttnn_model.py").read_text()
    (sentence,) = [f for o in folder.outcomes() if o.name == "modules" for f in o.findings if "twice the batch" in f]
    assert sentence.startswith("its sizes are the example's")


def test_every_mode_times_the_same_programs():
    """What only a trace allows was once compiled anew without one, and failed the stage."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).eval()
    settings = Settings(precision="bfloat16", trace=True, per_op=(("only in a trace", "weights", "bfloat8_b"),))
    programs = proveout.compile(model, (torch.randn(32, 64),), settings={"precision": "bfloat16"}).programs
    plans = trace._plans(programs, SimpleNamespace(optimised=settings, chip=CHIPS["n150"]))
    assert list(plans) == [name for name, _, _ in trace.MODES]
    assert plans["trace"] < plans["none"]


@pytest.mark.slow
def test_a_folded_batch_norm_is_arithmetic_on_torchs_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / "cache"))
    script = "import torch\nfrom torch import nn\n"
    script += "model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()\n"
    job = asked_for(tmp_path, f"{script}model(torch.randn(1, 3, 8, 8))\n")
    subject = Subject(job, Folder(tmp_path / "out"))
    written = WrittenClasses()
    write_graph(_graph(subject, 0, subject.runs()[0], job.settings), written)
    text = "\n".join(written.order)
    assert "'1.running_var'" in text
    assert "'1.running_mean'" in text
    assert ".held." not in text
    assert "Tensor_2" not in text
    assert "rsqrt = add.rsqrt()" in text
    assert "mul = rsqrt * tensors['1.weight']" in text


@pytest.mark.slow
def test_a_missing_op_has_an_issue_with_a_repro_that_was_run(made):
    (line,) = Folder(made[1]).data(MissingData).lines
    assert line.aten == "aten.cumprod.default"
    assert line.repro.startswith("run here: the same op stays on the host for the same reason; ")
    assert "ttnn.cumprod takes" in line.repro  # and the script meets ttnn's own refusal
    text = (made[1] / line.file).read_text()
    assert "### Is your feature request related to a problem? Please describe" in text  # tt-metal's own headings
    assert "small.py:26: return self.head(x), x * kept.cumprod(1)" in text
    assert "\nimport ttnn\n" in text
    assert "`torch.cumprod`" in text


@pytest.mark.parametrize(
    ("aten", "written"),
    [
        ("aten._linalg_svd.default", "torch.linalg.svd"),
        ("aten._fft_r2c.default", "torch.fft.rfft"),
        ("aten.cumprod.default", "torch.cumprod"),
        ("aten.native_dropout.default", "torch.native_dropout"),
        ("mine.strange.default", "mine.strange.default"),
    ],
)
def test_an_op_is_called_as_a_person_writes_it(aten, written):
    assert missing.torch_name(aten) == written


def test_what_no_kernel_would_change_has_no_issue_text():
    random = Fallback("aten.rand.default", "draws", 1, "fix", cause=RANDOM())
    once = Fallback("aten.cat.default", "weights", 1, "nothing to do", once=True)
    empty = Fallback("aten.cat.default", "no elements", 1, "nothing to do", cause=NO_ELEMENTS())
    cause = NOT_A_DTYPE(dtype="complex64")
    complex_abs = Fallback("aten.abs.default", "a dtype", 1, "two real tensors", cause=cause)
    assert all(missing.needs_none(line) for line in (random, once, empty, complex_abs))
    assert not missing.needs_none(Fallback("aten._fft_r2c.default", str(cause), 1, "", cause=cause))


@pytest.mark.slow
def test_generated_tests_pass_with_plain_pytest_and_the_model_runs_alone(made, tmp_path):
    """In another folder, and with nothing of this checkout's test configuration."""
    folder = shutil.copytree(made[1], tmp_path / "copy")
    plain = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "tests"]
    how = {"cwd": folder, "capture_output": True, "text": True, "check": False}
    how["env"] = {**os.environ, "PYTHONPATH": str(Path(proveout.__file__).parents[1])}
    ran = subprocess.run(plain, **how)
    assert ran.returncode == 0, ran.stdout[-2000:]
    alone = subprocess.run([sys.executable, "ttnn_model.py"], **how)
    assert alone.stdout.count("as compiled") == 2, alone.stderr[-2000:]


def test_a_stage_alone_brings_what_it_reads():
    assert with_needs("perf") == ["card", "reference", "graph", "optimise", "perf"]
    assert with_needs("card") == ["card"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["small.py", "--stage", "prefs"], "unknown stage 'prefs'; valid: card,"),
        (["small.py", "--device", "cpu"], "bring-up is for a modelled chip, and device 'cpu' is none"),
    ],
)
def test_what_cannot_be_right_is_refused_before_any_work(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bringup", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("bringup"))


@pytest.mark.slow
def test_running_it_again_leaves_every_file_as_it_is(made):
    asked, folder = made
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    run_stages(asked, Folder(folder), STAGES)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == before


KILLED = """
import json, os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from proveout.bringup import STAGES, BringupJob, Folder, summary
from proveout.bringup.flow import find_stage, run_stages
from proveout.coding import from_json

request = json.loads(sys.stdin.read())
stage = find_stage(request["killed"])
run = stage.run

def run_and_die(subject, files):
    run(subject, files)
    files.text("half.txt", "all is written, nothing is kept, and the power goes")
    os.kill(os.getpid(), signal.SIGKILL)

object.__setattr__(stage, "run", run_and_die)
run_stages(from_json(BringupJob, request["job"]), Folder(Path(request["folder"])), STAGES)
"""


FEW = ("graph", "optimise", "report")


@pytest.mark.slow
@pytest.mark.parametrize("killed", [FEW, pytest.param(tuple(NUMBERS), marks=pytest.mark.whole)], ids=["three", "every"])
def test_killed_at_every_stage_it_ends_with_the_same_folder(made, tmp_path, killed):
    """One folder; a process for each stage, which goes on where the last was killed and is killed in its own."""
    asked, whole = made
    folder = tmp_path / "killed"
    source = str(Path(proveout.__file__).parents[1])
    threads = str(torch.get_num_threads())  # sums of float32 follow from it
    env = os.environ | {"PYTHONPATH": source, "PROVEOUT_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": threads}
    for name in killed:
        request = json.dumps({"job": to_json(asked), "folder": str(folder), "killed": name})
        ran = subprocess.run([sys.executable, "-c", KILLED], input=request, env=env, capture_output=True, text=True)
        assert ran.returncode == -signal.SIGKILL, ran.stderr[-2000:]
    run_stages(asked, Folder(folder), STAGES)
    found, wanted = contents(folder), contents(whole)
    assert found.keys() == wanted.keys()
    differing = [n for n in found if found[n] != wanted[n]]
    assert differing == []


@pytest.mark.slow
def test_a_failing_stage_is_told_and_the_report_says_where_why_and_what_next(made, tmp_path):
    asked, whole = made
    folder = shutil.copytree(whole, tmp_path / "failing")
    Folder(folder).file_of("optimise").unlink()

    def fail(subject, files):
        raise CompileError("the search met a wall.")

    stage = STAGES[NUMBERS["optimise"] - 1]
    before = stage.run
    object.__setattr__(stage, "run", fail)
    try:
        run_stages(asked, Folder(folder), STAGES)
    finally:
        object.__setattr__(stage, "run", before)
    found = outcomes(folder)
    assert (found["optimise"].status, found["optimise"].headline) == ("failed", "the search met a wall.")
    assert found["report"].status == "attention"  # written, and not green where something is to look at
    text = (folder / "report.md").read_text()
    assert "the search met a wall." in text
    assert "run the same command" in text
    assert "wall" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_what_a_person_edited_is_kept_when_its_stage_runs_again(made, tmp_path):
    asked, whole = made
    folder = shutil.copytree(whole, tmp_path / "edited")
    (folder / "card.md").write_text("mine\n")
    file = Folder(folder).file_of("card")
    file.write_text(json.dumps({**json.loads(file.read_text()), "key": "older"}))
    run_stages(asked, Folder(folder), [STAGES[0]])
    assert (folder / "card.md.edited").read_text() == "mine\n"
    assert (folder / "card.md").read_text() == (whole / "card.md").read_text()


@pytest.mark.slow
def test_held_out_inputs_are_like_the_scripts_own_and_masks_stay(made, tmp_path):
    asked, _ = made
    subject = Subject(asked, Folder(tmp_path))
    (x, kept), _ = subject.held_out(1)[0]
    (own, mask), _ = subject.call
    assert not torch.equal(x, own)
    assert abs(float(x.std() - own.std())) < 0.1
    assert torch.equal(kept, mask)


@pytest.mark.slow
def test_a_worker_that_dies_costs_one_stage_and_the_report_is_still_written(tmp_path):
    text = SCRIPT.replace(
        "        for block in self.blocks:",
        "        if torch.compiler.is_compiling():\n            die()\n        for block in self.blocks:",
    ).replace("class Block", "import os\n\n\n@torch.compiler.disable\ndef die():\n    os._exit(9)\n\n\nclass Block", 1)
    found = {o.name: o for o in bring_up(asked_for(tmp_path, text), tmp_path / "out", timeout_s=300)}
    assert found["graph"].status == "failed"
    assert "exited with code 9" in found["graph"].headline
    assert found["summary"].status == "skipped"
    assert (tmp_path / "out" / "report.html").exists()


def test_a_full_disk_is_no_bring_up_that_is_done(tmp_path):
    """It once ended at once with 0, and named a report that was not there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        with contextlib.suppress(OSError):
            (disk / "others").write_bytes(bytes(1 << 16))
        with pytest.raises(EnvironmentFault, match=r"cannot write to .*out: No space left on device.*Free some space"):
            bring_up(asked_for(tmp_path, SCRIPT), disk / "out", timeout_s=300)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("name", ["<!--<script>", "a'b\"c\n", "import", "=1+1", "device", "0", "{x}%s", "fc1"])
def test_a_module_of_any_name_is_written_as_code(name):
    """torch lets a module be called almost anything; the class that is written for it has to be Python."""
    assert name != "fc1" or attribute_of(name) == name
    line = (
        f"self.{attribute_of(name)} = Linear(device, tensors, {at(f'block.{name}', 'block')}, {('x' * 90)!r}, (1, 2))"
    )
    text = f'class A:\n    """As in {in_words(name)}."""\n    def f(self):\n' + "\n".join(indented([line]))
    compile(text, "model.py", "exec")
    assert attribute_of(name) not in ("device", "path")
    assert not attribute_of(name).startswith("__")


def test_the_graph_page_holds_ten_thousand_ops_in_a_few_megabytes():
    ops = [
        GraphOp(
            i, 0, f"op_{i}", "aten.add.Tensor", f"layers.{i // 100}.part.{i % 10}", "converted",
            shape="bf16[1,128,768]", source="model.py:12", pcc=0.9999, ns=1000 + i, uses=[i - 1] if i else [])
        for i in range(10_000)
    ]  # fmt: skip
    page = render("big", "sim:n150", ops, {})
    assert len(page) < 2_000_000
    assert "<script>" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_visit_that_computes_nothing_is_its_parents():
    steps = [
        Step("ttnn.reshape", (("input_tensor", Ref("x")),), ("a",), Origin(module="attention.query")),
        Step(
            "ttnn.linear",
            (("input_tensor_a", Ref("a")), ("input_tensor_b", Ref("w"))),
            ("b",),
            Origin(module="attention.query"),
        ),
        Step("ttnn.gelu", (("input_tensor", Ref("b")),), ("c",), Origin(module="act")),
        Step("ttnn.reshape", (("input_tensor", Ref("c")),), ("d",), Origin(module="attention.query")),
    ]
    types = {"attention": "Attention", "attention.query": "Linear", "act": "GELU"}
    root = tree_of(steps, types, {"w": ["attention.query", "attention.key"]})
    attention, act, late = root.items
    assert [s.outputs for s in attention.items] == [("a",), ("b",)], "a merged product belongs to the module around it"
    assert (attention.path, act.path) == ("attention", "act")
    assert isinstance(late, Step), "a stray reshape makes no second visit"


def test_a_modules_first_visit_that_stays_has_no_number():
    """The one before it computes nothing, and becomes its parent's."""

    def step(kernel, uses, gives, module):
        operands = (
            (("input_tensor", "input_tensor_a")[kernel == "ttnn.linear"], Ref(uses)),
            ("input_tensor_b", Ref("w")),
        )
        return Step(kernel, operands[: 1 + (kernel == "ttnn.linear")], (gives,), Origin(module=module))

    steps = [
        step("ttnn.reshape", "x", "a", "block.norm"),
        step("ttnn.linear", "a", "b", "first"),
        step("ttnn.linear", "b", "c", "block"),
        step("ttnn.linear", "c", "d", "first"),
    ]
    root = tree_of(steps, {"block": "Block", "block.norm": "Norm", "first": "Linear"}, {})
    assert [item.name for item in root.items if not isinstance(item, Step)] == ["first", "block", "first_2"]


class Reader(torch.nn.Module):
    def forward(self, image, text, sizes):
        return image + text["features"][0] * sizes[0]


def test_an_input_inside_a_dict_is_called_by_the_way_to_it():
    image, features, size = (torch.full((2, 2), float(n)) for n in range(3))
    subject = SimpleNamespace(model=Reader(), call=((image,), {"text": {"features": [features]}, "sizes": (size,)}))
    inputs = {"arg0_1": image, "arg7_1": features, "arg9_1": size}
    assert _input_names(subject, inputs) == {"arg0_1": "image", "arg7_1": "text_features_0", "arg9_1": "sizes_0"}


def op_of(number, aten, module, uses):
    return GraphOp(number, 0, f"n{number}", aten, module, "converted", uses=list(uses))


def test_a_module_that_is_called_again_is_a_box_for_each_call():
    """One ReLU after two layers: in one box, its calls would lead from the second layer back to the first."""
    ops = [
        op_of(0, "input", "", []),
        op_of(1, "aten.convolution.default", "first", [0]),
        op_of(2, "aten.relu.default", "relu", [1]),
        op_of(3, "aten.convolution.default", "second", [2]),
        op_of(4, "aten.relu.default", "relu", [3]),
    ]
    boxes = _boxes(ops, {"relu": "ReLU"})
    assert [(box.name, box.uses) for box in boxes] == [
        ("0/n0", ()), ("first", ("0/n0",)), ("relu", ("first",)), ("second", ("relu",)), ("relu (2)", ("second",)),
    ]  # fmt: skip


def test_two_calls_of_a_module_on_two_values_are_two_boxes():
    ops = [op_of(0, "input", "", []), op_of(1, "input", "", [])]
    ops += [op_of(2 + i, "aten.relu.default", "relu", [i]) for i in range(2)]
    assert [len(box.uses) for box in _boxes(ops, {})] == [0, 0, 1, 1]


def test_a_module_of_several_ops_is_one_box():
    ops = [op_of(0, "input", "", []), op_of(1, "aten.mm.default", "block", [0])]
    ops += [op_of(2, "aten.mm.default", "block", [1]), op_of(3, "aten.mul.Tensor", "block", [1, 2])]
    assert [box.label for box in _boxes(ops, {})] == ["input", "block"]


def test_stages_that_run_beside_others_need_none_of_them():
    first = {stage.name for stage in STAGES[: NUMBERS["graph"]]}
    beside = {name: set(flow.find_stage(name).needs) for name in flow.BESIDE}
    assert [name for name, needs in beside.items() if not needs <= first | beside.keys()] == []
    others = {s.name: set(s.needs) for s in STAGES if s.name not in first | beside.keys() and not s.always}
    assert [name for name, needs in others.items() if not needs <= first | others.keys()] == []


def test_the_parent_of_the_workers_imports_no_torch():
    source = str(Path(proveout.__file__).parents[1])
    code = "import proveout.bringup, proveout.cli.verbs.bringup, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": source}).returncode == 0


@pytest.mark.parametrize(
    ("weights", "whole", "expected"),
    [
        ("bfloat4_b", 0.995, {"up": 0.97}),  # the formats spend the model's budget in this part
        ("bfloat4_b", 0.985, {}),  # the model does not keep its PCC: nothing is excused
        ("same", 0.995, {}),  # no format was changed: the part is wrong
    ],
)
def test_a_module_has_a_threshold_of_its_own_only_where_formats_explain_it(weights, whole, expected):
    folder = SimpleNamespace(data=lambda kind: SimpleNamespace(held_out_pcc=whole))
    start = Settings(precision="bfloat16")
    subject = SimpleNamespace(bringup=SimpleNamespace(settings=start), folder=folder)
    parts = [Exactness("up", 0.9799, 0.981, "torch"), Exactness("down", 0.992, 0.991, "torch")]
    chosen = dataclasses.replace(start, weights=weights)
    assert own_thresholds(subject, chosen, parts, 0.99) == expected


EMPTY = """
import torch


class Nothing(torch.nn.Module):
    def forward(self, x):
        return x[:0]


Nothing().eval()(torch.ones(1, 4))
"""


@pytest.mark.slow
def test_a_model_whose_outputs_hold_no_numbers_is_not_called_right(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / "cache"))
    asked = asked_for(tmp_path, EMPTY)
    needed = {*with_needs("end-to-end"), *with_needs("trace")}
    run_stages(asked, Folder(tmp_path / "out"), [stage for stage in STAGES if stage.name in needed])
    ended = outcomes(tmp_path / "out")
    assert (ended["end-to-end"].status, ended["trace"].status) == ("attention", "passed")
    assert ended["end-to-end"].headline.startswith("nothing was compared")


@pytest.mark.slow
def test_a_time_without_the_host_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / "cache"))
    asked = asked_for(tmp_path, EMPTY.replace("x[:0]", "torch.linalg.svd(x)[1] + x"))
    needed = {*with_needs("trace"), *with_needs("perf")}
    run_stages(asked, Folder(tmp_path / "out"), [s for s in STAGES if s.name in needed])
    ended = outcomes(tmp_path / "out")
    for name in ("optimise", "perf", "trace"):
        assert "on the chip" in ended[name].headline
        assert "without 1 step on the host" in ended[name].headline
    for name in ("optimise", "trace"):
        assert ended[name].headline.startswith("the chip's part "), "the ratio of whole calls is not known"
    timed = [text for _, text, _ in figures(Folder(tmp_path / "out")) if "modelled" in text]
    assert len(timed) == 2
    assert all("without the host's part" in text for text in timed)


def test_a_card_names_a_script_once():
    at = dataclasses.replace(workload_of(torch.nn.Linear(1, 1), (), {}), script="/home/me/net.py", location="net.py:7")
    assert card._place(at) == "`net.py:7`"
    assert card._place(dataclasses.replace(at, location="parts.py:3")) == "`parts.py:3` in `net.py`"


def test_a_command_in_a_finding_is_code_on_the_page():
    assert "".join(map(str, report_page._ticked("Run: `proveout perf`, <then> look"))).count("`") == 0
    assert "<code>proveout perf</code>" in element.el("p", *report_page._ticked("Run: `proveout perf`, <then> look"))
    assert "&lt;then&gt;" in element.el("p", *report_page._ticked("Run: `proveout perf`, <then> look"))


def test_a_value_that_keeps_the_pcc_was_not_too_far_off():
    """The greedy search's choice was quicker than any that had it."""
    said = [optimise._verdict(Rejected("x", 5730, pcc, why), 0.99) for pcc, why in ((0.9996, "PCC"), (0.96, "PCC"))]
    assert said == ["others were quicker", "too far off"]
    assert optimise._verdict(Rejected("x", 1, None, "gain too small"), 0.99) == "gain too small"
