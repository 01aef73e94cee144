"""Other systems' names for what Proveout does, one room a system; each is also imported as `proveout.<name>`.

`install` has Python look here for those names: `import proveout.torch`, `from proveout.parser import parse`. The module
behind a name is loaded when it is first asked for, and there is one of it, whichever way it was imported.

The systems' own names (`import neuronperf`) are served where `proveout compat on` put the folder `packages` on Python's
path, after everything else: a real package comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

NAMES = {
    "cpu": "neuronperf.cpu",
    "cuda": "neuronperf.cuda",
    "benchmarking": "neuronperf.benchmarking",
    "gpu": "neuronperf.gpu",
    "neuronperf": "neuronperf",
    "model_index": "neuronperf.model_index",
    "mxnet": "neuronperf.mxnet",
    "sim": "neuronperf.sim",
    "tensorflow": "neuronperf.tensorflow",
    "torch": "neuronperf.torch",
    "labels": "mlagility.labels",
    "parser": "mlagility.parser",
    "torch_ttnn": "torch_ttnn",
}
"""What users import from `proveout`, and where in this room it is."""


STAND_INS = {
    "mlagility": f"{__name__}.agility",
    "mlagility.api": f"{__name__}.agility",
    "mlagility.cli": f"{__name__}.agility",
    "mlagility.common": f"{__name__}.mlagility",
    "mlagility.common.filesystem": f"{__name__}.onnxflow.filesystem",
    "mlagility.filesystem": f"{__name__}.onnxflow.filesystem",
    "mlagility.parser": f"{__name__}.mlagility.parser",
    "neuronperf": f"{__name__}.neuronperf",
    "onnxflow": f"{__name__}.onnxflow",
    "onnxflow.common": f"{__name__}.onnxflow",
    "onnxflow.justbuildit": f"{__name__}.onnxflow",
    "onnxflow.model": f"{__name__}.onnxflow",
    "torch_neuron": f"{__name__}.neuron",
    "torch_neuronx": f"{__name__}.neuron",
    "torch_ttnn": f"{__name__}.torch_ttnn",
    "ttnn": "proveout.ttnn",
}
"""Other systems' packages, and what is imported in their place; modules inside follow."""
PACKAGES = Path(__file__).parent / "packages"


def stand_in(package: str) -> None:
    """Have our own modules answer to another system's package name. Called by the package of that name here."""
    sys.modules[package] = import_module(STAND_INS[package])
    sys.meta_path.insert(0, StandIns(package))


def spec_of(package: str) -> ModuleSpec:
    """What the import system loads where a stand-in is asked for by yet another name."""
    return ModuleSpec(package, _Loader(STAND_INS[package]))


def is_installed(package: str) -> bool:
    """Whether another system's package is there itself: not ours in its place, nor a mere folder of that name."""
    path = [entry for entry in sys.path if Path(entry) != PACKAGES]
    spec = PathFinder.find_spec(package, path)
    return spec is not None and spec.origin is not None


class StandIns(MetaPathFinder):
    """Finds one such package and its modules."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.package:
            return None
        parent, _, name = fullname.rpartition(".")
        home = STAND_INS.get(fullname) or f"{STAND_INS.get(parent, parent)}.{name}"
        if fullname not in STAND_INS and find_spec(home) is None:
            return None
        return ModuleSpec(fullname, _Loader(home))


class _Finder(MetaPathFinder):
    """Finds `proveout.<name>` in this room."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != "proveout" or name not in NAMES:
            return None
        return ModuleSpec(fullname, _Loader(f"{__name__}.{NAMES[name]}"))


class _Loader(Loader):
    """Gives the module at home under another name, and leaves it as it was."""

    def __init__(self, home: str) -> None:
        self.home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.home)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the other name's there


def install() -> None:
    """Serve the names in this process. May be called again."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
