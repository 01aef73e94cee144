"""Shared by all tests: helpers are importable, nothing is fetched from a hub, the cache is a temporary one."""

import gc
import itertools
import os
import random
import re
import shutil
import sys
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # each has its core: more threads than cores make all of them wait
    os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.disable()  # until all tests are collected: imports leave next to no garbage

import torch

from proveout import vision

for folder in ("ops", "models", "conformance", "fuzz"):
    sys.path.insert(0, str(Path(__file__).parent / folder))
sys.path.append(str(Path(__file__).parents[1] / "training"))

os.environ.setdefault("HF_HUB_OFFLINE", "1")
START = str(Path(__file__).parent / "start")  # read by every Python that is started
os.environ["PYTHONPATH"] = os.pathsep.join([START, *filter(None, [os.environ.get("PYTHONPATH")])])
vision.serve()  # tests import transformers, which imports torchvision

_numbers = itertools.count()
BY_NAME = {"whole", "whole_table", "whole_corpora", "whole_vectors", "whole_decoders", "fuzz"}


def pytest_collection_modifyitems(config, items):
    """Long tests run only where `-m` names one of their markers, so that `-m "not slow"` does not bring them in."""
    named = set(re.findall(r"\w+", config.option.markexpr))
    long = [item for item in items if (own := BY_NAME & {m.name for m in item.iter_markers()}) and not own & named]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """PyTorch's heap is large and lives on: looking through it took a tenth of the time."""
    gc.set_threshold(20_000, 10, 50)
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Random numbers are the same whatever ran before in this process, fixtures' too."""
    torch.manual_seed(0)
    random.seed(0)


@pytest.fixture
def without_rows(monkeypatch, tmp_path):
    """A way to take ops out of the op table, so that they stay on the host whatever rows come."""
    from proveout.ops import table

    def without(*atens):
        left = {name: row for name, row in table.ops().items() if name not in atens}
        for module in ("lower", "fixes"):
            monkeypatch.setattr(f"proveout.compiler.{module}.ops", lambda: left)
        monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path / f"cache without {len(atens)} {atens[0]}"))

    return without


@pytest.fixture(autouse=True)
def own_cache(request, tmp_path_factory, monkeypatch):
    """Each test's, made when something is kept there. Thousands of tests keep nothing: a `tmp_path` for each, which
    pytest names by looking at all that are there, took 20 s of a worker."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    if folder is None:
        folder = tmp_path_factory.getbasetemp() / "own" / str(next(_numbers))
    monkeypatch.setenv("PROVEOUT_CACHE", str(folder / "cache"))


@pytest.fixture(autouse=True, scope="session")
def servers_are_forked():
    """Warm servers begin in a fork of one process that has imported what all of them import."""
    from proveout.sweep import warm
    from zygote import Zygote

    zygote, fresh = Zygote(), warm.start

    def start(descriptor, arguments, said):
        if zygote.serves():
            return zygote.fork(arguments, said.fileno(), descriptor)
        return fresh(descriptor, arguments, said)

    warm.start = start
    yield
    warm.start = fresh
    zygote.stop()


@pytest.fixture(scope="module")
def chromium():
    """A browser, shut before the next file: while it is open no event loop can run in this process."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
