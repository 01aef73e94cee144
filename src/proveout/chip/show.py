"""What there is to say about a chip: its figures, its rooflines, what backs its times."""

from __future__ import annotations

import math
from typing import Any

from proveout.chip.calibration import Backing, backings, parameters
from proveout.chip.device_op import MATRIX
from proveout.chip.fidelity import PHASES
from proveout.types import DeviceSpec


def facts(chip: DeviceSpec) -> list[tuple[str, str]]:
    """A chip's published figures, as people read them."""
    columns, lines = chip.grid
    return [
        ("Architecture", chip.arch + (f", {chip.chips} chips; figures are one chip's" if chip.chips > 1 else "")),
        ("Cores", f"{chip.cores} ({columns} × {lines}) at {chip.clock_ghz:g} GHz"),
        ("L1 per core", f"{chip.l1_per_core:,} B, {chip.l1_allocatable:,} B of it allocatable"),
        ("DRAM", f"{chip.dram_banks} banks of {chip.dram_bank_bytes:,} B, {chip.dram_gb_s:g} GB/s"),
        ("DRAM rate in ttnn's ideal", f"{chip.pm_dram_gib_s:g} GiB/s"),
        ("PCIe", f"write {chip.pcie_write_gb_s:g} GB/s, read {chip.pcie_read_gb_s:g} GB/s"),
        ("Alignment", f"DRAM {chip.dram_alignment} B, L1 {chip.l1_alignment} B"),
    ]


def rooflines(chip: DeviceSpec) -> list[dict[str, Any]]:
    """Peak rate of the matrix engine per fidelity, and the intensity below which DRAM is the limit."""
    lines = []
    for fidelity, phases in PHASES.items():
        flops = chip.cores * MATRIX * chip.clock_ghz * 1e9 / phases
        ridge = flops / (chip.dram_gb_s * 1e9)
        lines.append({"fidelity": fidelity, "tflops": round(flops / 1e12, 1), "ridge": round(ridge, 1)})
    return lines


def backing_of(chip: DeviceSpec) -> list[Backing]:
    return [b for b in backings().values() if b.arch == chip.arch]


def fitted(chip: DeviceSpec) -> list[tuple[str, str, str, str, str, str]]:
    """Every fitted parameter of an architecture: family, name, value, its factor of uncertainty, unit, meaning."""
    return [
        (p.family, p.name, f"{p.value:.3g}", f"{math.exp(p.spread):.2f}", p.unit, p.meaning)
        for p in parameters(chip.arch)
    ]
