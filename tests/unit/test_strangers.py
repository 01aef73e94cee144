"""Scripts that do their worst: what they say is checked, what they start ends with them, no other script suffers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proveout.capture import discover
from proveout.isolate import FILLED_DISK, read_answer, run_command, run_python
from proveout.limits import machine_memory
from proveout.prove import prove
from proveout.sweep.warm import WarmServer
from proveout.types import Job, Limits, Workload

MODEL = "import torch\nmodel = torch.nn.Linear(4, 4)\nmodel(torch.randn(2, 4))\n"
ESCAPE = """
import os, subprocess, sys, time
def detached(then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open({pid!r}, "w").write(str(os.getpid()))
            then()
        os._exit(0)
    while not os.path.exists({pid!r}) or not open({pid!r}).read():
        time.sleep(0.01)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(path: Path, within_s: float = 5.0) -> bool:
    pid, until = int(path.read_text()), time.monotonic() + within_s
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(pid)


def risky(folder: Path, source: str, **more):
    (folder / "risky.py").write_text(source)
    return run_python("risky", [], environment={"PYTHONPATH": str(folder)}, **{"timeout_s": 20, **more})


# ---- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "time.sleep(60)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_detached_process_ends_with_its_script(tmp_path, end):
    pid = tmp_path / "pid"
    outcome = risky(tmp_path, ESCAPE.format(pid=str(pid)) + f"detached(lambda: time.sleep(60))\n{end}\n", timeout_s=4)
    assert gone(pid)
    assert outcome.timed_out == ("sleep" in end)
    assert outcome.returncode == {"": 0, "os._exit(3)": 3}.get(end, -9)


@pytest.mark.slow
def test_so_does_one_below_the_warm_process(tmp_path):
    pid, server = tmp_path / "pid", WarmServer()
    (tmp_path / "risky.py").write_text(ESCAPE.format(pid=str(pid)) + "detached(lambda: time.sleep(60))\nsys.exit(5)\n")
    try:
        outcome = server.run("risky", [], environment={"PYTHONPATH": str(tmp_path)}, timeout_s=20, fresh=True)
        assert gone(pid)
        assert outcome.returncode == 5
    finally:
        server.stop()


def test_and_one_of_a_command(tmp_path):
    pid = tmp_path / "pid"
    (tmp_path / "risky.py").write_text(ESCAPE.format(pid=str(pid)) + "detached(lambda: time.sleep(60))\n")
    with (tmp_path / "out").open("w") as out:
        run_command(f"{sys.executable} {tmp_path}/risky.py", output=out, timeout_s=20, environment={})
    assert gone(pid)


def test_and_when_we_are_killed_ourselves(tmp_path):
    pid = tmp_path / "pid"
    (tmp_path / "risky.py").write_text(
        ESCAPE.format(pid=str(pid)) + "detached(lambda: time.sleep(60))\ntime.sleep(60)\n"
    )
    code = "from proveout.isolate import run_python; run_python('risky', [], timeout_s=60)"
    paths = os.pathsep.join((str(tmp_path), *sys.path))
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    until = time.monotonic() + 20
    while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert gone(pid)


def test_a_fork_bomb_of_detached_processes_is_ended(tmp_path, monkeypatch):
    source = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        os.setsid()
        with open("pids", "a") as pids:
            pids.write(f"{os.getpid()}\\n")
        time.sleep(60)
        os._exit(0)
time.sleep(0.5)
"""
    monkeypatch.chdir(tmp_path)
    risky(tmp_path, source)
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    until = time.monotonic() + 5
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(pids) == 60
    assert not any(map(is_alive, pids))


def test_a_call_from_another_thread_ends_as_well(tmp_path):
    """The app runs its children from threads, where Python lets nobody set a signal's handler."""
    pid, source = tmp_path / "pid", "detached(lambda: time.sleep(60))\nsys.exit(3)\n"
    with ThreadPoolExecutor(1) as threads:
        outcome = threads.submit(risky, tmp_path, ESCAPE.format(pid=str(pid)) + source).result()
    assert (outcome.returncode, outcome.log) == (3, "")
    assert gone(pid)


def test_stdin_is_empty_and_not_ours(tmp_path):
    assert risky(tmp_path, "import sys; print(repr(sys.stdin.read()))").log == "''"


# ---- a sandbox ------------------------------------------------------------------------------------------------------


def found_by(folder: Path, source: str, **limits):
    (folder / "work").mkdir(exist_ok=True)
    script = folder / "work" / "script.py"
    script.write_text(source + MODEL)
    before = os.getcwd()
    os.chdir(folder / "work")
    try:
        return discover(script, limits=Limits(**limits), timeout_s=60)
    finally:
        os.chdir(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("open({outside!r}, 'w')\n", "Permission|Read-only"),
        ("import os; os.rename({secret!r}, {outside!r})\n", "Permission|Read-only|cross-device"),
        ("import os; os.truncate({secret!r}, 0)\n", "Permission|Read-only"),
        ("import os, signal; os.kill(os.getppid(), signal.SIGKILL)\n", "Operation not permitted"),
        (
            "import ctypes, os; l = ctypes.CDLL(None, use_errno=True)\n"
            "if l.ptrace(16, os.getppid(), 0, 0): raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n",
            "Operation not permitted",
        ),
    ],
    ids=["write", "rename", "truncate", "kill our process", "trace our process"],
)
def test_a_sandboxed_script_reaches_nothing_outside(tmp_path, source, error):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    text = source.format(outside=str(tmp_path / "outside"), secret=str(secret))
    found = found_by(tmp_path, text, sandbox=True)
    assert found.failure == "script"
    assert any(part in found.error + found.log for part in error.split("|"))
    assert secret.read_text() == "secret"
    assert not (tmp_path / "outside").exists()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_script_without_network_has_none_before_and_after_its_model(tmp_path, when):
    connect = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=2)\n"
    source = connect if when == "before" else MODEL + connect
    found = found_by(tmp_path, source, network=False)
    assert "unreachable" in found.error + found.log


@pytest.mark.slow
def test_a_detached_process_does_not_survive_a_sandbox(tmp_path):
    pid = tmp_path / "work" / "pid"
    found_by(tmp_path, ESCAPE.format(pid=str(pid)) + "detached(lambda: time.sleep(60))\n", sandbox=True, network=False)
    assert gone(pid)


@pytest.mark.slow
def test_memory_and_threads_are_the_scripts_own_failure(tmp_path):
    assert found_by(tmp_path, "x = bytearray(1 << 34)\n", memory_bytes=min(1 << 33, machine_memory())).failure in (
        "memory",
        "script",
    )
    start = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    source = f"import threading, time\nfor _ in range(50): {start}\n"
    assert found_by(tmp_path, source).workloads


WRITES = "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush(); time.sleep(0.03)\n"
FILLS = {
    "one file": WRITES,
    "many files": "n = 0\nwhile True: open(f'big{n}', 'wb').write(bytes(1 << 20)); n += 1; time.sleep(0.03)\n",
    "a hole": "os.posix_fallocate(os.open('big', os.O_CREAT | os.O_RDWR), 0, 48 << 20); time.sleep(60)\n",
    "its log": "while True: print('x' * (1 << 20), flush=True); time.sleep(0.03)\n",
    "a detached process": "if os.fork(): time.sleep(60)\nos.setsid()\n" + WRITES,
}


@pytest.fixture
def small_disk(tmp_path, monkeypatch):
    """A disk of 64 MiB, on which everything happens."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", disk], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    (disk / "work").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    monkeypatch.chdir(disk / "work")
    yield disk
    monkeypatch.undo()
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("what", FILLS)
def test_a_script_that_fills_the_disk_is_ended_while_there_is_room(tmp_path, small_disk, what):
    """As quickly as a disk writes, not as quickly as memory does."""
    outcome = risky(tmp_path, "import os, time\n" + FILLS[what], timeout_s=60)
    assert outcome.returncode == FILLED_DISK
    assert "filled the disk" in outcome.story
    (small_disk / "record.json").write_text("x" * 4096)


def test_a_disk_that_was_nearly_full_ends_no_script_that_writes_little(tmp_path, small_disk):
    (small_disk / "others").write_bytes(bytes(60 << 20))
    assert risky(tmp_path, "import time; open('small', 'w').write('x'); time.sleep(0.5)").ok


# ---- what a child says ----------------------------------------------------------------------------------------------

GARBAGE = {
    "not json": b"{",
    "binary": bytes(range(256)),
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "null": b"null",
    "other fields": b'{"workloads": [{"name": 3}], "error": 7}',
    "nan": b'{"workloads": NaN}',
    "other failure": b'{"workloads": [], "error": "x", "failure": "<script>"}',
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_discovery_of_garbage_is_that_scripts_failure(tmp_path, what):
    def run(module, arguments, **rest):
        Path(arguments[-1]).write_bytes(GARBAGE[what])
        return run_python("this", [], timeout_s=20)

    script = tmp_path / "script.py"
    script.write_text(MODEL)
    found = discover(script, run=run)
    assert found.failure == "crash"
    assert found.error.startswith("script.py changed what is said about it: ")
    assert found.workloads == ()


@pytest.mark.parametrize("what", GARBAGE)
def test_a_record_of_garbage_is_that_scripts_failure(tmp_path, what):
    def run(module, arguments, **rest):
        Path(arguments[-1]).write_bytes(GARBAGE[what])
        return run_python("this", [], timeout_s=20)

    record = prove(Job(Workload("m", "script.py", "m")), run=run)
    assert (record.status, record.failure) == ("failed", "crash")
    assert "its script changed what it says" in record.reason


@pytest.mark.slow
def test_a_damaged_memory_of_a_discovery_is_made_again(tmp_path):
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(MODEL)
    discover(script, cache=cache)
    (path,) = (cache / "discoveries").rglob("*.json")
    entry = json.loads(path.read_text())
    entry["found"]["workloads"] = [{"name": 7}]
    path.write_text(json.dumps(entry))
    found = discover(script, cache=cache)
    assert (len(found.workloads), found.from_cache) == (1, False)


def test_a_record_of_another_job_is_not_kept(tmp_path):
    from proveout.coding import to_json
    from proveout.types import Record

    def run(module, arguments, **rest):
        Path(arguments[-1]).write_text(json.dumps(to_json(Record(Job(Workload("other", "other.py", "m")), "passed"))))
        return run_python("this", [], timeout_s=20)

    record = prove(Job(Workload("m", "script.py", "m")), run=run)
    assert (record.status, record.job.workload.name) == ("failed", "m")
    assert "another Job" in record.reason


def test_an_answer_is_a_file_of_a_size_that_can_be(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "long").write_text("1" * 100)
    monkeypatch.setattr("proveout.isolate.ANSWER_BYTES", 50)
    monkeypatch.setattr("proveout.isolate.ANSWER_VALUES", 9)
    (tmp_path / "many").write_text("[[],[],[],[],[]]")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "link", "long", "missing", "many", "folder"):
        with pytest.raises(ValueError, match="the worker"):
            read_answer(tmp_path / name)


PATCHES = {
    "dumps": "json.dumps = lambda *a, **k: '{'",
    "nothing": "json.dumps = lambda *a, **k: None",
    "other": "json.dumps = lambda *a, **k: '{\"workloads\": 3}'",
    "fault": 'json.dumps = lambda *a, **k: \'{"fault": "no sandbox here"}\'',
}


LOGS = {
    "gone": "os.unlink(log)",
    "a pipe": "os.unlink(log); os.mkfifo(log)",
    "a folder": "os.unlink(log); os.mkdir(log)",
    "a device": "os.unlink(log); os.symlink('/dev/zero', log)",
    "its folder is gone": "import shutil; shutil.rmtree(os.path.dirname(os.path.dirname(log)))",
}


@pytest.mark.slow
def test_a_script_that_takes_away_its_log_or_its_folder_harms_itself_alone(tmp_path):
    """Removing the folder of the warm process once failed every script after it."""
    server, once = WarmServer(), ["-n1", "-r1"]
    try:
        for name, does in LOGS.items():
            code = f"import os\nlog = os.readlink('/proc/self/fd/1')\n{does}"
            outcome = server.run("timeit", [*once, code], timeout_s=20)
            assert (outcome.returncode, outcome.timed_out, outcome.log) == (0, False, ""), name
        outcome = server.run("timeit", [*once, "print('well')"], timeout_s=20)
        assert (outcome.returncode, outcome.log.splitlines()[0]) == (0, "well")
        alone = risky(tmp_path, "import os\nlog = os.readlink('/proc/self/fd/1')\nos.unlink(log); os.mkfifo(log)\n")
        assert (alone.returncode, alone.log) == (0, "")
    finally:
        server.stop()


@pytest.mark.slow
def test_no_script_ends_a_sweep(tmp_path, monkeypatch, capsys):
    """Scripts that replace what our own code in their process writes with; the last one is well."""
    from proveout import cli

    monkeypatch.chdir(tmp_path)
    for name, patch in PATCHES.items():
        (tmp_path / f"{name}.py").write_text(f"import json\n{patch}\n{MODEL}")
    (tmp_path / "well.py").write_text(MODEL)
    names = [*(f"{name}.py" for name in PATCHES), "well.py"]
    code = cli.main(["benchmark", *names, "--device", "cpu", "--iterations", "2", "--cache-dir", "cache", "--json"])
    told = json.loads(capsys.readouterr().out)
    statuses = {Path(row["script"]).stem: row["status"] for row in told["records"]}
    assert code == 1
    assert statuses == {**dict.fromkeys(PATCHES, "failed"), "well": "passed"}
