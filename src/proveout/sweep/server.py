"""The warm process: imports once, then forks a child for every call it is sent, and outlives none of its clients.

    python -m proveout.sweep.server FD FOLDER MODULE…   FD: one end of a socket pair that speaks JSON, one object a line
    ◀─ {"ready": true}
    ─▶ {"id": 7, "module": …, "arguments": […], "stdin": path, "log": path, "timeout_s": …, …}
    ◀─ {"id": 7, "returncode": 0, "seconds": 1.2, "timed_out": false}

It has one thread and touches no device, so a fork is as good as a fresh interpreter; a call that asks for `fresh` gets
one. Each child leads a session of its own and is ended with its whole group: at its end, at its deadline, and when the
socket closes, which is how the death of the client, of whatever kind, is seen.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proveout.isolate import kill_group, supervise
from proveout.lazy import importing

PRELOAD = (
    "torch",
    "torch._dynamo.backends.debugging",
    "torch._dynamo.backends.distributed",
    "torch._dynamo.repro.after_aot",
    "torch._dynamo.repro.after_dynamo",
    "torch._dynamo.testing",
    "torch._functorch.aot_autograd",
    "torch._inductor.debug",
    "torch._inductor.decomposition",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "proveout.prove",
    "proveout.capture.child",
    "proveout.check",
    "proveout.clock.timing",
    "proveout.engine.compiled",
    "proveout.engine.snapshot",
    "proveout.devices.registry",
    "proveout.devices.sim",
)
"""What every Job imports. Reading them starts no thread and opens no device."""

TABLES = {
    "proveout.ops.table": "ops",
    "proveout.kernels.table": "kernels",
    "proveout.compiler.decompositions": "decompositions",
}
"""What every Job reads whole: functions that keep what they read."""

ALONE = {"OPENBLAS_NUM_THREADS": "1"}
"""Set while this process imports: NumPy's OpenBLAS would start its thread pool at once."""


NOT_STARTED = {"returncode": None, "seconds": 0.0, "timed_out": False}


@dataclass
class Child:
    id: int
    pid: int
    started: float
    deadline: float
    timed_out: bool = False


def serve(connection: socket.socket) -> None:
    """Answer calls until the client is gone."""
    children: dict[int, Child] = {}
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in selector.select(_patience(children)):
                    if key.fileobj is not connection:
                        selector.unregister(key.fileobj)
                        _send(connection, _bury(children.pop(key.fd)))
                        os.close(key.fd)
                        continue
                    data = connection.recv(1 << 16)
                    if not data:
                        return
                    *lines, buffer = (buffer + data).split(b"\n")
                    for call in map(json.loads, lines):
                        child = _start(call, connection)
                        if child is None:
                            _send(connection, NOT_STARTED | {"id": call["id"]})
                            continue
                        watch = os.pidfd_open(child.pid)
                        children[watch] = child
                        selector.register(watch, selectors.EVENT_READ)
                for child in children.values():
                    if time.monotonic() >= child.deadline and not child.timed_out:
                        child.timed_out = True
                        kill_group(child.pid)
        finally:
            for child in children.values():
                kill_group(child.pid)


def _patience(children: dict[int, Child]) -> float | None:
    """Seconds until the next deadline; None where there is none."""
    deadlines = [child.deadline for child in children.values() if not child.timed_out]
    return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None


def _bury(child: Child) -> dict[str, Any]:
    """End what is left of a finished child's group; how it ended. Its number is not given anew before it is reaped."""
    kill_group(child.pid)
    _, status = os.waitpid(child.pid, 0)
    return {
        "id": child.id,
        "returncode": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - child.started,
        "timed_out": child.timed_out,
    }


def _start(call: dict[str, Any], connection: socket.socket) -> Child | None:
    """A new child; None where the system has no more to give."""
    parent, started = os.getpid(), time.monotonic()
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        code = 1
        try:
            connection.close()
            code = _child(call, parent)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # no way back into the parent's loop
    return Child(call["id"], pid, started, started + call["timeout_s"])


def _child(call: dict[str, Any], parent: int) -> int:
    """What the forked process does: take its place, then be `python -m module arguments…`."""
    os.setsid()
    supervise(parent, call["memory_bytes"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, (path, flags) in enumerate(((call["stdin"], os.O_RDONLY), (call["log"], os.O_WRONLY))):
        source = os.open(path, flags)
        os.dup2(source, target)
        os.close(source)
    os.dup2(1, 2)
    os.environ.update(call["environment"])
    if call["cpus"]:
        os.sched_setaffinity(0, call["cpus"])
    if call["fresh"]:
        os.execv(sys.executable, [sys.executable, "-P", "-m", call["module"], *call["arguments"]])
    if call["cpus"]:
        import torch

        # OpenMP counted the cores when it was loaded, or was told how many to use.
        torch.set_num_threads(min(len(call["cpus"]), torch.get_num_threads()))
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    return _run(call["module"], call["arguments"])


def _run(module: str, arguments: Sequence[str]) -> int:
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # it was imported under its name; now it is `__main__`
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        threading._shutdown()  # type: ignore[attr-defined]
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def load(modules: Sequence[str]) -> None:
    """Import and read what every Job uses, and these modules: forked children share it."""
    environment = {name: os.environ.get(name) for name in ALONE}
    os.environ.update(ALONE)
    with importing():
        for name in PRELOAD:
            importlib.import_module(name)
        for module, table in TABLES.items():
            getattr(importlib.import_module(module), table)()
        for name in modules:
            with contextlib.suppress(Exception):  # the script that needs it will say so
                importlib.import_module(name)
    for name, value in environment.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    gc.collect()
    gc.freeze()  # a child's collector leaves these pages alone, and so shared


def main(descriptor: str, folder: str, *modules: str) -> None:
    """Load, serve, and take the client's temporary folder along: it may have been killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
    load(modules)
    connection = socket.socket(fileno=int(descriptor))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _send(connection, {"ready": True})
        serve(connection)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
