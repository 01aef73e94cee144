"""Nothing is lost: each fault is injected for real, and what was kept is looked at. No torch here: it starts slowly."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from proveout import cli
from proveout.clock import histogram
from proveout.coding import to_json
from proveout.measure import runs
from proveout.measure.benchmarking import benchmark
from proveout.serving import Configuration

HERE = str(Path(__file__).parent)
PAUSE_S = 0.002
LONG_BEFORE_S = 30  # of a busy machine: what would come otherwise takes minutes


@pytest.fixture(autouse=True)
def nothing_left():
    """After every test: no worker process, no folder in shared memory."""
    before = set(_folders())
    yield
    assert set(_folders()) == before
    until = time.monotonic() + LONG_BEFORE_S  # one whose controller was just killed is about to end
    while _workers() and time.monotonic() < until:
        time.sleep(0.02)
    assert _workers() == []


def _folders():
    return [p for root in runs._roots() if root.is_dir() for p in root.glob(f"{runs.PREFIX}*") if _ours(p)]


def _ours(folder):
    try:
        return folder.stat().st_uid == os.getuid() and str(os.getpid()) in (folder / "run.json").read_text()
    except OSError:
        return False


def _workers():
    """Workers and samplers that we started, or that now have no parent."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            ours = b"proveout.measure.worker" in command or b"measure/resources.py" in command
            if ours and parent in (os.getpid(), 1):
                found.append(folder.name)
    return found


def run(model, duration=0.4, n_models=1, **rest):
    rest = {"workers_per_model": 1, "verbosity": 0, "warmup": 1, **rest}
    return benchmark(model, 1, duration=duration, n_models=n_models, return_timers=True, **rest)


def calls(outcome):
    return sum(len(w.ends_ns) for w in outcome.workers)


def dies(how, after=30, only_model=None):
    """A factory of a model that works for a while and then does something terrible."""

    def make():
        state = {"calls": 0, "model": None}

        def model(x):
            time.sleep(PAUSE_S)
            state["calls"] += 1
            if state["calls"] > after and (only_model is None or state["model"] == only_model):
                how()

        model.state = state
        return model

    return make


def mark(index, config, model):
    model.state["model"] = index


def kill_hard():
    os.kill(os.getpid(), signal.SIGKILL)


def segfault():
    import ctypes

    ctypes.string_at(0)


def leave():
    os.write(2, b"going now\n")
    os._exit(7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "words"),
    [(kill_hard, -9, "SIGKILL"), (segfault, -11, "SIGSEGV"), (leave, 7, "exited with code 7")],
)
def test_samples_of_a_worker_that_died_are_kept_with_its_exit_code(how, code, words):
    (outcome,) = run(dies(how), duration=5)
    assert outcome.status == "partial"
    assert words in outcome.reason
    assert outcome.workers[0].exit_code == code
    assert calls(outcome) >= 25
    assert outcome.live_models == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", [lambda: None, kill_hard], ids=["a whole run", "a killed worker"])
def test_what_a_model_detaches_ends_with_its_worker(tmp_path, how):
    """A session of its own and a parent that is gone are no way out."""
    told = tmp_path / "pid"

    def make():
        def model(x):
            if not told.exists() and os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    written = told.with_suffix(".written")
                    written.write_text(str(os.getpid()))
                    written.rename(told)
                    time.sleep(60)
                os._exit(0)
            time.sleep(PAUSE_S)
            if told.exists():
                how()

        return model

    run(make, duration=0.5, warmup=0)
    assert gone(int(told.read_text()))


@pytest.mark.slow
def test_a_histogram_survives_its_worker_too():
    (outcome,) = run(dies(kill_hard), duration=5, recording="histogram")
    assert outcome.status == "partial"
    assert histogram.num_calls(outcome.workers[0].bins) >= 25


@pytest.mark.slow
def test_stderr_of_a_dead_worker_is_kept():
    (left,) = run(dies(leave), duration=5)
    (crashed,) = run(dies(segfault), duration=5)
    assert "going now" in left.workers[0].log
    assert "Segmentation fault" in crashed.workers[0].log


@pytest.mark.slow
def test_a_death_is_seen_long_before_the_duration_is_over():
    (outcome,) = run(dies(kill_hard), duration=300)
    died = outcome.workers[0].ends_ns[-1] / 1e9
    assert time.perf_counter() - died < LONG_BEFORE_S


@pytest.mark.slow
def test_other_models_run_on_when_one_dies():
    (outcome,) = run(dies(kill_hard, only_model=0), duration=0.6, n_models=2, setup_fn=mark)
    assert outcome.status == "partial"
    assert "1 of 2 models ran to the end" in outcome.reason
    assert outcome.live_models == 1
    dead, alive = outcome.workers
    assert dead.reason
    assert not alive.reason
    assert len(alive.ends_ns) > len(dead.ends_ns) > 20


def test_a_memory_limit_gives_a_traceback_and_keeps_samples():
    def hog():
        bytearray(1 << 33)

    (outcome,) = run(dies(hog), duration=5, memory_limit=1 << 31)
    assert outcome.status == "partial"
    assert "MemoryError" in outcome.reason
    assert calls(outcome) >= 25


def raises():
    raise RuntimeError("no such thing as a free lunch")


@pytest.mark.slow
def test_a_model_that_raises_leaves_its_traceback_and_earlier_samples():
    (outcome,) = run(dies(raises), duration=5)
    assert outcome.status == "partial"
    assert outcome.reason == "the model raised RuntimeError: no such thing as a free lunch"
    assert "in raises" in outcome.workers[0].log
    assert calls(outcome) >= 25


@pytest.mark.slow
def test_a_model_that_cannot_be_made_fails_with_its_traceback():
    (outcome,) = run(raises, duration=5)
    assert (outcome.status, calls(outcome)) == ("failed", 0)
    assert outcome.reason == "RuntimeError: no such thing as a free lunch"
    assert "in raises" in outcome.workers[0].log


class EveryThird:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        time.sleep(PAUSE_S)
        self.calls += 1
        if self.calls % 3 == 0:
            raise ValueError("every third")


@pytest.mark.slow
def test_on_error_continue_counts_errors_and_goes_on():
    (outcome,) = run(EveryThird, on_error="continue", max_infers=40, warmup=0, duration=20)
    (worker,) = outcome.workers
    assert (len(worker.ends_ns), worker.errors) == (40, 19)
    assert "19 calls raised" in outcome.reason
    assert "every third" in worker.log


@pytest.mark.slow
def test_on_error_retry_tries_again_and_gives_up_after_three_in_a_row():
    (outcome,) = run(EveryThird, on_error="retry", max_infers=40, warmup=0, duration=20)
    assert len(outcome.workers[0].ends_ns) == 40
    (hopeless,) = run(dies(raises), on_error="retry", duration=5)
    assert hopeless.workers[0].errors == 4
    assert "RuntimeError" in hopeless.reason


def hang():
    time.sleep(3600)


def hang_with_lock():
    """In C code that does not give up the interpreter's lock."""
    import re

    re.match(r"(a+)+$", "a" * 64 + "b")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "where"), [(hang, "in hang"), (hang_with_lock, "in hang_with_lock")])
def test_a_hanging_call_is_stopped_in_time_with_its_stack(how, where):
    (outcome,) = run(dies(how), duration=300, call_timeout=0.5)
    (worker,) = outcome.workers
    stopped_after = time.perf_counter() - worker.ends_ns[-1] / 1e9
    assert 0.5 < stopped_after < LONG_BEFORE_S
    assert outcome.status == "partial"
    assert "longer than 0.5 s" in outcome.reason
    assert where in worker.log
    assert len(worker.ends_ns) >= 25


@pytest.mark.slow
def test_the_total_deadline_stops_a_model_that_does_not_load():
    began = time.monotonic()
    (outcome,) = run(hang, duration=1, total_timeout=1.0)
    assert time.monotonic() - began < LONG_BEFORE_S
    assert outcome.status == "failed"
    assert "longer than 1 s" in outcome.reason


def test_full_memory_ends_the_run_and_keeps_what_is_there(monkeypatch):
    claim, claimed = os.posix_fallocate, []

    def fills_up(file, offset, size):
        if offset:
            raise OSError(28, "No space left on device")
        claimed.append(size)
        claim(file, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", fills_up)
    (outcome,) = run(lambda: abs, duration=5, multiprocess=False)
    assert outcome.status == "partial"
    assert "no room for more stamps (No space left on device)" in outcome.reason
    assert calls(outcome) > 4000


@pytest.mark.slow
def test_one_configuration_failing_leaves_a_record_and_the_others():
    def make(n=[]):  # noqa: B006
        return lambda x: time.sleep(PAUSE_S)

    def only_one(index, config):
        if config["n_models"] == 2:
            raise RuntimeError("two are too many")

    outcomes = run(make, n_models=[2, 1], env_setup_fn=only_one, duration=0.2)
    assert [o.status for o in outcomes] == ["failed", "passed"]
    assert "two are too many" in outcomes[0].reason


SCRIPT = """
import sys, time
sys.path.insert(0, {here!r})
from proveout.measure.benchmarking import benchmark

def model(x):
    time.sleep({pause})

try:
    outcomes = benchmark(lambda: model, 1, duration=300, n_models=1, workers_per_model=[1, 2], warmup={warmup},
                         return_timers=True, verbosity=2)
except KeyboardInterrupt:
    print("at once")
else:
    for o in outcomes:
        print(o.status, o.reason, sum(len(w.ends_ns) for w in o.workers), sep="|")
"""


class Script:
    """A benchmark in a process of its own, as a user runs it."""

    def __init__(self, pause=0.002, warmup=1):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(here=HERE, pause=pause, warmup=warmup)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for line in self.process.stderr:
            if "(process " in line:
                self.worker = int(line.rpartition("process ")[2].rstrip(").\n"))
            if "Worker 0 started" in line:
                break
        time.sleep(0.5)

    def ends(self):
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        return self.process.communicate(timeout=LONG_BEFORE_S)[0].splitlines()


def gone(pid):
    until = time.monotonic() + LONG_BEFORE_S
    while time.monotonic() < until:
        if not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_interrupt_reports_the_current_configuration_and_skips_the_rest(number):
    script = Script()
    script.process.send_signal(number)
    first, second = script.ends()
    status, reason, count = first.split("|")
    assert (status, reason) == ("partial", "interrupted")
    assert int(count) > 10
    assert second.startswith("skipped|")
    assert gone(script.worker)


@pytest.mark.slow
def test_two_interrupts_end_it_at_once():
    script = Script(pause=5 * LONG_BEFORE_S, warmup=0)  # the first waits for the call
    script.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    script.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert script.ends() == ["at once"]
    assert time.monotonic() - began < LONG_BEFORE_S
    assert gone(script.worker)


@pytest.mark.slow
def test_workers_end_with_a_killed_controller_and_its_report_is_recovered(tmp_path):
    script = Script()
    script.process.kill()
    killed = time.perf_counter_ns()
    script.process.wait()
    assert gone(script.worker)
    (folder,) = [
        f for f in runs.left_behind() if f'"controller": [{script.process.pid}, ' in (f / "run.json").read_text()
    ]
    measured, never = runs.recover(folder)
    assert (measured.status, never.status) == ("partial", "skipped")
    last = max(int(w.ends_ns.max()) for w in measured.workers)
    assert killed - last < LONG_BEFORE_S * 1e9
    gaps = np.diff(measured.workers[0].ends_ns)
    assert len(gaps) > 10
    assert (gaps > 0).all()
    assert cli.main(["recover", str(folder), "-o", str(tmp_path)]) == 0
    first, second = json.loads(next(tmp_path.glob("recovered-*.json")).read_text())
    assert first["total_calls"] == calls(measured)
    assert first["status"] == "partial"
    assert "controller was killed" in first["reason"]
    assert second["status"] == "skipped"
    assert not folder.exists()


def test_recover_refuses_what_no_benchmark_left(tmp_path, capsys):
    assert cli.main(["recover", str(tmp_path)]) == 2
    assert "is not a benchmark's folder" in capsys.readouterr().err


DAMAGE = {
    "a time of years": ("go.json", {"start_ns": -(10**18), "deadline_ns": 0, "created": ""}),
    "a time that is none": ("go.json", {"start_ns": [1], "deadline_ns": 0, "created": ""}),
    "a name that is none": ("run.json", {"model_filename": ["a"]}),
    "a size that is none": ("run.json", {"n_models": "a"}),
    "more workers than there can be": ("plan", {"callers": [10**6]}),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_one_damaged_folder_keeps_no_other_from_being_recovered(tmp_path, capsys, what):
    """Also where the damage shows only in what is counted from it."""
    name, change = DAMAGE[what]
    folders = [tmp_path / f"{runs.PREFIX}{which}" for which in ("damaged", "whole")]
    for folder in folders:
        place = runs.configuration_folder(folder, 0)
        place.mkdir(parents=True)
        plan = {"configuration": to_json(Configuration("m")), "columns": ["start", "end"], "callers": [1]}
        go = {"start_ns": 10**9, "deadline_ns": 2 * 10**9, "created": ""}
        np.array([[10**9, 10**9 + 5000]], dtype=np.int64).tofile(runs.stamps_path(place, 0, 0))
        if folder is folders[0]:
            plan["configuration"] |= change if name == "run.json" else {}
            plan |= change if name == "plan" else {}
            go |= change if name == "go.json" else {}
        (folder / "run.json").write_text(json.dumps({"plan": [plan]}))
        (place / "go.json").write_text(json.dumps(go))
    assert cli.main(["recover", *map(str, folders), "-o", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [f["folder"] for f in told["recovered"]] == [str(folders[1])]
    assert [f["folder"] for f in told["damaged"]] == [str(folders[0])]


def test_a_folder_that_is_still_in_use_is_not_left_behind():
    with runs.run_folder([]) as folder:
        assert folder not in runs.left_behind()
    assert not folder.exists()


SAYS = {
    "garbage": b"\x00\xff{\n",
    "a list": b"[1]\n",
    "another event": b'{"event": "rich"}\n',
    "fields of its own": b'{"event": "finished", "runs": 3}\n',
    "for others": b'{"event": "finished", "runs": [], "missing_items": [], "check": null}\n',
    "deep": b"[" * 50_000 + b"\n",
}


class Speaks:
    """A model that writes to every pipe of its process."""

    def __init__(self, words):
        self.words = words

    def __call__(self, x):
        for name in os.listdir("/proc/self/fd"):
            if (
                int(name) > 2
                and os.path.exists(f"/proc/self/fd/{name}")
                and "pipe" in os.readlink(f"/proc/self/fd/{name}")
            ):
                with contextlib.suppress(OSError):
                    os.write(int(name), self.words)
        return x


@pytest.mark.slow
@pytest.mark.parametrize("what", SAYS)
def test_a_model_that_speaks_for_its_worker_fails_alone(what):
    (outcome,) = run(Speaks(SAYS[what]))
    assert outcome.status == "failed"
    assert "the worker said something that it cannot say" in outcome.workers[0].reason
