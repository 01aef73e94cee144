"""Where a script's `from_pretrained` finds its weights: `--weights random`, a folder, or the hub as always.

random       the config from `configs.json`, the corpora's table or the hub's cache, the weights seeded
DIR          DIR/<name>, DIR/<organisation>/<name>, or DIR itself where it is a checkpoint
pretrained   what the script asks for; it is told in `PROVEOUT_WEIGHTS`
meta         as random, but every tensor has a shape and no values: models of any size are planned, none is run
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from proveout.capture.scripts import corpora_folder
from proveout.compat.mlagility.parser import WEIGHTS
from proveout.errors import UsageError
from proveout.types import META

SEED = 0
CHOICES = ("", "random", "pretrained", META)
CONFIGS = Path(__file__).with_name("configs.json")

Patch = Callable[[ModuleType], None]


def check_weights(weights: str) -> None:
    """Refuse a choice that cannot be served."""
    if weights not in CHOICES and not Path(weights).expanduser().is_dir():
        choices = ", ".join(repr(choice) for choice in CHOICES if choice)
        raise UsageError(f"--weights {weights!r} is none of {choices}, nor a folder of checkpoints.")


@contextmanager
def serving(weights: str) -> Iterator[set[str]]:
    """Serve `from_pretrained` for a while; the set fills with the checkpoints that got random weights."""
    check_weights(weights)
    served: set[str] = set()
    if not weights:
        yield served
        return
    with ExitStack() as stack:
        stack.enter_context(_environment(WEIGHTS, weights))
        if weights != "pretrained":
            stack.enter_context(_environment("HF_HUB_OFFLINE", "1"))
            stack.enter_context(_attribute("huggingface_hub.constants", "HF_HUB_OFFLINE", True))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="proveout-"))
            bundled = weights in ("random", META)
            find = _bundled(Path(folder)) if bundled else _checkpoint(Path(weights).expanduser())
            patches: dict[str, Patch] = {"transformers.utils.hub": lambda module: _redirect(stack, module, find)}
            if bundled:
                patches["transformers.modeling_utils"] = lambda module: _randomise(stack, module, served)
            stack.enter_context(_when_imported(patches))
        if weights == META:
            import torch

            stack.enter_context(torch.device("meta"))
        yield served


def bundled_configs() -> dict[str, dict[str, Any]]:
    """Published configs by the name of their checkpoint."""
    configs: dict[str, dict[str, Any]] = json.loads(CONFIGS.read_text(encoding="utf-8"))
    return configs


# ------------------------------------------------------------------------------------------- patches


def _randomise(stack: ExitStack, module: ModuleType, served: set[str]) -> None:
    """`Model.from_pretrained(name)` builds the model from the config of that name."""
    base = module.PreTrainedModel

    def from_pretrained(cls: Any, /, name: Any, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        import torch

        details = kwargs.pop("output_loading_info", False)
        if config is None or isinstance(config, (str, os.PathLike)):
            config, kwargs = cls.config_class.from_pretrained(config or name, return_unused_kwargs=True, **kwargs)
        taken = {key: value for key, value in kwargs.items() if key in ("dtype", "torch_dtype", "attn_implementation")}
        if "auto" in (taken.get("dtype"), taken.get("torch_dtype")):
            taken = {"dtype": config.dtype}
        taken.setdefault("dtype", taken.pop("torch_dtype", None) or torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            model = cls._from_config(config, *args, **taken).eval()
        served.add(str(name))
        return (model, {}) if details else model

    original = base.__dict__["from_pretrained"]
    base.from_pretrained = classmethod(from_pretrained)
    stack.callback(setattr, base, "from_pretrained", original)


def _redirect(stack: ExitStack, module: ModuleType, find: Callable[[str, Sequence[str]], Path | None]) -> None:
    """Every file of a checkpoint goes through `cached_files`, which also takes folders."""
    original: Any = module.cached_files  # type: ignore[attr-defined]

    @functools.wraps(original)
    def cached_files(path_or_repo_id: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
        folder = None if os.path.isdir(path_or_repo_id) else find(str(path_or_repo_id), filenames)
        return original(str(folder or path_or_repo_id), filenames, *args, **kwargs)

    module.cached_files = cached_files  # type: ignore[attr-defined]
    stack.callback(setattr, module, "cached_files", original)


def _bundled(folder: Path) -> Callable[[str, Sequence[str]], Path | None]:
    """A folder with the bundled config of a name; None where the hub's cache may know more."""
    configs = bundled_configs()

    def find(name: str, filenames: Sequence[str]) -> Path | None:
        if "config.json" not in filenames:
            return None
        config = configs.get(name) or _of_corpus(name)
        if config is None:
            return None
        place = folder / name.replace("/", "--")
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(config))
        return place

    return find


def _of_corpus(name: str) -> dict[str, Any] | None:
    """The config of a checkpoint in the corpora's own table of published sizes."""
    folder = corpora_folder() / "popular_on_huggingface"
    if not (folder / "_checkpoints.py").is_file():
        return None
    import transformers

    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        row = runpy.run_path(str(folder / "_checkpoints.py"))["CHECKPOINTS"].get(name)
    finally:
        sys.path.remove(str(folder))
        for module in {"_sizes"} - before:
            sys.modules.pop(module, None)
    if row is None:
        return None
    config: dict[str, Any] = getattr(transformers, row.model).config_class(**row.sizes).to_diff_dict()
    return config


def _checkpoint(folder: Path) -> Callable[[str, Sequence[str]], Path | None]:
    def find(name: str, filenames: Sequence[str]) -> Path | None:
        places = (folder / name, folder / name.rpartition("/")[2], folder)
        return next((place for place in places if (place / "config.json").is_file()), None)

    return find


# ------------------------------------------------------------------------------------------- imports


class _Watched(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Patches modules right after they are imported for the first time."""

    def __init__(self, patches: dict[str, Patch]) -> None:
        self.patches = patches
        self.loaders: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.patches or name in self.loaders:
            return None
        self.loaders[name] = None  # the search below comes here again
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        self.loaders[name], spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loaders[spec.name].create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loaders[module.__name__].exec_module(module)
        self.patches[module.__name__](module)


@contextmanager
def _when_imported(patches: dict[str, Patch]) -> Iterator[None]:
    for name in [name for name in patches if name in sys.modules]:
        patches[name](sys.modules[name])
    finder = _Watched({name: patch for name, patch in patches.items() if name not in sys.modules})
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _attribute(module: str, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a module that may not be imported yet: then its environment variable does it."""
    home: Any = sys.modules.get(module)
    if home is None:
        yield
        return
    before = getattr(home, name)
    setattr(home, name, value)
    try:
        yield
    finally:
        setattr(home, name, before)
