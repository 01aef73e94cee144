"""A child process: its deadline, limits, log and end."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from proveout.isolate import LOG_LINES, ChildExit, Disk, kill_group, run_python

MIB = 2**20


def run(folder: Path, source: str, *arguments: str, timeout_s: float = 20, **options: object) -> ChildExit:
    """Run `source` as a module of its own."""
    (folder / "risky.py").write_text(source)
    environment = {"PYTHONPATH": str(folder)}
    return run_python("risky", arguments, timeout_s=timeout_s, environment=environment, **options)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_gets_its_arguments_and_stdin_and_its_output_is_the_log(tmp_path: Path) -> None:
    source = "import sys; print(sys.argv[1], input()); print('aside', file=sys.stderr)"
    outcome = run(tmp_path, source, "one", stdin="two\n")
    assert outcome.ok
    assert outcome.returncode == 0
    assert sorted(outcome.log.splitlines()) == ["aside", "one two"]


def test_the_log_keeps_the_last_lines(tmp_path: Path) -> None:
    outcome = run(tmp_path, "for n in range(1000): print(n)")
    assert outcome.log.splitlines() == [str(n) for n in range(1000 - LOG_LINES, 1000)]


def test_an_exit_code_is_told(tmp_path: Path) -> None:
    outcome = run(tmp_path, "raise SystemExit(7)")
    assert not outcome.ok
    assert outcome.story == "exited with code 7"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["time.sleep(60)", "sys.exit()"], ids=["deadline", "normal end"])
def test_no_grandchild_outlives_the_call(tmp_path: Path, end: str) -> None:
    source = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        f"{end}\n"
    )
    outcome = run(tmp_path, source, timeout_s=2)
    assert outcome.timed_out == ("sleep" in end)
    grandchild = int(outcome.log)
    deadline = time.monotonic() + 5
    while is_alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(grandchild)


DEAF = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    print(os.getpid(), flush=True)
    time.sleep(600)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_an_early_end_asks_nobody_and_is_done_when_the_call_returns(tmp_path: Path, monkeypatch) -> None:
    """What ends a run early (the app's Stop) sends SIGKILL at once: a child that hears no other signal, and what it
    detached, are gone when it returns, and it chose to sleep far less than the two seconds that the app promises. What
    is counted is the sleep that it asks for and its own processor time, which other work on this machine leaves alone.
    """
    log, pids, ready = tmp_path / "log", [], threading.Event()

    def started(pid: int) -> None:
        pids.append(pid)
        ready.set()

    child = threading.Thread(
        target=run, args=(tmp_path, DEAF), kwargs={"timeout_s": 300, "log": log, "started": started}
    )
    child.start()
    ready.wait()
    while len(log.read_text().split()) < 2:
        time.sleep(0.01)
    deaf = [int(word) for word in log.read_text().split()]
    assert all(map(is_alive, deaf))

    naps, sleep = [], time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (naps.append(seconds), sleep(seconds)))
    began = time.thread_time()
    kill_group(pids[0])
    spent = time.thread_time() - began
    monkeypatch.undo()
    assert not any(map(is_alive, deaf))
    assert sum(naps) + spent < 2
    child.join()


@pytest.mark.slow
def test_the_deadline_is_kept_and_told(tmp_path: Path) -> None:
    outcome = run(tmp_path, "import time; time.sleep(60)", timeout_s=1)
    assert outcome.timed_out
    assert not outcome.ok
    assert outcome.seconds < 40
    assert "ran past its limit and was stopped after" in outcome.story


def test_a_segmentation_fault_is_told_by_name(tmp_path: Path) -> None:
    outcome = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert outcome.returncode == -11
    assert outcome.story == "was killed by SIGSEGV"


@pytest.mark.slow
def test_the_memory_limit_is_the_childs_alone(tmp_path: Path) -> None:
    greedy = f"data = bytearray({512 * MIB}); print('allocated')"
    limited = run(tmp_path, greedy, memory_bytes=256 * MIB)
    assert not limited.ok
    assert "MemoryError" in limited.log
    assert run(tmp_path, greedy).log == "allocated"


def test_the_environment_is_added_to_not_replaced(tmp_path: Path) -> None:
    outcome = run(tmp_path, "import os; print(os.environ['PATH'])")
    assert outcome.log == os.environ["PATH"]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no shared memory here")
def test_shared_memory_is_watched_like_a_disk() -> None:
    assert Disk.of_this_process().reserves["/dev/shm"] > 0
