"""Stores for tests of the app: Records of real runs, and many made from them by varying what sweeps vary."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

REAL = Path(__file__).parent / "data" / "records"
DEVICES = ("sim:n150", "sim:p150", "cpu")
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def real(name: str) -> dict[str, Any]:
    """One Record as `proveout benchmark` wrote it."""
    found: dict[str, Any] = json.loads((REAL / f"{name}.json").read_text())
    return found


def write(folder: Path, document: dict[str, Any], name: str, machine: str = "lab") -> Path:
    path = folder / machine / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    return path


def some(folder: Path) -> Path:
    """Four real Records, a second one of `attention` from a day later, and a file that is no Record."""
    for name in ("attention", "conv", "digits", "broken"):
        write(folder, real(name), name)
    write(folder, varied(real("attention"), 3, "attention"), "attention-later")
    (folder / "lab" / "torn.json").write_text('{"schema": 1, "job":')
    return folder


def many(folder: Path, count: int = 1000) -> Path:
    """Models on three devices, measured and modelled, each four times over the weeks; one in nine failed."""
    originals = [real(name) for name in ("attention", "conv", "digits", "broken")]
    for number in range(count):
        model = number // 4
        document = originals[model % len(originals)]
        write(folder, varied(document, number, f"{document['job']['workload']['name']}_{model:03}"), f"{number:020x}")
    return folder


def varied(document: dict[str, Any], number: int, name: str) -> dict[str, Any]:
    """A Record of the same shape: another name, device, date, speed and closeness."""
    made = copy.deepcopy(document)
    device = DEVICES[number // 4 % len(DEVICES)]
    made["job"]["workload"]["name"] = name
    made["job"]["device"] = device
    made["created"] = (START + timedelta(days=7 * (number % 4), minutes=number)).isoformat(timespec="seconds")
    for timing in made["timings"]:
        if timing["what"] == "compiled":
            timing["device"] = device
            timing["kind"] = "measured" if device == "cpu" else "modelled"
        timing["samples_ns"] = [round(ns * (1 + 0.01 * (number % 37))) for ns in timing["samples_ns"]]
    for comparison in made["comparisons"]:
        if comparison["pcc"] is not None:
            comparison["pcc"] -= 1e-5 * (number % 11)
    if number % 9 == 8 and made["status"] == "passed":
        made |= {"status": "failed", "failure": "numerics", "reason": "output 0: PCC 0.91 is below 0.99"}
    return made
