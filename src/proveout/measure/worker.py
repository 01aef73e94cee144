"""The process that holds one copy of a model: `python -m proveout.measure.worker`, started fresh by the controller.

It is told what to do over stdin (a line of JSON, two pickles, then lines `go START DEADLINE`, `stop` and `done`) and
tells what it did in lines of JSON over a pipe. It ends when stdin does: without a controller there is nothing to do.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pickle
import resource
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from types import FunctionType
from typing import Any

STACK_SIGNAL = signal.SIGUSR2
"""Makes a worker write the stacks of its threads to stderr, even while it holds the interpreter's lock."""
ORPHANED = 4
DONE_S = 5.0


def main() -> int:
    faulthandler.enable()
    faulthandler.register(STACK_SIGNAL, all_threads=True)
    stdin = open(0, "rb", buffering=0)  # noqa: SIM115  a buffer's lock, held by a thread that waits, would spoil the exit
    message = json.loads(stdin.readline())
    if message["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_DATA, (message["memory_bytes"], message["memory_bytes"]))
    sys.path[:] = message["path"]
    tell = _Teller(message["pipe"])
    environment, task = (_exactly(stdin, size) for size in message["sizes"])
    commands = _Commands(stdin)
    try:
        finished = _run(message, environment, task, commands, tell)
    except BaseException:
        import traceback

        tell(event="failed", traceback=traceback.format_exc())
        return 1
    return 0 if finished else 1


def _run(message: dict[str, Any], environment: bytes, pickled: bytes, commands: _Commands, tell: _Teller) -> bool:
    index, folder = message["index"], Path(message["folder"])
    env_setup_fn, config = pickle.loads(environment)
    if env_setup_fn is not None:  # before anything that may import torch: it may set what torch reads at import
        env_setup_fn(index, config)
    from proveout.clock.pacing import clock
    from proveout.lazy import importing

    with importing():
        from proveout.measure.host import Host, LoadFailed

    try:
        if b"torch" in pickled:  # what it takes to import it is not the model's
            with importing():
                importlib.import_module("torch")
        began = clock()
        task = pickle.loads(pickled)
        took = clock() - began
        _fill_main()
        host = Host(task, index, folder)
        commands.on_stop = lambda: setattr(host, "stopped", True)
        prepared = host.prepare(took)
    except LoadFailed as error:
        tell(event="failed", traceback=str(error))
        return False
    gc.collect()
    gc.freeze()  # what loading left behind is not looked at again while measuring
    tell(event="ready", **asdict(prepared))
    start_ns, deadline_ns = commands.go()
    finished = host.measure(start_ns, deadline_ns, message["schedule"], lambda: tell(event="measured"))
    runs = [{"calls": r.calls, "errors": r.errors, "traceback": r.traceback, "reason": r.reason} for r in finished.runs]
    check = None if finished.check is None else asdict(finished.check)
    tell(event="finished", runs=runs, missing_items=finished.missing_items, check=check)
    commands.wait_for_done()
    return True


class _Teller:
    """Lines of JSON to the controller."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __call__(self, **event: Any) -> None:
        sys.stdout.flush()  # what was printed until now is shown with this
        line = json.dumps(event).encode() + b"\n"
        while line:
            line = line[os.write(self._pipe, line) :]


class _Commands:
    """What the controller says while the worker works, read by a thread that otherwise sleeps."""

    def __init__(self, stdin: FileIO) -> None:
        self.on_stop: Callable[[], None] = _nothing
        self._stdin = stdin
        self._start = (0, 0)
        self._started, self._done = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def go(self) -> tuple[int, int]:
        self._started.wait()
        return self._start

    def wait_for_done(self) -> None:
        """Until what this process used was sampled for the last time."""
        self._done.wait(DONE_S)

    def _listen(self) -> None:
        for line in self._stdin:
            words = line.split()
            if words[0] == b"go":
                self._start = int(words[1]), int(words[2])
                self._started.set()
            elif words[0] == b"done":
                self._done.set()
            elif words[0] == b"stop":
                self.on_stop()
        os._exit(ORPHANED)


def _exactly(stdin: FileIO, size: int) -> bytes:
    """So many bytes; a pipe gives them in pieces."""
    whole = bytearray(size)
    left = memoryview(whole)
    while left:
        count = stdin.readinto(left)
        if not count:
            os._exit(ORPHANED)
        left = left[count:]
    return bytes(whole)


def _fill_main() -> None:
    """Give `__main__` what the functions of the user's script see: Dynamo looks their globals up in that module."""
    if "torch" not in sys.modules:
        return
    main = vars(sys.modules["__main__"])
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__globals__.get("__name__") == "__main__":
            for name, value in list(one.__globals__.items()):
                main.setdefault(name, value)


def _nothing() -> None:
    """What a stop means before there is anything to stop."""


if __name__ == "__main__":
    sys.exit(main())
