"""One rule for one thing: a Step's threshold, a status, a target's first settings, who opens and closes a device."""

from __future__ import annotations

import ast
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import proveout
from proveout.api import benchmark_model
from proveout.app import inputs
from proveout.capture import LiveModel
from proveout.check import compare_steps
from proveout.check.thresholds import step_threshold
from proveout.cli import main, request
from proveout.cli.verbs import run
from proveout.devices import registry
from proveout.devices.registry import close_devices, kept_device, settings_for
from proveout.engine.backend import Capture
from proveout.engine.compiled import compile
from proveout.errors import EnvironmentFault
from proveout.measure import records
from proveout.prove import failed, prove, prove_here
from proveout.serving import Configuration
from proveout.store import Store
from proveout.sweep import SweepPlan, controller
from proveout.types import Job, Record, Settings, TensorSpec, Workload

SRC = Path(proveout.__file__).parent


# ------------------------------------------------------------------------------------------------------- Steps


def test_check_judges_a_step_by_the_rule_that_bring_up_judges_it_by():
    for precision, weights in (("bfloat16", "same"), ("bfloat16", "bfloat4_b"), ("model", "same")):
        settings = Settings(precision=precision, weights=weights)  # type: ignore[arg-type]
        compiled = compile(nn.Sequential(nn.Linear(32, 32), nn.Tanh()).eval(), torch.randn(4, 32), settings=settings)
        steps = {name: step for program in compiled.programs for step in program.body for name in step.outputs}
        specs = {name: spec for program in compiled.programs for name, spec in program.specs.items()}
        found = compare_steps(compiled, (torch.randn(4, 32),), {})
        assert found
        for one in found:
            assert one.threshold == step_threshold(steps[one.name], specs).pcc


def test_steps_of_a_model_in_bfloat16_on_the_cpu_are_checked_too():
    model, x = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8)).eval(), torch.randn(4, 32)
    steps = compare_steps(compile(model, x, device="cpu", settings=Settings(precision="bfloat16")), (x,), {})
    assert steps
    assert all(step.passed for step in steps), steps


@pytest.mark.slow
def test_nobody_gives_a_threshold_of_their_own_for_a_step():
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in STEP_RULES:
                numbers = [a for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, float)]
                assert numbers == [], f"{path}:{node.lineno}"


STEP_RULES = ("compare_steps", "replay")


@pytest.mark.parametrize(
    ("dtype", "least"),
    [
        ("float32", 0.9999),
        ("float16", 0.9999),
        ("complex64", 0.9999),
        ("bfloat16", 0.999),
        ("bfloat8_b", 0.99),
        ("int32", 1.0),
    ],
)
def test_the_coarsest_result_decides(dtype: str, least: float):
    from proveout.program import Step

    specs = {"a": TensorSpec((2,), dtype)}
    assert step_threshold(Step("ttnn.add", (), ("a",)), specs).pcc == least


# ------------------------------------------------------------------------------------------------------ status


def job_of(label: str, runtime: str = "proveout") -> tuple[Job, LiveModel]:
    workload = Workload("tiny", "tiny.py", "ab12", labels=(("expect", (label,)),))
    job = Job(workload, "cpu", Settings(), ("run",), runtime=runtime)  # type: ignore[arg-type]
    return job, LiveModel(workload, nn.Linear(2, 2).eval(), (torch.ones(1, 2),), {})


def test_a_model_that_should_fail_and_passes_is_a_failure_without_any_sweep():
    record = prove_here(*job_of("fail"))
    assert (record.status, record.failure, record.reason) == (
        "failed", "expectation", "was expected to fail, but passed"
    )  # fmt: skip
    assert prove_here(*job_of("pass")).status == "passed"


def test_a_worker_that_dies_of_a_job_that_should_fail_is_an_expected_failure():
    class Dead:
        story, failure, log = "was killed", "crash", ""

    job, _ = job_of("fail")
    assert prove(job, lambda *args, **kwargs: Dead()).status == "expected_failure"  # type: ignore[arg-type,return-value]


# ---------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(("device", "precision"), [("sim", "bfloat16"), ("sim:p150", "bfloat16"), ("cpu", "model")])
def test_one_function_gives_the_settings_that_a_target_starts_with(device: str, precision: str):
    assert settings_for(device) == Settings(precision=precision)  # type: ignore[arg-type]
    assert settings_for(device, {"precision": "model", "seed": 3}) == Settings(seed=3)
    assert settings_for(device, Settings(seed=3)) == Settings(seed=3)


def test_a_live_model_keeps_its_own_precision_on_every_device():
    for device in ("sim", "cpu"):
        assert settings_for(device, live=True) == Settings()
        assert settings_for(device, {"trace": True}, live=True) == Settings(trace=True)


DOORS = {
    "api.py": "proveout.benchmark_model and benchmark_script",
    "app/inputs.py": "the app's tasks",
    "cli/request.py": "benchmark, check, compile, benchit",
    "cli/verbs/bringup.py": "bring-up",
    "cli/verbs/explain.py": "explain",
    "compat/agility/model_api.py": "MLAgility's benchit_model",
    "cli/verbs/run.py": "run",
    "cli/verbs/trace.py": "trace",
    "pytest_plugin/proving.py": "the pytest plug-in",
    "sweep/controller.py": "ONNX files, which run on the host",
    "app/explorer_program.py": "the command that the explorer shows",
}
LIVE = {
    "engine/backend.py": "proveout.compile, torch.compile, and torch_ttnn, which goes through it",
    "measure/evaluation.py": "evaluate",
    "measure/generation.py": "benchmark_generation",
    "load/records.py": "load: a served model keeps its own",
    "measure/records.py": "NeuronPerf's names: a worker compiles as proveout.compile does",
}


def test_every_door_asks_that_function():
    asks = {path.relative_to(SRC).as_posix(): path.read_text().count("settings_for(") for path in SRC.rglob("*.py")}
    assert all(asks[file] for file in (*DOORS, *LIVE))
    live = {p.relative_to(SRC).as_posix() for p in SRC.rglob("*.py") if "live=True)" in p.read_text()}
    assert live == LIVE.keys()


@pytest.mark.slow
def test_the_rule_for_the_precision_stands_in_one_place():
    makes = [
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Settings"
        and any(keyword.arg == "precision" for keyword in node.keywords)
    ]
    assert makes == ["settings.py"]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["sim:n150", "cpu"])
def test_doors_that_prove_start_with_the_same_settings_and_those_of_live_models_too(device: str, tmp_path: Path):
    model, x = nn.Linear(32, 32).eval(), torch.randn(4, 32)
    by_command = request.check(request.SharedOptions(device=device, cache_dir=tmp_path), ("check",)).targets
    assert by_command == ((device, settings_for(device)),)
    assert benchmark_model(model, x, device=device, iterations=2).record.job.settings == settings_for(device)
    usual = settings_for(device)
    shown = {name: inputs._usual_first(name, values, usual)[0] for name, (_, values, _) in inputs.FIELDS.items()}
    assert settings_for(device, shown) == settings_for(device)  # the app's page, untouched
    live = settings_for(device, live=True)
    assert compile(model, x, device=device).settings == live
    assert Capture.from_options({"device": device}).settings == live
    assert records._settings(Configuration("linear", device)) == live


@pytest.mark.parametrize(("backend", "place"), [("proveout", "sim:n150"), ("inductor", "cpu"), ("eager", "cpu")])
def test_run_starts_with_the_settings_of_what_runs_the_model(
    backend: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    jobs: list[Job] = []

    def proven(model: object, job_of: Callable[[Workload], Job], timeout_s: float) -> list[Record]:
        jobs.append(job_of(Workload("linear", "linear.py", "")))
        return [failed(jobs[-1], "script", "not run")]

    monkeypatch.setattr(run, "prove_named", proven)
    main(["run", "--model", "linear", "--backend", backend, "--cache-dir", str(tmp_path)])
    assert [(job.device, job.settings) for job in jobs] == [(place, settings_for(place))]


def test_an_onnx_file_of_a_sweep_starts_with_the_hosts_precision(tmp_path: Path):
    asked = SweepPlan(Store(tmp_path), (("sim:n150", settings_for("sim")),), Job(Workload("", "", "")))
    job = controller._job(asked, Workload("net", "net.onnx", ""), "sim:n150", settings_for("sim"))
    assert (job.device, job.settings) == ("cpu", settings_for("cpu"))


# ----------------------------------------------------------------------------------------------------- devices


class Counted:
    """A device that counts what is done to it."""

    name, spec = "counted", None
    opened = closed = 0

    def __init__(self) -> None:
        Counted.opened += 1

    def close(self) -> None:
        Counted.closed += 1


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    monkeypatch.setattr(Counted, "opened", 0)
    monkeypatch.setattr(Counted, "closed", 0)
    info = registry.DeviceInfo("counted", "counts", "measured", "torch", None, Counted)  # type: ignore[arg-type]
    known = registry.devices()
    monkeypatch.setattr(registry, "devices", lambda: {**known, "counted": info})
    return Counted


def test_a_device_is_opened_once_kept_and_closed_once(counted: type[Counted]):
    assert kept_device("counted") is kept_device("counted")
    assert (counted.opened, counted.closed) == (1, 0)
    close_devices()
    close_devices()
    assert (counted.opened, counted.closed) == (1, 1)
    kept_device("counted")
    assert counted.opened == 2
    close_devices()


def test_two_models_and_all_their_graphs_share_the_process_s_device():
    close_devices()
    one, other = (compile(nn.Linear(4, 4).eval(), torch.ones(1, 4), device="sim") for _ in range(2))
    assert one._capture.device is other._capture.device is kept_device("sim:n150")


def test_a_forked_child_opens_its_own_and_leaves_its_parent_s_alone(counted: type[Counted]):
    mine = kept_device("counted")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        queue.put((kept_device("counted") is mine, counted.opened))

    process = context.Process(target=child)
    process.start()
    process.join()
    assert queue.get() == (False, 2)
    assert (kept_device("counted") is mine, counted.opened) == (True, 1)
    close_devices()


class Entry:
    """A device of another package, as its entry point names it."""

    name, value = "theirs", "their.package:info"

    def __init__(self, info: Callable[[], object]) -> None:
        self.info = info

    def load(self) -> Callable[[], object]:
        return self.info


def test_a_device_of_another_package_goes_by_its_own_name(monkeypatch: pytest.MonkeyPatch):
    info = registry.DeviceInfo("mine", "theirs", "measured", "torch", None, Counted)  # type: ignore[arg-type]
    monkeypatch.setattr(registry, "_entries", lambda path: (Entry(lambda: info),))
    assert registry.find("mine") is info


@pytest.mark.parametrize(
    ("info", "reason"), [(lambda: 1 / 0, "ZeroDivisionError: "), (lambda: "cpu", "it gives a str, not a DeviceInfo")]
)
def test_one_that_breaks_says_why_and_leaves_the_others(
    info: Callable[[], object], reason: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry, "_entries", lambda path: (Entry(info),))
    known = registry.devices()
    assert known["theirs"].reason.startswith(reason)
    assert known["cpu"].available
    with pytest.raises(EnvironmentFault, match="device 'theirs' cannot be used here"):
        registry.find("theirs")
