"""Many Jobs: the warm process and its children, cores, the order of work, and what is left after a kill."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_isolate import is_alive
from test_store import make_record

from proveout.capture import How
from proveout.errors import EnvironmentFault, UsageError
from proveout.isolate import run_python
from proveout.store import Store
from proveout.sweep import Interrupted, SweepPlan, states, sweep
from proveout.sweep.cores import share
from proveout.sweep.results import keep
from proveout.sweep.tasks import Find, libraries, wants_fresh
from proveout.sweep.warm import Stopped, WarmServer
from proveout.types import Job, Settings, Workload

PROVEOUT = Path(sys.executable).with_name("proveout")
MIB = 2**20

# ------------------------------------------------------------------------------------- the warm process


class Warm:
    """One server for all tests, and a folder whose modules its children can run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.server = WarmServer()

    def run(self, source: str, *arguments: str, timeout_s: float = 60, **options: Any) -> Any:
        self.count += 1
        name = f"risky{self.count}"
        (self.folder / f"{name}.py").write_text(source)
        return self.server.run(name, arguments, timeout_s=timeout_s, **options)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    folder = tmp_path_factory.mktemp("modules")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))
        made = Warm(folder)
        yield made
        made.server.stop()


@pytest.mark.slow
def test_a_fork_is_run_as_python_m_would_be(warm: Warm) -> None:
    outcome = warm.run("import sys; print(__name__, sys.argv[1], input(), sep='-')", "one", stdin="two\n")
    assert outcome.ok
    assert outcome.log == "__main__-one-two"


@pytest.mark.slow
def test_imports_are_there_already_unless_a_fresh_interpreter_is_asked_for(warm: Warm) -> None:
    source = "import sys; print('torch' in sys.modules)"
    assert [warm.run(source, fresh=fresh).log for fresh in (False, True)] == ["True", "False"]


def test_the_warm_process_has_one_thread_when_it_forks(warm: Warm) -> None:
    assert warm.run("import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))").log == "1"


def test_nothing_of_one_call_reaches_the_next(warm: Warm) -> None:
    source = (
        "import builtins, os, torch\n"
        "print(hasattr(builtins, 'mark'), os.environ.get('MARK'), torch.initial_seed(), torch.get_default_dtype())\n"
        "builtins.mark = 1; os.environ['MARK'] = '1'; torch.manual_seed(7); torch.set_default_dtype(torch.float64)\n"
    )
    assert warm.run(source).log == warm.run(source).log


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
def test_a_call_has_its_own_cores_environment_and_session(warm: Warm, fresh: bool) -> None:
    source = (
        "import os, torch\n"
        "cpus, threads = sorted(os.sched_getaffinity(0)), torch.get_num_threads()\n"
        "print(cpus, threads, os.environ['MARK'], os.getsid(0) == os.getpid())"
    )
    cpu = min(os.sched_getaffinity(0))
    outcome = warm.run(source, cpus={cpu}, fresh=fresh, environment={"MARK": "x"})
    assert outcome.log == f"[{cpu}] 1 x True"


@pytest.mark.parametrize(
    ("source", "story"),
    [
        ("raise SystemExit(7)", "exited with code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("raise ValueError('no luck')", "exited with code 1"),
    ],
)
def test_how_a_fork_ended_is_told(warm: Warm, source: str, story: str) -> None:
    assert warm.run(source).story == story


def test_the_memory_limit_holds_in_a_fork(warm: Warm) -> None:
    outcome = warm.run(f"data = bytearray({4096 * MIB}); print('allocated')", memory_bytes=2048 * MIB)
    assert not outcome.ok
    assert "MemoryError" in outcome.log


@pytest.mark.slow
def test_a_deadline_ends_a_fork_and_its_children_while_others_go_on(warm: Warm) -> None:
    source = (
        "import subprocess, sys, time\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    other: list[Any] = []
    thread = threading.Thread(target=lambda: other.append(warm.run("import time; time.sleep(2); print('done')")))
    thread.start()
    outcome = warm.run(source, timeout_s=1)
    thread.join()
    assert outcome.timed_out
    assert outcome.seconds < 40
    assert gone(int(outcome.log))
    assert other[0].log == "done"


@pytest.mark.slow
def test_a_child_that_kills_its_parent_again_and_again_harms_itself_alone(warm: Warm, tmp_path: Path) -> None:
    other: list[Any] = []
    source = f"import pathlib, time; pathlib.Path({str(tmp_path / 'on')!r}).touch(); time.sleep(3); print('done')"
    thread = threading.Thread(target=lambda: other.append(warm.run(source)))
    thread.start()
    wait_for((tmp_path / "on").exists)
    hostile = warm.run("import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)")
    thread.join()
    assert "was killed by SIGKILL" in hostile.story
    assert other[0].log == "done"


def test_a_warm_process_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is broken')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    server = WarmServer()
    with pytest.raises(EnvironmentFault, match="could not start: ImportError: torch is broken"):
        server.run("platform", (), timeout_s=60)
    server.stop()


@pytest.mark.slow
def test_stopping_ends_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    warm, begun = Warm(tmp_path), tmp_path / "begun"
    raised: list[BaseException] = []

    def call() -> None:
        try:
            warm.run(f"import os, time; open({str(begun)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_for(lambda: begun.exists() and begun.read_text())
    warm.server.stop()
    thread.join(60)
    assert isinstance(raised[0], Stopped)
    assert gone(int(begun.read_text()))


def gone(pid: int, patience_s: float = 60) -> bool:
    deadline = time.monotonic() + patience_s
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


def wait_for(condition: Any, patience_s: float = 600) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------- cores


def test_cores_are_shared_out_whole() -> None:
    def siblings(cpu: int) -> int:
        return cpu % 4

    assert share(1, range(8), siblings) == [set(range(8))]
    assert share(2, range(8), siblings) == [{0, 4, 1, 5}, {2, 6, 3, 7}]
    assert share(3, range(8), siblings) == [{0, 4}, {1, 5}, {2, 6}]
    assert share(5, range(8), siblings) == [set(range(8))] * 5


# ------------------------------------------------------------------------------------- scripts by their text


def test_a_script_that_sets_variables_gets_a_fresh_interpreter(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import torch\n")
    (tmp_path / "sets.py").write_text("import os\nos.environ['HF_HOME'] = 'x'\n")
    assert [wants_fresh(tmp_path / name) for name in ("plain.py", "sets.py", "none.py")] == [False, True, False]


def test_slow_libraries_are_imported_ahead_only_where_a_script_asks(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("# like transformers\nimport torch\n")
    (tmp_path / "bert.py").write_text("from transformers import BertModel\n")
    assert libraries([tmp_path / "plain.py"]) == []
    assert "transformers" in libraries([tmp_path / "plain.py", tmp_path / "bert.py"])


# ------------------------------------------------------------------------------------- the order of work


class Hand:
    """Workers that answer at once, with so many models for each script."""

    anywhere = False

    def __init__(self, store: Store, slots: int, models: dict[str, int]) -> None:
        self.store, self.slots, self.models = store, slots, models
        self.started: list[str] = []
        self.stopped = False

    def submit(self, task: Any) -> Future[Any]:
        future: Future[Any] = Future()
        label = task.script.stem if isinstance(task, Find) else f"{task.job.workload.name}@{task.job.device}"
        self.started.append(label)
        self.answer(task, future)
        return future

    def answer(self, task: Any, future: Future[Any]) -> None:
        if isinstance(task, Find):
            future.set_result(discovery(task.script, self.models[task.script.stem]))
        else:
            future.set_result(keep(self.store, dataclasses.replace(make_record(), job=task.job)))

    def stop(self) -> None:
        self.stopped = True


def discovery(script: Path, models: int) -> Any:
    workload = make_record().job.workload
    names = [f"{script.stem}{n}" for n in range(models)]
    workloads = tuple(dataclasses.replace(workload, name=name, script=str(script), selector=name) for name in names)
    return SimpleNamespace(
        script=str(script), workloads=workloads, labels=(), error="", log="", seconds=0.1, failure="", from_cache=False
    )


class Silent:
    def start(self, what: str) -> None: ...
    def found(self, what: str, script: Path, models: int, error: str) -> None: ...
    def expect(self, jobs: int, scripts_left: int) -> None: ...
    def done(self, what: str, result: Any, seconds: float) -> None: ...


def asked(folder: Path, *devices: str, **more: Any) -> SweepPlan:
    job = Job(Workload("", "", ""), do=("check",))
    return SweepPlan(Store(folder), tuple((device, Settings()) for device in devices or ("sim",)), job, **more)


def scripts(*names: str) -> list[tuple[Path, tuple[str, ...]]]:
    return [(Path(f"{name}.py"), ()) for name in names]


def test_a_scripts_jobs_start_before_the_next_script_is_looked_at(tmp_path: Path) -> None:
    workers = Hand(Store(tmp_path), 1, {"a": 2, "b": 0, "c": 1})
    results = sweep(asked(tmp_path), scripts("a", "b", "c"), workers, Silent())
    assert workers.started == ["a", "a0@sim", "a1@sim", "b", "c", "c0@sim"]
    assert [(r.row.model, r.row.status) for r in results] == [
        ("a0", "passed"), ("a1", "passed"), ("b", "failed"), ("c0", "passed")
    ]  # fmt: skip
    assert workers.stopped


def test_a_sweep_holds_rows_and_reads_a_record_when_asked(tmp_path: Path) -> None:
    (result,) = sweep(asked(tmp_path), scripts("a"), Hand(Store(tmp_path), 1, {"a": 1}), Silent())
    assert result.record.job.workload.name == "a0"
    result.path.unlink()
    with pytest.raises(OSError, match="No such file"):
        _ = result.record


def test_no_two_jobs_share_a_device_that_serves_one(tmp_path: Path) -> None:
    class Overlapping(Hand):
        """Workers that take a while."""

        running: list[str] = []  # noqa: RUF012
        both = False

        def answer(self, task: Any, future: Future[Any]) -> None:
            device = "" if isinstance(task, Find) else task.job.device
            assert device != "cuda" or "cuda" not in self.running
            self.running.append(device)
            self.both |= {"cpu", "cuda"} <= set(self.running)

            def later() -> None:
                until = time.monotonic() + 20
                while device and not self.both and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(0.02)
                self.running.remove(device)
                Hand.answer(self, task, future)

            threading.Thread(target=later).start()

    workers = Overlapping(Store(tmp_path), 3, {"a": 4})
    results = sweep(asked(tmp_path, "cpu", "cuda", alone=frozenset({"cuda"})), scripts("a"), workers, Silent())
    assert len(results) == 8
    assert workers.both


def test_an_interruption_says_how_far_it_came_and_ends_the_workers(tmp_path: Path) -> None:
    class Interrupting(Hand):
        def submit(self, task: Any) -> Future[Any]:
            if len(self.started) == 2:
                raise KeyboardInterrupt
            return super().submit(task)

    workers = Interrupting(Store(tmp_path), 1, {"a": 2, "b": 1})
    with pytest.raises(Interrupted, match="1 of 2 done, 1 script not looked at yet, kept in"):
        sweep(asked(tmp_path), scripts("a", "b"), workers, Silent())
    assert workers.stopped


class InterruptedWhenCollected:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(100):  # Python calls the handler in here, and drops what it raises
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_is_not_lost_where_python_drops_what_is_raised(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs tests in background

    class Collecting(Silent):
        def done(self, what: str, result: Any, seconds: float) -> None:
            InterruptedWhenCollected()

    try:
        with pytest.raises(Interrupted, match="1 of 2 done"):
            sweep(asked(tmp_path), scripts("a"), Hand(Store(tmp_path), 1, {"a": 2}), Collecting())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


# ---------------------------------------------------------------------------------- what others see of it


def test_a_finished_sweep_leaves_its_counts_beside_the_records(tmp_path: Path) -> None:
    sweep(asked(tmp_path), scripts("a", "b"), Hand(Store(tmp_path), 1, {"a": 2, "b": 0}), Silent())
    (state,) = states(Store(tmp_path))
    assert (state.ended, state.num_done, state.num_failed, state.num_left) == ("finished", 3, 1, 0)
    assert [(f.model, f.status) for f in state.failures] == [("b", "failed")]
    records, bad = Store(tmp_path).records()
    assert (len(records), bad) == (3, []), "no state is taken for a Record"
    assert Path(tmp_path, f"{state.failures[0].record}.json").exists()


def test_a_sweep_can_be_followed_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proveout.sweep.state.SELDOM_S", 0.01)
    seen = []

    class Watched(Hand):
        """Workers that answer once the file tells what they do."""

        def answer(self, task: Any, future: Future[Any]) -> None:
            def later() -> None:
                deadline = time.monotonic() + 10
                while task.name not in states(self.store)[0].running and time.monotonic() < deadline:
                    time.sleep(0.01)
                seen.append(states(self.store)[0])
                Hand.answer(self, task, future)

            threading.Thread(target=later).start()

    sweep(asked(tmp_path), scripts("a", "b"), Watched(Store(tmp_path), 1, {"a": 1, "b": 1}), Silent())
    assert [s.running for s in seen] == [
        ("looking for models in a.py",), ("a0 on sim: check",), ("looking for models in b.py",), ("b0 on sim: check",)
    ]  # fmt: skip
    assert [s.num_left for s in seen] == [2, 2, 1, 1]
    assert all(s.is_alive for s in seen)
    assert not states(Store(tmp_path))[0].is_alive


def test_a_sweep_that_was_stopped_says_so(tmp_path: Path) -> None:
    class Interrupting(Hand):
        def submit(self, task: Any) -> Future[Any]:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        sweep(asked(tmp_path), scripts("a"), Interrupting(Store(tmp_path), 1, {"a": 1}), Silent())
    assert states(Store(tmp_path))[0].ended == "stopped"


def test_a_sweep_that_ended_by_a_wrong_command_line_is_not_stopped_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        sweep(asked(tmp_path), [(tmp_path / "a.py", ("nothere",))], Hand(Store(tmp_path), 1, {"a": 1}), Silent())
    state = states(Store(tmp_path))[0]
    assert state.ended == "failed"
    assert "nothere" in state.why


def test_a_store_remembers_its_newest_sweeps_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proveout.sweep.state.KEPT", 2)
    for name in ("2020-a", "2021-b", "2022-c"):
        (tmp_path / "sweeps" / name).mkdir(parents=True)
    sweep(asked(tmp_path), scripts("a"), Hand(Store(tmp_path), 1, {"a": 1}), Silent())
    assert len(list((tmp_path / "sweeps").iterdir())) == 2
    assert (tmp_path / "sweeps" / "2022-c").exists()


# ---------------------------------------------------------------------------------- after a real kill

MODEL = """
import pathlib, time
import torch
print("hello from the script")
torch.nn.Linear({width}, 4)(torch.ones(1, {width}))
{then}
"""


def write_scripts(folder: Path) -> Path:
    """Two models that are quick and one that waits in its second run, when it is proven, until a file is there."""
    gate = folder / "gate"
    waits = (
        f"runs = pathlib.Path({str(folder / 'runs')!r}); runs.open('a').write('x')\n"
        f"pathlib.Path({str(folder / 'pid')!r}).write_text(str(__import__('os').getpid()))\n"
        f"while runs.read_text().count('x') > 1 and not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.05)"
    )
    for name, width, then in (("a", 32, ""), ("b", 64, ""), ("c", 96, waits)):
        (folder / f"{name}.py").write_text(MODEL.format(width=width, then=then))
    return gate


@pytest.mark.slow
def test_a_killed_sweep_leaves_no_process_keeps_its_records_and_goes_on(tmp_path: Path) -> None:
    gate = write_scripts(tmp_path)
    words = [PROVEOUT, "compile", "--dry-run", "a.py", "b.py", "c.py", "--jobs", "2", "--cache-dir", "cache", "--json"]
    store = Store(tmp_path / "cache")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as sweeping:
        runs = tmp_path / "runs"
        wait_for(lambda: len(store.records()[0]) == 2 and runs.exists() and len(runs.read_text()) == 2)
        sweeping.kill()
    assert gone(int((tmp_path / "pid").read_text()))
    assert len(store.records()[0]) == 2
    gate.touch()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)["records"]
    assert [(r["model"], r["from_cache"]) for r in records] == [("a", True), ("b", True), ("c", False)]


def test_a_warm_process_that_still_imports_is_ended_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the first seconds, on a busy machine: what imports for half a minute does not see its socket close."""
    (tmp_path / "slow_import.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    server = WarmServer(["slow_import"])
    link = server._link()
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 20, "a minute of imports is not waited for"
    assert link.process.returncode is not None


def test_no_word_of_a_table_is_broken_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    from proveout.report.tables.terminal import grid

    monkeypatch.setenv("COLUMNS", "80")
    words = [
        "a_rather_long_model_name_without_a_space",
        "TransformersClassOfGreatLength",
        "0123456789ab",
        "float32[8, 64]",
    ]
    text = grid(["Model", "Class", "Hash", "Inputs"], [words])
    assert all(word in text for word in words)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("harm", ["removed", "labels"])
def test_what_a_script_does_to_the_next_one_is_that_ones_failure_and_ends_no_sweep(tmp_path: Path, harm: str) -> None:
    script = tmp_path / "next.py"
    if harm == "labels":
        script.write_text("# labels: author:nobody\n")
    found = Find(script, How(), 10.0)(lambda *args, **kwargs: pytest.fail("it was run"))
    reasons = {"removed": "next.py was removed while the sweep ran", "labels": "the label 'author:nobody' is malformed"}
    assert (found.workloads, reasons[harm] in found.error) == ((), True)
    assert found.failure == {"removed": "script", "labels": "usage"}[harm]


def test_a_script_that_removes_itself_is_no_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text("import os\nos.remove(__file__)\n")
    found = Find(tmp_path / "gone.py", How(), 60.0)(run_python)
    assert found.error == "gone.py was removed while the sweep ran"
