"""What MLAgility keeps in a cache folder beside a build's models: marks, statistics, the list of scripts and builds."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proveout.capture.scripts import corpora_folder
from proveout.compat.mlagility import labels
from proveout.compat.onnxflow.build import output_dir
from proveout.compat.onnxflow.exceptions import Error
from proveout.folders import default_folder

DEFAULT_CACHE_DIR = os.environ.get("MLAGILITY_CACHE_DIR") or str(default_folder())
MODELS_DIR = str(corpora_folder())
CACHE_MARKER, BUILD_MARKER = ".mlacache", ".mlabuild"
"""Empty files that say what a folder is."""

Builds = dict[str, dict[str, str]]
"""By script, when each of its builds was added."""


class CacheError(Error):
    """The folder is no cache, or has no such build."""


def make_cache_dir(cache_dir: str | Path) -> None:
    """A folder that is marked as a cache."""
    Path(cache_dir).mkdir(parents=True, exist_ok=True)
    Path(cache_dir, CACHE_MARKER).touch()


def make_build_dir(cache_dir: str | Path, build_name: str) -> None:
    """A folder in a cache that is marked as a build."""
    make_cache_dir(cache_dir)
    output_dir(cache_dir, build_name).mkdir(exist_ok=True)
    (output_dir(cache_dir, build_name) / BUILD_MARKER).touch()


def check_cache_dir(cache_dir: str | Path) -> None:
    if not Path(cache_dir, CACHE_MARKER).is_file():
        raise CacheError(
            f"{cache_dir} is not a cache of MLAgility: it has no {CACHE_MARKER}. Choose another --cache-dir."
        )


def is_build_dir(cache_dir: str | Path, build_name: str) -> bool:
    return Path(cache_dir, build_name, BUILD_MARKER).is_file()


def get_available_builds(cache_dir: str | Path) -> list[str]:
    check_cache_dir(cache_dir)
    return sorted(p.name for p in Path(cache_dir).iterdir() if is_build_dir(cache_dir, p.name))


def clean_script_name(script_path: str | Path) -> str:
    return Path(script_path).stem


def clean_build_name(build_name: str) -> str:
    """Without the hash at its end."""
    return build_name.rpartition("_")[0]


def get_build_name(script_name: str, script_labels: dict[str, list[str]], model_hash: str | None = None) -> str:
    """Script, author and hash."""
    author = script_labels.get("author", [])[:1]
    return "_".join([script_name, *author, *([model_hash] if model_hash else [])])


def get_builds_from_script(cache_dir: str | Path, script: str | Path) -> tuple[list[str], str]:
    """The builds of a script's models, and what the script is called."""
    name = clean_script_name(script)
    stem = get_build_name(name, labels.load_from_file(script))
    return [build for build in get_available_builds(cache_dir) if clean_build_name(build) == stem], name


def stats_file(cache_dir: str | Path, build_name: str) -> str:
    return str(output_dir(cache_dir, build_name) / "mlagility_stats.yaml")


def get_stats(cache_dir: str | Path, build_name: str) -> dict[str, Any]:
    """All that is known of a build; nothing where it has no file, or another's."""
    try:
        stats = json.loads(Path(stats_file(cache_dir, build_name)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stats if isinstance(stats, dict) else {}


def save_stats(cache_dir: str | Path, build_name: str, stats: dict[str, Any]) -> None:
    """Add to them, and replace what has the same key; JSON is YAML too."""
    path = Path(stats_file(cache_dir, build_name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(get_stats(cache_dir, build_name) | stats, indent=1) + "\n", encoding="utf-8")


def save_stat(cache_dir: str | Path, build_name: str, key: str, value: Any) -> None:
    save_stats(cache_dir, build_name, {key: value})


def add_sub_stat(cache_dir: str | Path, build_name: str, parent_key: str, key: str, value: Any) -> None:
    known = get_stats(cache_dir, build_name).get(parent_key, {})
    save_stats(cache_dir, build_name, {parent_key: known | {key: value}})


class CacheDatabase:
    """Which builds belong to which script, in a file of the cache (JSON, which is YAML too). Every call holds the
    folder's lock, so processes that write at the same time lose nothing."""

    def __init__(self, cache_dir: str | Path) -> None:
        self.cache_dir = cache_dir

    def exists(self) -> bool:
        """Whether it lists any script."""
        with self._locked():
            return bool(self._read())

    def script_in_database(self, script_name: str) -> bool:
        with self._locked():
            return script_name in self._read()

    def add_script(self, script_name: str) -> None:
        with self._locked():
            scripts = self._read()
            scripts.setdefault(script_name, {})
            self._write(scripts)

    def add_build(self, script_name: str, build_name: str) -> None:
        with self._locked():
            scripts = self._read()
            scripts.setdefault(script_name, {})[build_name] = datetime.datetime.now().isoformat()
            self._write(scripts)

    def remove_script(self, script_name: str) -> Builds:
        """What is left."""
        with self._locked():
            scripts = self._read()
            if script_name not in scripts:
                raise CacheError(f"{script_name} is not in the list of {self.cache_dir}. It has: {', '.join(scripts)}")
            del scripts[script_name]
            self._write(scripts)
            return scripts

    def remove_build(self, build_name: str) -> None:
        """A script goes with its last build."""
        with self._locked():
            scripts = self._read()
            left = {s: {b: when for b, when in builds.items() if b != build_name} for s, builds in scripts.items()}
            self._write({script: builds for script, builds in left.items() if builds or not scripts[script]})

    @property
    def _file(self) -> Path:
        return Path(self.cache_dir, ".cache_database.yaml")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with Path(self.cache_dir, ".cache_database.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> Builds:
        if not self._file.exists():
            return {}
        try:
            scripts = json.loads(self._file.read_text(encoding="utf-8"))
        except ValueError:
            scripts = None
        if not isinstance(scripts, dict) or not all(isinstance(builds, dict) for builds in scripts.values()):
            raise CacheError(f"{self._file} is not a list of scripts and their builds. Delete it to begin a new one.")
        return scripts

    def _write(self, scripts: Builds) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(scripts, indent=1), encoding="utf-8")
        new.replace(self._file)


__all__ = [
    "BUILD_MARKER", "CACHE_MARKER", "CacheDatabase", "CacheError", "DEFAULT_CACHE_DIR", "MODELS_DIR", "add_sub_stat",
    "check_cache_dir", "clean_build_name", "clean_script_name", "get_available_builds", "get_build_name",
    "get_builds_from_script", "get_stats", "is_build_dir", "make_build_dir", "make_cache_dir", "save_stat",
    "save_stats", "stats_file",
]  # fmt: skip
