"""Lets scripts written for MLAgility run unchanged: its names, served by ours while a script runs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_SERVED = {"mlagility.parser": "proveout.parser", "mlagility.common.labels": "proveout.labels"}


@contextmanager
def mlagility_names() -> Iterator[None]:
    """Make `mlagility.parser` and `mlagility.common.labels` importable, unless the package is installed."""
    if importlib.util.find_spec("mlagility"):
        yield
        return
    modules = {name: _package(name) for name in ("mlagility", "mlagility.common")}
    modules |= {name: importlib.import_module(ours) for name, ours in _SERVED.items()}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)


def _package(name: str) -> ModuleType:
    package = ModuleType(name, "Served by proveout while a script runs.")
    package.__path__ = []
    return package
