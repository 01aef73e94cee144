"""A package's names, imported when they are first used: whoever needs one pays for that one only, and not too much."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The package's `__getattr__`. `homes` names for each module what comes from there, with spaces between."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with importing():
            return getattr(importlib.import_module(home_of[name]), name)

    return get


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Without the garbage collector: modules leave next to no garbage, and looking through all that was imported again
    and again is a quarter of the time that PyTorch's take."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
