"""Models by name: a script of the corpora by its stem, or an architecture that transformers can build."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proveout.capture.scripts import corpora_folder, resolve
from proveout.errors import UsageError

_SERVED = Path(__file__).with_name("from_transformers.py")


@dataclass(frozen=True)
class Named:
    """A script to run for a name, with its arguments; `name` is what its only model is to be called."""

    name: str
    script: Path
    script_args: str

    def call(self, model: str) -> str:
        """The name of one of its models: what the user said instead of the served script's own stem."""
        return model.replace(_SERVED.stem, self.name, 1) if self.script == _SERVED else model


def named(names: Sequence[str], search_dirs: Sequence[str] = (), script_args: str = "") -> list[Named]:
    """What each name means: a path, folder, corpus, glob or list of scripts; a script's stem in the corpora, also as
    `corpus/stem` or by a hub id that ends in it; or else a name for transformers."""
    models = []
    for name in names:
        if name.endswith((".py", ".txt")) or _is_folder(name) or re.search(r"[*?\[]|::", name):
            models += [Named(path.stem, path, script_args) for path, _ in resolve([name], search_dirs)]
            continue
        scripts = _with_stem(name, search_dirs)
        if len(scripts) > 1:
            listed = ", ".join(f"{path.parent.name}/{path.stem}" for path in scripts)
            raise UsageError(f"the model {name!r} is in several corpora: {listed}. Name one of these.")
        if scripts:
            models.append(Named(scripts[0].stem, scripts[0], script_args))
        else:
            models.append(Named(name, _SERVED, f"{shlex.quote(name)} {script_args}".rstrip()))
    if not models:
        raise UsageError("no model was named. Name a script of the corpora (linear) or an architecture (bert).")
    return models


def _is_folder(name: str) -> bool:
    return Path(name).exists() or (bool(name) and (corpora_folder() / name).is_dir())


def _with_stem(name: str, search_dirs: Sequence[str]) -> list[Path]:
    folders = [str(corpora_folder())] if not search_dirs else list(search_dirs)
    scripts = [path for path, _ in resolve([], folders, all=True)]
    corpus, _, stem = name.rpartition("/")
    same = [path for path in scripts if _plain(path.stem) == _plain(stem)]
    inside = [path for path in same if _plain(path.parent.name) == _plain(corpus)]
    return inside or same


def _plain(name: str) -> str:
    """Without what only tells the spellings of one name apart: `bert-base_uncased` and `BERT_base.uncased`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
