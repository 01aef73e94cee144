"""The committed fit of the time model, by `training/fit_times.py`: parameters with their spread, errors, intervals."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from proveout.chip.costs import COSTS, GUESSES
from proveout.types import DeviceSpec

REACH = 4
"""A prediction is calibrated up to this factor outside the sizes that were measured."""
KERNEL, HOST = "kernel", "host"


@dataclass(frozen=True)
class Backing:
    """What stands behind the predictions of one form on one architecture: errors on shapes and on sources left out."""

    family: str
    arch: str
    mode: str
    """`kernel` or `host`: how it was timed; of large products, whose program config."""
    rows: int
    shapes: int
    sources: int
    median_error: float
    p90_error: float
    source_median_error: float
    source_p90_error: float
    low: float
    high: float
    cover: float
    source_cover: float
    """Share of rows inside the interval that was found without their shape, without their source."""
    calibrated: bool
    least: float
    most: float
    """The measured range: tile products of a large product, ns of anything else."""

    def reaches(self, size: float) -> bool:
        """Whether a size is near the measured ones."""
        return self.least / REACH <= size <= self.most * REACH

    def covers(self, size: float) -> bool:
        return self.calibrated and self.reaches(size)

    def elsewhere(self) -> Backing:
        """As it stands behind another source than its only one."""
        factor = new_source() if self.sources == 1 else 1.0
        return replace(self, low=self.low**factor, high=self.high**factor)


@dataclass(frozen=True)
class FittedParameter:
    """One fitted parameter, as people read it."""

    family: str
    name: str
    value: float
    spread: float
    """Standard deviation of its logarithm: 0.1 is about ten per cent; 1 is only a guess."""
    unit: str
    meaning: str


@functools.cache
def fit() -> dict[str, Any]:
    text = (resources.files("proveout.chip") / "data" / "fit.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


@functools.cache
def backings() -> dict[tuple[str, str, str], Backing]:
    return {(row["family"], row["arch"], row["mode"]): Backing(**row) for row in fit()["errors"]}


def backing(family: str, chip: DeviceSpec, mode: str = KERNEL) -> Backing | None:
    return backings().get((family, chip.arch, mode))


@functools.cache
def uncalibrated() -> tuple[float, float]:
    """The interval of a prediction that no table backs."""
    forms = fit()["uncalibrated"]
    return forms["low"], forms["high"]


@functools.cache
def shared_error() -> float:
    """What part of the errors of different families goes one way, in one Program."""
    share: float = fit()["whole"]["shared"]
    return share


@functools.cache
def new_source() -> float:
    """What the logarithms of an interval grow by where the only source behind it is another one."""
    factor: float = fit()["whole"]["new_source"]
    return factor


@functools.cache
def costs(family: str, arch: str) -> dict[str, float]:
    """What the features of a form cost; of an architecture that no table covers, Wormhole's, whose engines are the
    slower ones; of a form without a table, the guesses."""
    known = fit()["forms"].get(family)
    if known is None:
        return GUESSES
    fitted = known.get(arch, known["wormhole_b0"])
    return GUESSES | {name: value for name, (value, _) in fitted.items()}


def parameters(arch: str) -> list[FittedParameter]:
    """Every fitted parameter of an architecture."""
    rows = []
    for family, known in fit()["forms"].items():
        for name, (value, spread) in known.get(arch, {}).items():
            rows.append(FittedParameter(family, name, value, spread, COSTS[name].unit, COSTS[name].meaning))
    return rows


@functools.cache
def matmul_parameters(arch: str, mode: str) -> dict[str, float]:
    """Of an architecture that no table covers: Wormhole's, whose engines are the slower ones."""
    known = fit()["matmul"]
    parameters: dict[str, float] = known.get(arch, known["wormhole_b0"])[mode]
    return parameters


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
