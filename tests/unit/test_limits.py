"""Hostile scripts: stopped, and told by their class of failure."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proveout.capture import Discovery, discover
from proveout.isolate import ChildExit, run_python
from proveout.limits import num_processes
from proveout.types import Limits

GIB = 2**30
MODEL = "import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n"

Hostile = Callable[..., Discovery]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    """Discover a script that lies in, and works in, a folder of its own."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def run(source: str, timeout_s: float = 60, **limits: object) -> Discovery:
        script = tmp_path / "work" / "hostile.py"
        script.write_text(textwrap.dedent(source))
        return discover(script, timeout_s=timeout_s, limits=Limits(**limits))  # type: ignore[arg-type]

    return run


@pytest.mark.slow
def test_an_endless_loop_is_stopped_and_the_models_before_it_are_told(run: Hostile) -> None:
    found = run(MODEL + "while True:\n    try:\n        pass\n    except Exception:\n        pass\n", timeout_s=10)
    assert found.failure == "timeout"
    assert [w.name for w in found.workloads] == ["hostile"]
    assert found.error.startswith("hostile.py ran past its limit and was stopped after its models were found")


@pytest.mark.slow
def test_a_loop_that_hears_no_signal_is_stopped_too(run: Hostile) -> None:
    found = run("import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\ntime.sleep(60)\n", timeout_s=2)
    assert (found.failure, found.workloads) == ("timeout", ())
    assert found.seconds < 40


@pytest.mark.slow
def test_a_fork_bomb_is_stopped_at_its_limit(run: Hostile) -> None:
    found = run("import os, time\nprint(os.getsid(0), flush=True)\nwhile True:\n    os.fork()\n    time.sleep(0.05)\n",
                processes=40)  # fmt: skip
    assert found.failure == "crash"
    assert found.error == "hostile.py was stopped: it ran more than 40 processes at a time."
    session = int(found.log.splitlines()[0])
    deadline = time.monotonic() + 60
    while num_processes(session) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert num_processes(session) == 0


@pytest.mark.slow
def test_a_hundred_gigabytes_are_refused(run: Hostile) -> None:
    source = "import torch\ntry:\n    bytearray(100 * 2**30)\nexcept MemoryError:\n    torch.zeros(25 * 2**30)\n"
    found = run(source, memory_bytes=8 * GIB)
    assert found.failure == "memory"
    assert found.error.startswith("hostile.py ran out of memory at hostile.py:5 before any model had run")


@pytest.mark.slow
def test_a_sandboxed_script_writes_below_its_folder_only(run: Hostile, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    found = run(f"""
        import os, shutil, tempfile
        from pathlib import Path
        Path("below.txt").write_text("allowed")
        os.makedirs("a/b")
        shutil.rmtree("a")
        with tempfile.TemporaryFile() as file:
            file.write(b"allowed")
        with open(os.devnull, "w") as sink:
            sink.write("allowed")
        refused = 0
        for attempt in (
            lambda: os.remove({str(precious)!r}),
            lambda: open({str(precious)!r}, "w"),
            lambda: os.rename("below.txt", {str(tmp_path / "moved.txt")!r}),
            lambda: os.mkdir({str(tmp_path / "folder")!r}),
            lambda: os.symlink("/", {str(tmp_path / "link")!r}),
        ):
            try:
                attempt()
            except OSError:
                refused += 1
        assert refused == 5, refused
        assert Path({str(precious)!r}).read_text() == "mine"
        os.remove({str(precious)!r})
        """, sandbox=True)  # fmt: skip
    assert precious.read_text() == "mine"
    assert (tmp_path / "work" / "below.txt").read_text() == "allowed"
    assert found.failure == "script"
    assert "raised PermissionError at hostile.py:25" in found.error


@pytest.mark.slow
def test_a_script_without_network_has_its_own_machine_only(run: Hostile) -> None:
    found = run("""
        import socket, threading
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
        try:
            socket.create_connection(("198.51.100.1", 80), timeout=5)
        except OSError as error:
            print("refused:", error.strerror)
        """, network=False)  # fmt: skip
    assert found.log.splitlines()[0] == "refused: Network is unreachable"


def in_a_child(folder: Path, source: str) -> ChildExit:
    (folder / "confined.py").write_text(textwrap.dedent(source))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return run_python("confined", [], timeout_s=30, environment={"PYTHONPATH": path})


def test_without_landlock_mounts_are_read_only(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    outcome = in_a_child(tmp_path, f"""
        import os
        from pathlib import Path
        from proveout import limits
        from proveout.types import Limits
        os.chdir({str(tmp_path / "work")!r})
        limits._libc.syscall = (lambda call: lambda number, *rest: -1 if number == 444 else call(number, *rest))(
            limits._libc.syscall)
        limits.impose(Limits(sandbox=True), scratch=os.getcwd(), stopping=print)
        Path("below.txt").write_text("allowed")
        try:
            Path("../above.txt").write_text("forbidden")
        except OSError as error:
            print(error.strerror)
        remount = limits._libc.mount(None, b"/", None, limits.ctypes.c_ulong(0x20), None)
        print(remount)
        """)  # fmt: skip
    assert outcome.log.splitlines() == ["Read-only file system", "-1"]
    assert (tmp_path / "work" / "below.txt").read_text() == "allowed"


def test_where_the_system_allows_no_sandbox_that_is_told(tmp_path: Path) -> None:
    outcome = in_a_child(tmp_path, """
        import os
        from proveout import errors, limits
        from proveout.types import Limits
        class Refusing:
            def __getattr__(self, name):
                limits.ctypes.set_errno(1)
                return lambda *args: -1
        limits._libc = Refusing()
        for asked in (Limits(sandbox=True), Limits(network=False)):
            try:
                limits.impose(asked, scratch="/tmp", stopping=print)
            except errors.EnvironmentFault as fault:
                print(fault)
        """)  # fmt: skip
    sandbox, network = outcome.log.splitlines()
    assert sandbox.startswith("--sandbox needs Landlock (Linux 5.13) or user and mount namespaces")
    assert network.startswith("--no-network needs a network namespace, which this system refuses")
