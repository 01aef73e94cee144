"""The chips we know, as data. Sources: Tenstorrent's public documents."""

from __future__ import annotations

from dataclasses import replace

from proveout.types import DeviceSpec

GIB = 1 << 30

_WORMHOLE = dict(
    arch="wormhole_b0",
    clock_ghz=1.0,
    l1_per_core=1_499_136,
    l1_allocatable=1_393_472,
    dram_banks=12,
    dram_bank_bytes=GIB,
    dram_gb_s=288.0,
    pm_dram_gib_s=258.0,
    dram_alignment=32,
    l1_alignment=16,
    pcie_write_gb_s=14.0,
    pcie_read_gb_s=12.6,
)
_BLACKHOLE = dict(
    arch="blackhole",
    clock_ghz=1.35,
    l1_per_core=1_572_864,
    l1_allocatable=1_461_248,
    pm_dram_gib_s=512.0,
    dram_alignment=64,
    l1_alignment=16,
    pcie_write_gb_s=21.5,
    pcie_read_gb_s=14.5,
)

CHIPS: dict[str, DeviceSpec] = {
    "n150": DeviceSpec(name="n150", grid=(8, 8), **_WORMHOLE),  # type: ignore[arg-type]
    "n300": DeviceSpec(name="n300", grid=(8, 7), chips=2, **_WORMHOLE),  # type: ignore[arg-type]
    "p100": DeviceSpec(
        name="p100",
        grid=(11, 10),
        dram_banks=7,
        dram_bank_bytes=4_278_190_080,
        dram_gb_s=448.0,
        **_BLACKHOLE,  # type: ignore[arg-type]
    ),
    "p150": DeviceSpec(
        name="p150",
        grid=(13, 10),
        dram_banks=8,
        dram_bank_bytes=4_278_190_080,
        dram_gb_s=512.0,
        **_BLACKHOLE,  # type: ignore[arg-type]
    ),
}

MOCKED = {"p150": replace(CHIPS["p150"], grid=(11, 10))}
"""ttnn's mock p150 has a smaller grid than the card."""
