"""Fuzzers: seeded, so a failure names the seed that repeats it. The long runs are `-m fuzz`."""

from __future__ import annotations

import os

import pytest
from mutate import CANARY


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """A working folder of its own, in which no payload may leave its file and nothing may start a process."""
    monkeypatch.chdir(tmp_path)

    def refuse(*args, **kwargs):
        raise AssertionError(f"a process was started: {args}")

    monkeypatch.setattr(os, "system", refuse)
    yield
    assert not (tmp_path / CANARY).exists(), "data was executed"
