"""Lets scripts written for MLAgility run unchanged: its names, served by ours while a script runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from proveout.compat import is_installed

_SERVED = {"mlagility.parser": "proveout.parser", "mlagility.common.labels": "proveout.labels"}


@contextmanager
def mlagility_names() -> Iterator[None]:
    """Make `mlagility.parser` and `mlagility.common.labels` importable, unless the package is installed."""
    if is_installed("mlagility"):
        yield
        return
    modules = {name: _package(name) for name in ("mlagility", "mlagility.common")}
    modules |= {name: importlib.import_module(ours) for name, ours in _SERVED.items()}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "mlagility"}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def _package(name: str) -> ModuleType:
    package = ModuleType(name, "Served by proveout while a script runs.")
    package.__path__ = []
    return package
