"""Programs that ran, kept in a folder with what is needed to plan them again: for those who look at them afterwards.

A process that finds a folder in the variable `PROVEOUT_RECORD` records every Program it runs; others record nothing.
One folder a Program: itself, `recorded.json`, its alternatives under other settings, and `calls`, a line for each run.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proveout.coding import from_json, to_json
from proveout.errors import UsageError
from proveout.program import Program
from proveout.types import DeviceSpec, Fallback, Settings

VARIABLE = "PROVEOUT_RECORD"
CHANGES: dict[str, dict[str, Any]] = {
    "capture a trace": {"trace": True},
    "a second queue for the transfers": {"queues": 2},
    "math fidelity LoFi": {"math_fidelity": "LoFi"},
    "weights in bfloat8_b": {"weights": "bfloat8_b"},
    "everything in bfloat16": {"precision": "bfloat16"},
    "results in L1": {"memory": "auto"},
    "program configs for matrix products": {"products": "configured"},
    "results in L1, with program configs for matrix products": {"memory": "auto", "products": "configured"},
    "results in shards over all cores": {"sharding": "auto"},
}
"""Settings that may make a call quicker, alone or after others: what a Program is compiled under once more. In L1 a
bias without a config costs an operation, so that the two may pay only together."""


@dataclass(frozen=True)
class Recorded:
    """One Program that ran on a modelled chip."""

    device: str
    chip: DeviceSpec
    settings: Settings
    program: Program
    alternatives: tuple[tuple[Settings, Program], ...] = ()
    """The same graph compiled under other settings."""
    fallbacks: tuple[Fallback, ...] = ()
    calls: int = 1

    def with_change(self, change: str) -> Recorded | None:
        """With one of CHANGES; None where it changes nothing, or where no alternative knows it."""
        chosen = changed(self.settings, change)
        program = self.under(chosen) if chosen is not None else None
        return None if chosen is None or program is None else replace(self, settings=chosen, program=program)

    def under(self, settings: Settings) -> Program | None:
        """The graph compiled under settings that differ at most in what a Program does not depend on."""
        known = ((self.settings, self.program), *self.alternatives)
        return next((program for alternative, program in known if shape(alternative) == shape(settings)), None)

    def as_under(self, settings: Settings) -> Recorded:
        """The same run as it would have been under other settings, where an alternative knows it."""
        program = self.under(settings)
        known = (*self.alternatives, (self.settings, self.program))
        return self if program is None else replace(self, settings=settings, program=program, alternatives=known)


def changed(settings: Settings, change: str) -> Settings | None:
    """Settings with one of CHANGES; None where it is there already, or where formats by module speak against it."""
    chosen = replace(settings, **CHANGES[change])
    return None if chosen == settings or ("weights" in CHANGES[change] and settings.overrides) else chosen


def shape(settings: Settings) -> tuple[object, ...]:
    """The settings that decide which calls a Program makes; queues change how they run. Fidelity decides, too: where
    results lie goes by the time that products take."""
    names = "precision weights overrides per_op memory sharding products trace parallel math_fidelity"
    return tuple(getattr(settings, name) for name in names.split())


def wanted() -> Path | None:
    """The folder that this process is to record into."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def save(recorded: Recorded, folder: Path) -> None:
    """Write one Program; its folder appears under its name when it is whole."""
    partial = folder.with_name(f".{folder.name}.part")
    recorded.program.save(partial)
    programs = {program.fingerprint: program for _, program in recorded.alternatives}
    numbers = {fingerprint: number for number, fingerprint in enumerate(programs)}
    for fingerprint, program in programs.items():
        program.save(partial / f"alternative{numbers[fingerprint]}")
    document = {
        "device": recorded.device,
        "chip": recorded.chip,
        "settings": recorded.settings,
        "alternatives": [settings for settings, _ in recorded.alternatives],
        "programs": [numbers[program.fingerprint] for _, program in recorded.alternatives],
        "fallbacks": recorded.fallbacks,
    }
    (partial / "recorded.json").write_text(json.dumps(to_json(document), allow_nan=False))
    partial.rename(folder)


def clear(folder: Path) -> None:
    """Forget what was recorded below a folder before."""
    for path in list(folder.rglob("recorded.json")):
        shutil.rmtree(path.parent)


def note_call(folder: Path) -> None:
    """One more run of a recorded Program."""
    with (folder / "calls").open("a") as calls:
        calls.write("1\n")


def load(folder: Path) -> list[Recorded]:
    """Every Program recorded below a folder, in the order of their first runs."""
    paths = sorted(folder.rglob("recorded.json"), key=lambda p: (p.stat().st_mtime_ns, str(p)))
    return [_read(path.parent) for path in paths if not path.parent.name.startswith(".")]


def _read(folder: Path) -> Recorded:
    from proveout.kernels.accept import load_program  # brings torch with it, which the parent of a sweep does not need

    try:
        document: dict[str, Any] = json.loads((folder / "recorded.json").read_text())
        settings = [from_json(Settings, alternative) for alternative in document["alternatives"]]
        numbers = document.get("programs", range(len(settings)))  # older folders hold a Program for each
        programs = {number: load_program(folder / f"alternative{number}") for number in set(numbers)}
        calls = folder / "calls"
        return Recorded(
            device=document["device"],
            chip=from_json(DeviceSpec, document["chip"]),
            settings=from_json(Settings, document["settings"]),
            program=load_program(folder),
            alternatives=tuple((s, programs[number]) for s, number in zip(settings, numbers, strict=True)),
            fallbacks=tuple(from_json(Fallback, line) for line in document["fallbacks"]),
            calls=len(calls.read_text().split()) if calls.exists() else 1,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} does not hold a recorded Program: {error}. Record it again.") from error
