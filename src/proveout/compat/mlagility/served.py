"""Lets scripts written for MLAgility run unchanged: its names, served by ours while a script runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from proveout.compat import StandIns, is_installed

PACKAGES = ("mlagility", "onnxflow")
MODELS = "mlagility_models"
"""MLAgility's folder of models, as its own scripts import it: the folder of corpora that a script lies in."""


@contextmanager
def mlagility_names(script: Path | None = None) -> Iterator[None]:
    """Make MLAgility's packages importable, but for those that are installed."""
    finders = [StandIns(package) for package in PACKAGES if not is_installed(package)]
    served = [finder.package for finder in finders]
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in served}
    for name in before:
        del sys.modules[name]
    sys.meta_path[:0] = finders
    if script is not None and not is_installed(MODELS) and MODELS not in sys.modules:
        package = ModuleType(MODELS, "Served by proveout while a script runs.")
        package.__path__ = [str(script.absolute().parents[1])]
        sys.modules[MODELS] = package
        served.append(MODELS)
    try:
        yield
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in served]:
            del sys.modules[name]
        sys.modules.update(before)
