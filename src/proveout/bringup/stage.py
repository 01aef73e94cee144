"""What a stage is asked, what it leaves in the folder, and how its files get there: whole, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from proveout.bringup.data import StageData
from proveout.bringup.stages import NUMBERS, Stage
from proveout.coding import digest, from_json, read_json, to_json
from proveout.folders import write_whole
from proveout.types import OF_A_CHIP, Settings, Workload, versions

SCHEMA = 1
Data = TypeVar("Data", bound=StageData)
Status = Literal["passed", "attention", "failed", "skipped"]
MARKS: dict[Status, str] = {"passed": "✓", "attention": "!", "failed": "✘", "skipped": "–"}
"""`attention`: the stage did its work, and what it found needs a person."""
RUNNING = ".running"
"""With a stage's name behind it, says that a worker is in it: what to blame where the worker dies."""
EDITED = ".edited"
"""Where a file that a person changed goes before a stage writes it anew."""


@dataclass(frozen=True)
class BringupJob:
    """What a bring-up is about; a change of any of it makes the stages run again."""

    workload: Workload
    device: str = "sim:n150"
    settings: Settings = OF_A_CHIP
    float64: bool = False
    """Whether outputs are also held against a float64 reference."""
    tests: bool = True
    """Whether the generated tests are run as well as written."""

    @property
    def key(self) -> str:
        """The same wherever the script lies; another where its text differs."""
        text = hashlib.sha256(Path(self.workload.script).read_bytes()).hexdigest()
        what = [text, self.workload.selector, self.workload.script_args, sorted(versions().items())]
        return digest([what, self.device, self.settings, self.float64, self.tests])


@dataclass(frozen=True)
class StageResult:
    """What a stage has to say; its files are written by then."""

    headline: str
    findings: tuple[str, ...] = ()
    next_step: str = ""
    """What a person would do now; empty where there is nothing to do."""
    attention: bool = False
    skipped: bool = False
    """Whether there is nothing to do for this model; the headline says why."""
    data: StageData | None = None
    """Figures that later stages and the report read."""


@dataclass(frozen=True)
class StageRecord:
    """One stage as `stages/NN-name.json` has it."""

    number: int
    name: str
    title: str
    status: Status
    headline: str
    findings: tuple[str, ...] = ()
    next_step: str = ""
    files: tuple[tuple[str, str], ...] = ()
    """(path in the folder, digest as written)."""
    key: str = ""
    applies: bool = True
    """Whether the stage has something to do for this model."""
    schema: int = SCHEMA

    @property
    def is_done(self) -> bool:
        return self.status in ("passed", "attention") or not self.applies


class Folder:
    """The folder of one bring-up."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file_of(self, name: str) -> Path:
        return self.path / "stages" / f"{NUMBERS[name]:02d}-{name}.json"

    def outcome(self, name: str) -> StageRecord | None:
        """What a stage left, or None where it left nothing that can be read."""
        try:
            document = read_json(self.file_of(name))
            document.pop("data", None)
            return from_json(StageRecord, document)
        except (OSError, ValueError, AttributeError):
            return None

    def outcomes(self) -> list[StageRecord]:
        """Of every stage that left one, in order."""
        return [kept for name in NUMBERS if (kept := self.outcome(name)) is not None]

    def running(self) -> list[str]:
        """The stages that a worker is in."""
        return [name for name in NUMBERS if self.mark_of(name).exists()]

    def mark_of(self, name: str) -> Path:
        """The file that is there while a worker is in a stage."""
        return self.path / f"{RUNNING}-{name}"

    def data(self, kind: type[Data]) -> Data | None:
        """The figures of a stage, or None where it left none that can be read."""
        try:
            return from_json(kind, read_json(self.file_of(kind.stage))["data"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def has_all(self, outcome: StageRecord) -> bool:
        return all((self.path / name).is_file() for name, _ in outcome.files)

    def write(self, outcome: StageRecord, data: StageData | None = None) -> None:
        document = {**to_json(outcome), "data": {} if data is None else to_json(data)}
        write_whole(self.file_of(outcome.name), json.dumps(document, indent=1, allow_nan=False) + "\n")


class Files:
    """Where a stage writes: a folder beside the real one, moved over file by file when the stage is done."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder = folder
        self.before = folder.outcome(name)
        self._staging = folder.path / f".{NUMBERS[name]:02d}-{name}.part"
        shutil.rmtree(self._staging, ignore_errors=True)

    def path(self, name: str) -> Path:
        """A place to write the file of this name to."""
        path = self._staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def text(self, name: str, text: str) -> None:
        self.path(name).write_text(text if text.endswith("\n") else f"{text}\n")

    def json(self, name: str, document: Any) -> None:
        self.text(name, json.dumps(to_json(document), indent=1, allow_nan=False))

    def commit(self) -> tuple[tuple[str, str], ...]:
        """Move everything into the folder; what a person edited there is kept beside it."""
        written = dict(self.before.files) if self.before else {}
        paths = sorted(p for p in self._staging.rglob("*") if p.is_file()) if self._staging.exists() else []
        names = []
        for path in paths:
            name = path.relative_to(self._staging).as_posix()
            target, seal = self.folder.path / name, digest_of(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in written and target.is_file() and digest_of(target) not in (written[name], seal):
                os.replace(target, target.with_name(target.name + EDITED))
            os.replace(path, target)
            names.append((name, seal))
        for name in written.keys() - dict(names).keys():
            (self.folder.path / name).unlink(missing_ok=True)
        shutil.rmtree(self._staging, ignore_errors=True)
        return tuple(names)

    def drop(self) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)


def key_of(stage: Stage, job: BringupJob, before: Mapping[str, StageRecord], code: str) -> str:
    """What a stage's files depend on: what was asked, its own code, and what it reads."""
    if stage.always:
        return digest([code, job.key, [replace(o, files=()) for o in before.values()]])
    return digest([code, job.key, [before[name].key for name in stage.needs if name in before]])


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
