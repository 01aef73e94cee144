"""The command line in this process, where a test is not about how a process starts or ends.

What models need runs in processes of their own all the same: the warm server's.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path

import pytest

from proveout import cli


def proveout_here(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `proveout words…` in this folder ends with and prints."""
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.chdir(cwd)
        for name, value in {"PROVEOUT_CACHE": str(cwd / "cache"), **environment}.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(words)
        out.seek(0), err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())
