"""The committed fit: parameters, errors and intervals of the time model, as `chip/fit.py` wrote them."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from proveout.types import DeviceSpec

REACH = 4
"""A prediction is calibrated up to this factor outside the sizes that were measured."""


@dataclass(frozen=True)
class Backing:
    """What stands behind the predictions of one family on one architecture."""

    family: str
    arch: str
    mode: str
    rows: int
    shapes: int
    median_error: float
    p90_error: float
    low: float
    high: float
    calibrated: bool
    least: float
    most: float
    """The measured range: tile products of a matmul, ns of anything else."""

    def covers(self, size: float) -> bool:
        return self.calibrated and self.least / REACH <= size <= self.most * REACH


@functools.cache
def fit() -> dict[str, Any]:
    text = (resources.files("proveout.chip") / "data" / "fit.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


@functools.cache
def backings() -> dict[tuple[str, str, str], Backing]:
    low, high = uncalibrated()
    found = {}
    for row in fit()["errors"]:
        given = row if row["calibrated"] else row | {"low": low, "high": high}
        found[row["family"], row["arch"], row["mode"]] = Backing(**given)
    return found


def backing(family: str, chip: DeviceSpec, mode: str = "in models") -> Backing | None:
    return backings().get((family, chip.arch, mode))


@functools.cache
def uncalibrated() -> tuple[float, float]:
    """The interval of a prediction that no table backs: how far the bare guesses are from the tables we have."""
    found = fit()["uncalibrated"]
    return found["low"], found["high"]


@functools.cache
def costs(family: str) -> dict[str, float]:
    found: dict[str, float] = fit()["families"][family]
    return found


@functools.cache
def matmul_parameters(arch: str, mode: str) -> dict[str, float]:
    """Of an architecture that no table covers: Wormhole's, whose engines are the slower ones."""
    known = fit()["matmul"]
    found: dict[str, float] = known.get(arch, known["wormhole_b0"])[mode]
    return found


def page_ns(arch: str, to_device: bool) -> float:
    """What each page of a transfer costs the host."""
    known = fit()["transfer"]
    value: float = known.get(arch, known["wormhole_b0"])["write" if to_device else "read"]["page_ns"]
    return value


def transfer_interval(arch: str, to_device: bool) -> tuple[float, float] | None:
    """None for an architecture without published transfer rates."""
    known = fit()["transfer"].get(arch)
    if known is None:
        return None
    row = known["write" if to_device else "read"]
    return row["low"], row["high"]
