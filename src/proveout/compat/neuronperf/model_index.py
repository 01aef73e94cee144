"""Model indexes: JSON files that list compiled models and what each was compiled for, as NeuronPerf's do.

An index is a dictionary with `model_name` and `model_configs`, one entry a model file. Functions take a loaded index or
the path of one. Paths in an index are used as they stand, or from the index's own folder where only that finds the
model; nothing is changed in place, and files are written whole.
"""

from __future__ import annotations

import copy as copying
import json
import logging
import secrets
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from proveout.coding import read_json
from proveout.errors import EnvironmentFault, UsageError
from proveout.folders import file_name
from proveout.store import write_text

Index = dict[str, Any]
SUFFIX = ".json"
VERSION = "proveout_version"
IMPLIED = {"input_idx": 0, "batch_size": 1, "pipeline_size": 1, "status": "finished"}
"""What an entry means that does not say it: indexes may be written by hand."""
PLURAL = ("batch_size", "pipeline_size", "cast_mode", "performance_level")
log = logging.getLogger("neuronperf.model_index")


def create(
    filename: str | Path,
    input_idx: int = 0,
    batch_size: int = 1,
    pipeline_size: int = 1,
    cast_mode: str | None = None,
    compile_s: float | None = None,
    *,
    model_name: str | None = None,
    status: str = "finished",
    **more: Any,
) -> Index:
    """An index of one compiled model; `more` is kept in its entry and can be filtered by (`performance_level` …)."""
    if cast_mode is not None:
        more["cast_mode"] = cast_mode
    entry = {
        "filename": str(filename),
        "input_idx": input_idx,
        "batch_size": batch_size,
        "pipeline_size": pipeline_size,
        "compile_s": compile_s,
        "status": status,
        **more,
    }
    return {VERSION: metadata.version("proveout"), "model_name": model_name or str(filename), "model_configs": [entry]}


def save(model_index: Index, filename: str | Path | None = None, root_dir: str | Path | None = None) -> str:
    """Write an index and return its file's name; without one, it is named after the model."""
    _checked(model_index, "it")
    if filename is None:
        stem = file_name(Path(str(model_index["model_name"])).name)
        filename = f"{stem}_{secrets.token_hex(4)}"
    name = str(filename) if str(filename).lower().endswith(SUFFIX) else f"{filename}{SUFFIX}"
    path = Path(root_dir or ".") / name
    try:
        write_text(path, json.dumps(model_index, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror or error}. Choose another folder.") from error
    return str(path) if root_dir else name


def load(filename: str | Path) -> Index:
    """Read an index."""
    try:
        loaded = read_json(filename)
    except OSError as error:
        raise UsageError(f"cannot read the model index {filename}: {error.strerror or error}.") from error
    except ValueError:
        raise UsageError(f"{filename} is no model index: it is not JSON. Make one with model_index.create.") from None
    if isinstance(loaded, dict):
        loaded.setdefault("model_name", Path(filename).stem)
    index = _checked(loaded, str(filename))
    for entry in index["model_configs"]:
        beside = Path(filename).parent / entry["filename"]
        if not Path(entry["filename"]).exists() and beside.exists():
            entry["filename"] = str(beside)
    return index


def append(*model_indexes: Index | str | Path) -> Index:
    """A new index with the entries of all, in order and without repeats; it has the first one's name."""
    if not model_indexes:
        raise UsageError("append takes at least one model index.")
    indexes = [_loaded(index) for index in model_indexes]
    entries: list[Any] = []
    for entry in (entry for index in indexes for entry in index["model_configs"]):
        if entry not in entries:
            entries.append(entry)
    return indexes[0] | {"model_configs": entries}


def is_index(model: Any) -> bool:
    """Whether a model is a model index: its path, or what `load` gives."""
    if isinstance(model, Mapping):
        return "model_configs" in model
    return isinstance(model, (str, Path)) and str(model).endswith(SUFFIX)


def name_of(index: Index | str | Path) -> str:
    return str(index) if isinstance(index, (str, Path)) else repr(index["model_name"])


def filter(index: Index | str | Path, **wanted: Any) -> Index:
    """A new index with the entries whose fields have one of the wanted values; None wants nothing of a field.

    A field may be named in the plural, as in `batch_sizes=[1, 2]`.
    """
    listed = _loaded(index)
    for key, values in wanted.items():
        if values is None:
            continue
        name = key[:-1] if key.endswith("s") and key[:-1] in PLURAL else key
        choices = list(values) if isinstance(values, Sequence) and not isinstance(values, str) else [values]
        entries = [IMPLIED | entry for entry in listed["model_configs"]]
        kept = [name in entry and entry[name] in choices for entry in entries]
        listed["model_configs"] = [e for e, keep in zip(listed["model_configs"], kept) if keep]
    return listed


def copy(old_index: Index | str | Path, new_index: str | Path, new_dir: str | Path) -> str:
    """Copy every model to a folder and write an index of the copies; returns the new index's file name."""
    index = _loaded(old_index)
    folder = Path(new_dir)
    sources = [Path(entry["filename"]) for entry in index["model_configs"]]
    lost = [str(source) for source in sources if not source.exists()]
    if lost:
        raise UsageError(f"the index names {', '.join(lost)}, which {'is' if len(lost) == 1 else 'are'} not there.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry, source in zip(index["model_configs"], sources):
            entry["filename"] = str(_copied(source, folder))
    except OSError as error:
        raise EnvironmentFault(f"cannot copy models to {folder}: {error.strerror or error}.") from error
    return save(index, new_index)


def move(old_index: str | Path, new_index: str | Path, new_dir: str | Path) -> str:
    """Copy, then delete the old index and its models. Where the copy fails, nothing is deleted."""
    old = load(old_index)
    name = copy(old_index, new_index, new_dir)
    kept = {Path(entry["filename"]).resolve() for entry in load(name)["model_configs"]}
    _delete_models(old, kept)
    if Path(old_index).resolve() != Path(name).resolve():
        Path(old_index).unlink()
    return name


def delete(filename: str | Path) -> None:
    """Delete an index and every model that it names; what is gone already is fine."""
    if not Path(filename).exists():
        log.warning("There is no %s to delete.", filename)
        return
    _delete_models(load(filename), set())
    Path(filename).unlink()


def _copied(source: Path, folder: Path) -> Path:
    """Two models of one name, from different folders, get names of their own."""
    target = folder / source.name
    if target.exists() and target.resolve() == source.resolve():
        return target
    if target.exists():
        target = folder / f"{source.stem}_{secrets.token_hex(4)}{source.suffix}"
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)
    return target


def _delete_models(index: Index, kept: set[Path]) -> None:
    for path in {Path(entry["filename"]) for entry in index["model_configs"]}:
        if path.resolve() in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _loaded(index: Index | str | Path) -> Index:
    """A copy that may be changed."""
    return load(index) if isinstance(index, str | Path) else copying.deepcopy(_checked(index, "it"))


def _checked(index: Any, what: str) -> Index:
    entries = index.get("model_configs") if isinstance(index, dict) else None
    good = isinstance(entries, list) and "model_name" in index
    if not good or not all(isinstance(e, dict) and isinstance(e.get("filename"), str) for e in entries or ()):
        raise UsageError(
            f"{what} is no model index: it takes model_name and model_configs, a list of entries with a filename. "
            "Make one with model_index.create."
        )
    return index
