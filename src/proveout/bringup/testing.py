"""Runs generated tests as a user would: plain pytest in a process of its own, with nothing but the package."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.sweep.warm import WarmServer

TIMEOUT_S = 900.0
WRITTEN = ("ttnn_model", "ttnn_trace")
"""Modules of the folder, which another folder has too."""


@dataclass(frozen=True)
class TestRun:
    """How the tests of one file ended."""

    passed: int = 0
    failed: int = 0
    expected: int = 0
    """Known to be off, with their reason in the file."""
    why: str = ""
    """Why they did not run, or which failed first."""

    __test__ = False

    @property
    def ok(self) -> bool:
        return self.passed > 0 and not self.failed and not self.why

    def __str__(self) -> str:
        if not self.passed and not self.failed:
            return f"tests not run: {self.why}"
        rest = f", {self.failed} failed" * bool(self.failed) + f", {self.expected} known to be off" * bool(
            self.expected
        )
        return f"{self.passed} tests passed{rest}"


@contextlib.contextmanager
def written_module(path: Path, beside: Path | None = None) -> Iterator[Any]:
    """A written file as a module, for as long as it is looked at; what it imports may lie `beside`."""
    name, before, known = f"proveout_written_{path.stem}", list(sys.path), set(sys.modules)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path[:0] = [str(beside)] if beside is not None else []
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:], sys.dont_write_bytecode = before, bytecode
        for one in set(sys.modules) - known:
            if str(getattr(sys.modules[one], "__file__", "")).startswith(str(path.parent)) or one in WRITTEN:
                del sys.modules[one]


@functools.cache
def _server() -> WarmServer:
    """Imports once for all tests of this process; of what it imports, no bytecode is left beside the tests."""
    server = WarmServer(("pytest", "proveout.ttnn"))
    atexit.register(server.stop)
    return server


def run_tests(path: Path, wanted: bool = True, beside: Path | None = None) -> TestRun:
    """The tests of one file. Nothing of the working folder's own configuration is read; modules that the tests need and
    that are not written with them lie `beside`."""
    if not wanted:
        return TestRun(why="--no-tests was given")
    if importlib.util.find_spec("pytest") is None:
        return TestRun(why="pytest is not installed. Run: pip install pytest")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        str(path.parent),
        "--tb=line",
        "-W",
        "ignore",
    ]
    if beside is not None:
        options += ["-o", f"pythonpath={beside}"]
    outcome = _server().run("pytest", [*options, str(path)], timeout_s=TIMEOUT_S)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|xfailed|error)", outcome.log)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    failure = re.search(r"^FAILED \S*?::(.*)$", outcome.log, re.MULTILINE)
    why = f"first: {failure.group(1)[:200]}" if failure else "" if outcome.ok else f"pytest {outcome.story}"
    if not counts and not why:  # the file is cut short, or what pytest said is lost
        why = "pytest says of none that it passed"
    return TestRun(counts.get("passed", 0), failed, counts.get("xfailed", 0), why)
