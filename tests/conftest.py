"""Shared by all tests: helpers are importable, nothing is fetched from a hub, the cache is a temporary one."""

import os
import sys
from pathlib import Path

import pytest

for folder in ("ops", "models"):
    sys.path.insert(0, str(Path(__file__).parent / folder))

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / "cache"))
