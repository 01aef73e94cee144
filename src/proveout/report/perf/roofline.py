"""The roofline of a perf sheet: how much arithmetic each operation does per byte, how fast, and the chip's roofs.

Rates are those of predicted kernel times: modelled. A roof is what ttnn's performance model assumes of the chip: the
matrix engine's rate at a fidelity, and the DRAM's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proveout.chip.device_op import MATRIX
from proveout.chip.fidelity import PHASES
from proveout.report.perf.sheet import Sheet
from proveout.types import DeviceSpec


@dataclass(frozen=True)
class Point:
    """One device operation, or several alike: their time is the sum."""

    name: str
    module: str
    fidelity: str
    bound: str
    intensity: float
    """Operations for each byte of its tensors."""
    tflop_s: float
    ns: int


@dataclass(frozen=True)
class Roof:
    """What no operation at this fidelity can exceed."""

    name: str
    tflop_s: float
    dram_tb_s: float


def points(sheet: Sheet) -> list[Point]:
    """The operations that do arithmetic, the costliest first."""
    listed = []
    for row in sheet.device_rows:
        moved = sum(spec.nbytes for spec in (*row.inputs, *row.outputs))
        if row.op is None or not row.op.work.ops or not row.time.ns or not moved:
            continue
        listed.append(
            Point(
                row.code,
                row.step.origin.module,
                row.fidelity,
                row.bound,
                row.op.work.ops / moved,
                row.op.work.ops / row.time.ns / 1e3,
                row.time.ns,
            )
        )
    return sorted(listed, key=lambda point: -point.ns)


def roofs(chip: DeviceSpec, fidelities: Iterable[str]) -> list[Roof]:
    """A roof for each fidelity, the highest first."""
    dram = chip.pm_dram_gib_s * 2**30 / 1e12
    peaks = {name: MATRIX * chip.cores * chip.clock_ghz / PHASES[name] / 1e3 for name in fidelities}
    return [Roof(f"{name} peak", peak, dram) for name, peak in sorted(peaks.items(), key=lambda item: -item[1])]
