"""One Job in, one Record out, whatever the script does; in this process and in a child."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from proveout import isolate, runtimes, stages
from proveout.capture import watch
from proveout.coding import from_json, to_json
from proveout.devices.sim import Sim
from proveout.program import Program
from proveout.prove import prove, prove_here
from proveout.types import Job, Record, Settings, Workload

QUICK = {"iterations": 3, "warmup": 1}
EXACT = Settings(precision="model")

LINEAR = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    print("hello from the script")
    model(torch.randn(4, 16))
"""
CLASS = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)
            {init}
        def forward(self, x):
            {forward}
    model = Model().eval()
    model(torch.randn(4, 8))
"""


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()


@pytest.fixture
def script(tmp_path):
    """Write a script; its only model as a Workload."""

    def write(source, **changes):
        path = tmp_path / "model.py"
        path.write_text(dedent(source))
        (found,), raised = watch(path, "")
        assert raised is None
        return replace(found.workload, **changes)

    return write


def of_class(forward, init="pass"):
    """A script whose model's methods are these lines."""
    bodies = {"forward": dedent(forward).strip(), "init": dedent(init).strip()}
    return dedent(CLASS).format(**{k: v.replace("\n", "\n" + " " * 8) for k, v in bodies.items()})


def unseen(tmp_path, source):
    """A script that cannot be watched beforehand, as a Workload that was found some other day."""
    path = tmp_path / "model.py"
    path.write_text(dedent(source))
    return Workload("model", str(path), "0123456789ab")


def there_and_back(record):
    return from_json(Record, json.loads(json.dumps(to_json(record), allow_nan=False)))


# ---- in this process ---------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_in_our_words(script, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "program.json")

    monkeypatch.setitem(stages.STAGES, "compile", full)
    record = prove_here(Job(script(LINEAR), **QUICK))
    assert (record.status, record.failure) == ("failed", "environment")
    assert record.reason == "compile: No space left on device (program.json). Free some space and run it again."


@pytest.mark.slow
def test_a_sound_model_passes_with_all_that_was_learnt(script):
    job = Job(script(LINEAR), **QUICK)
    record = prove_here(job)
    assert (record.status, record.reason, record.failure) == ("passed", "", "")
    assert record.job == job
    assert 0.999 < record.pcc < 1
    assert record.coverage.before > 0
    assert record.coverage.remain == 0
    assert record.coverage.num_transfers == 2
    assert {c.scope for c in record.comparisons} == {"output", "step"}
    assert [c.origin.aten for c in record.comparisons if c.scope == "step"] == [
        "aten.relu.default",
        "aten.addmm.default",
    ]
    assert record.memory.fits
    assert record.memory.l1_peak_bytes > 0
    assert {"graph passes", "lower", "program passes", "plan"} <= dict(record.compile_s).keys()
    assert all(len(fingerprint) == 64 and steps > 0 for fingerprint, steps in record.programs)
    assert dict(record.environment)["torch"]
    assert record.created.endswith("+00:00")
    assert there_and_back(record) == record


@pytest.mark.slow
def test_measured_and_modelled_times_never_share_a_timing(script):
    record = prove_here(Job(script(LINEAR), **QUICK))
    assert [(t.what, t.kind, t.device, len(t.samples_ns)) for t in record.timings] == [
        ("compiled", "modelled", "sim:n150", 1),
        ("eager", "measured", "cpu", 3),
        ("simulation", "measured", "sim:n150", 3),
    ]
    assert all(min(t.samples_ns) > 0 for t in record.timings)


@pytest.mark.slow
def test_on_the_cpu_everything_is_measured(script):
    record = prove_here(Job(script(LINEAR), device="cpu", settings=EXACT, **QUICK))
    assert record.status == "passed"
    assert record.pcc == pytest.approx(1.0)
    assert [(t.what, t.kind) for t in record.timings] == [("eager", "measured"), ("compiled", "measured")]
    assert record.memory.l1_peak_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("do", "scopes", "whats"),
    [
        (("run",), {"output"}, ["compiled"]),
        (("check",), {"output", "step"}, ["compiled"]),
        (("benchmark",), {"output"}, ["compiled", "eager", "simulation"]),
    ],
)
def test_only_what_was_asked_for_is_done(script, do, scopes, whats):
    record = prove_here(Job(script(LINEAR), do=do, **QUICK))
    assert {c.scope for c in record.comparisons} == scopes
    assert [t.what for t in record.timings] == whats


def test_a_dry_compile_runs_nothing_on_the_device(script, monkeypatch):
    monkeypatch.setattr(Sim, "load", lambda *a: pytest.fail("loaded"))
    record = prove_here(Job(script(LINEAR), do=("compile",)))
    assert record.status == "passed"
    assert record.comparisons == ()
    assert [(t.what, t.kind) for t in record.timings] == [("compiled", "modelled")]
    assert record.timings[0].median_ns > 0
    assert record.coverage.before > 0


def test_programs_are_left_where_artifacts_are_asked_for(script, tmp_path):
    forward = """
        return self.linear(x) * torch.tensor([1.0, 2.0] * 4)
    """
    job = Job(script(of_class(forward), name="model::Model"), do=("run",), artifacts=str(tmp_path / "kept"))
    record = prove_here(job)
    assert record.status == "passed", record.reason
    program = Program.load(tmp_path / "kept" / "model.Model" / "program0")
    assert [(program.fingerprint, len(program.steps))] == list(record.programs)
    assert len(program.constants) == 1


def test_wrong_numerics_fail_with_the_output_and_its_pcc(script):
    settings = Settings(precision="bfloat16", pcc=1.0)
    record = prove_here(Job(script(LINEAR), settings=settings, do=("run",)))
    assert (record.status, record.failure) == ("failed", "numerics")
    assert record.reason.startswith("output output: PCC 0.99")
    assert "is below 1.0; PyTorch's eager mode in bfloat16 gives PCC 0.99" in record.reason
    assert record.coverage.before > 0


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        ("return 1 + 1e-2 * self.linear(x)", "is below 0.99; PyTorch's eager mode in bfloat16 gives PCC 0."),
        ("return (1.003 + 0 * self.linear(x)) - 1", "; PyTorch's eager mode in bfloat16 is not close either"),
        (
            "assert x.dtype == torch.float32\nreturn 1 + 1e-2 * self.linear(x)",
            "is below 0.99; PyTorch's eager mode cannot run it in bfloat16 (AssertionError)",
        ),
    ],
)
def test_where_bfloat16_is_to_blame_the_reason_says_what_pytorch_makes_of_it(script, forward, words):
    record = prove_here(Job(script(of_class(forward)), settings=Settings(precision="bfloat16"), do=("run",)))
    assert (record.status, record.failure) == ("failed", "numerics")
    assert words in record.reason


def test_a_model_in_its_own_precision_is_not_compared_with_another(script):
    record = prove_here(Job(script(LINEAR), settings=Settings(pcc=1.1), do=("run",)))
    assert record.reason == "output output: PCC 1.000000 is below 1.1"


def test_a_model_that_raises_at_our_call_fails_as_a_script(script):
    forward = """
        if x.shape != (4, 8) or getattr(self, "spent", False): raise ValueError("no more")
        self.spent = True
        return self.linear(x)
    """
    record = prove_here(Job(script(of_class(forward)), **QUICK))
    assert (record.status, record.failure) == ("failed", "script")
    assert "no more" in record.reason


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise KeyError('weights')", "model.py raised KeyError at model.py:1 before any model had run: 'weights'"),
        ("x = 1 +", "model.py:1 is not valid Python: invalid syntax"),
        ("print('nothing here')", "It holds: none. Run: proveout discover"),
        (LINEAR, "no longer holds the model 0123456789ab"),
    ],
    ids=["raises", "syntax", "no model", "another model"],
)
def test_a_script_that_fails_is_told_in_a_sentence(tmp_path, source, words):
    record = prove_here(Job(unseen(tmp_path, source), **QUICK))
    assert (record.status, record.failure) == ("failed", "script")
    assert words in record.reason
    assert there_and_back(record) == record


def test_a_device_that_is_not_there_is_told(script):
    record = prove_here(Job(script(LINEAR), device="sum", **QUICK))
    assert (record.status, record.failure) == ("failed", "usage")
    assert record.reason.startswith("unknown device 'sum'; valid: ")


def test_an_op_without_a_kernel_fails_where_fallback_is_an_error(script):
    settings = Settings(fallback="error")
    record = prove_here(Job(script(of_class("return torch.sort(self.linear(x)).values")), settings=settings, **QUICK))
    assert (record.status, record.failure) == ("failed", "lowering")
    assert "aten.sort.default stays on the host: ttnn.sort takes bfloat16, not float32" in record.reason


STATEFUL = {
    "writes to its input": of_class("x.add_(1.0)\nreturn torch.sin(3 * x)"),
    "counts its calls": of_class("self.calls += 1\nreturn torch.sin(self.linear(x) * self.calls)",
                                 "self.register_buffer('calls', torch.zeros(()))"),
    "draws random numbers": of_class("return self.linear(x) * torch.rand(4, 8)"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", STATEFUL)
def test_a_model_is_not_blamed_because_it(script, what):
    record = prove_here(Job(script(STATEFUL[what]), settings=EXACT, do=("run",)))
    assert record.status == "passed", record.reason


# ---- in a child --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_child_gives_the_same_record(script, capfd):
    job = Job(script(LINEAR), do=("check",), **QUICK)
    capfd.readouterr()
    record = prove(job)
    assert capfd.readouterr().out == ""
    assert record.status == "passed", record.reason
    assert record.log == ""
    assert record.programs == prove_here(job).programs
    assert there_and_back(record) == record


@pytest.mark.slow
def test_a_crash_is_told_by_its_signal(tmp_path):
    source = "import os, signal\nprint('about to die', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)"
    record = prove(Job(unseen(tmp_path, source), **QUICK))
    assert (record.status, record.failure) == ("failed", "crash")
    assert record.reason == "the worker was killed by SIGSEGV"
    assert "about to die" in record.log
    assert there_and_back(record) == record


@pytest.mark.slow
def test_an_endless_script_is_stopped_at_its_limit(tmp_path):
    source = "import time\nprint('waiting', flush=True)\ntime.sleep(600)"
    started = time.monotonic()
    record = prove(Job(unseen(tmp_path, source), timeout_s=10, **QUICK))
    assert time.monotonic() - started < 300  # it would sleep for ten minutes
    assert (record.status, record.failure) == ("failed", "timeout")
    assert record.reason == "the worker ran past its limit and was stopped after 10 s"
    assert "waiting" in record.log


@pytest.mark.slow
def test_a_failed_child_brings_what_its_script_printed(tmp_path):
    record = prove(Job(unseen(tmp_path, "print('one clue')\nraise ValueError('boom')"), **QUICK))
    assert (record.status, record.failure) == ("failed", "script")
    assert "boom" in record.reason
    assert "one clue" in record.log


def test_the_worker_gets_the_job_and_its_limit_and_nothing_else(script, monkeypatch):
    """What crosses the pipe is the Job as JSON; the Record comes back through the file that was named."""
    job = Job(script(LINEAR), do=("run",), timeout_s=7)
    seen = {}

    def run(module, arguments, *, stdin, timeout_s):
        seen.update(module=module, job=from_json(Job, json.loads(stdin)), timeout_s=timeout_s)
        Path(arguments[0]).write_text(json.dumps(to_json(Record(job, "passed"))))
        return isolate.ChildExit(0, 1.0, False, "noise")

    monkeypatch.setattr(isolate, "run_python", run)
    assert prove(job) == Record(job, "passed")
    assert seen == {"module": "proveout.prove", "job": job, "timeout_s": 7}


@pytest.mark.slow
def test_a_device_that_computes_nothing_gets_no_time(script, monkeypatch):
    known = runtimes.find
    monkeypatch.setattr(runtimes, "find", lambda name: replace(known(name), times="none"))
    record = prove_here(Job(script(LINEAR), "cpu", EXACT, ("benchmark",), **QUICK))
    assert record.status == "passed"
    assert {t.what for t in record.timings} == {"eager"}


@pytest.mark.slow
def test_iterations_go_on_until_there_are_enough_to_judge_but_not_of_a_simulation(script):
    job = Job(script(LINEAR), "sim", EXACT, ("benchmark",), enough_s=20.0, **QUICK)
    record = prove_here(job)
    assert (len(record.timing("eager").samples_ns), len(record.timing("simulation").samples_ns)) == (300, 3)
    assert record.timing("eager").interval_ns is not None
    assert replace(job, enough_s=None).key == Job(job.workload, "sim", EXACT, ("benchmark",), **QUICK).key != job.key
