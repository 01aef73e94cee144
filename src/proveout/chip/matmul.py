"""How ttnn cuts a matrix product over the cores, and how many cycles the cut product takes.

`blocks_for` chooses the program config: one- or two-dimensional multicast, tiles per core, output blocks and the width
of a K block, so that the circular buffers fit into L1. `cycles` is the fitted form; its parameters are in
`data/fit.json`, one set for the configs that ttnn chooses itself and one for hand-tuned ones.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from proveout.types import DTYPE_BYTES, TILE, DeviceSpec

NARROW = 8
"""Above this ratio of the output's sides ttnn takes one-dimensional multicast."""
WIDEST_TUNED_BLOCK = 16
"""K tiles in a block of the published hand-tuned configs, at most."""


def tile_bytes(dtype: str) -> float:
    return TILE * TILE * DTYPE_BYTES[dtype]


@dataclass(frozen=True)
class Product:
    """One matrix product in tiles."""

    m: int
    k: int
    n: int
    batch: int = 1
    in0: str = "bfloat16"
    in1: str = "bfloat16"
    out: str = "bfloat16"
    phases: int = 2
    in0_l1: bool = False
    in1_l1: bool = False
    out_l1: bool = False
    sharded: bool = False
    """Whether the left operand already lies in the L1 of the cores that use it."""


@dataclass(frozen=True)
class Blocks:
    """A program config: `m` × `n` output tiles a core, cut into `h` × `w` blocks, K in steps of `k` tiles."""

    m: int
    n: int
    k: int
    h: int
    w: int
    cores: int
    kind: str


@functools.lru_cache(maxsize=4096)
def blocks_for(product: Product, chip: DeviceSpec, tuned: bool = False, cores: int | None = None) -> Blocks:
    """The config that ttnn chooses itself, or one as the published hand-tuned ones. A known core count decides
    between one- and two-dimensional multicast where the rule is not sure."""
    candidates = (_grid(product, chip), _tall(product, chip), _wide(product, chip))
    chosen = candidates[_preferred(product)]
    if cores is not None and chosen.cores != cores:
        chosen = next((c for c in candidates if c.cores == cores), chosen)
    return _tuned(product, chip, chosen) if tuned else _cut(product, chip, chosen)


def _preferred(product: Product) -> int:
    if product.m > NARROW * product.n or product.n == 1 < product.m:
        return 1
    if product.n > NARROW * product.m or product.m == 1:
        return 2
    return 0


def _grid(product: Product, chip: DeviceSpec) -> Blocks:
    columns, rows = chip.grid
    m, n = -(-product.m // rows), -(-product.n // columns)
    k = product.k // columns if product.k % columns == 0 else 1
    return Blocks(m, n, k, 1, 1, -(-product.m // m) * -(-product.n // n), "2d")


def _tall(product: Product, chip: DeviceSpec) -> Blocks:
    m = -(-product.m // chip.cores)
    return Blocks(m, product.n, 2 - product.k % 2, 1, 1, -(-product.m // m), "1d tall")


def _wide(product: Product, chip: DeviceSpec) -> Blocks:
    n = -(-product.n // chip.cores)
    return Blocks(product.m, n, 2 - product.k % 2, 1, 1, -(-product.n // n), "1d wide")


def _cut(product: Product, chip: DeviceSpec, blocks: Blocks) -> Blocks:
    """Halve the output block, sides in turn, until its buffers fit."""
    while not _fits(product, chip, blocks) and (blocks.h < blocks.m or blocks.w < blocks.n):
        if (blocks.w <= blocks.h and blocks.w < blocks.n) or blocks.h >= blocks.m:
            blocks = replace(blocks, w=min(2 * blocks.w, blocks.n))
        else:
            blocks = replace(blocks, h=min(2 * blocks.h, blocks.m))
    return blocks


def _tuned(product: Product, chip: DeviceSpec, blocks: Blocks) -> Blocks:
    """As the published hand-tuned configs: first a narrower K block, then square cuts."""
    if product.sharded or _fits(product, chip, blocks):
        return blocks
    narrower = replace(blocks, k=blocks.k // 2)
    if blocks.k % 2 == 0 and _fits(product, chip, narrower):
        return narrower
    blocks = replace(blocks, k=min(blocks.k, WIDEST_TUNED_BLOCK))
    while not _fits(product, chip, blocks) and (blocks.h < blocks.m or blocks.w < blocks.n):
        blocks = replace(blocks, h=min(2 * blocks.h, blocks.m), w=min(2 * blocks.w, blocks.n))
    return blocks


def _fits(product: Product, chip: DeviceSpec, blocks: Blocks) -> bool:
    """Whether the circular buffers fit: both operands double-buffered, the output, and partial sums in bfloat16
    where the output's dtype is another."""
    m, n = -(-blocks.m // blocks.h), -(-blocks.n // blocks.w)
    in0, in1, out, partial = (tile_bytes(d) for d in (product.in0, product.in1, product.out, "bfloat16"))
    held = 2 * m * blocks.k * in0 + 2 * n * blocks.k * in1 + m * n * out
    return held + (m * n * partial if product.out != "bfloat16" else 0) <= chip.l1_allocatable


def features(product: Product, blocks: Blocks) -> dict[str, float]:
    """What `cycles` looks at; plain numbers, so that a fit can stack them into arrays."""
    b, p = product.batch, product
    in0, in1, out = (tile_bytes(d) for d in (p.in0, p.in1, p.out))
    return {
        "math": float(b * blocks.m * blocks.n * p.k),
        "phases": float(p.phases),
        "in0": 0.0 if p.sharded and blocks.kind == "1d tall" else float(b * blocks.w * blocks.m * p.k),
        "in0_l1": float(p.in0_l1),
        "in0_bytes": in0,
        "in1": float(b * blocks.h * blocks.n * p.k),
        "in1_bytes": in1,
        "dram": b * (blocks.h * p.k * p.n * in1 * (not p.in1_l1) + blocks.w * p.m * p.k * in0 * (not p.in0_l1)),
        "out": 0.0 if p.out_l1 else b * p.m * p.n * out / (blocks.h * blocks.w),
    }


def cycles(f: Mapping[str, Any], p: Mapping[str, Any]) -> Any:
    """Cycles of one product from its features: floats, or arrays of them. The slowest engine decides, softly."""
    compute = f["math"] * (16 * f["phases"] + p["overhead"] + p["overhead_hifi"] * (f["phases"] > 1))
    unpack = f["math"] * (f["in0_bytes"] + f["in1_bytes"]) / 2 / p["unpack"]
    in1 = f["in1"] * (p["read"] + f["in1_bytes"] / p["noc"])
    in0 = f["in0"] * (p["read"] + f["in0_bytes"] / p["noc"]) * (1 - (1 - p["from_l1"]) * f["in0_l1"])
    dram = f["dram"] / p["dram_read"]
    engines = (compute**4 + unpack**4 + in1**4 + in0**4 + dram**4) ** 0.25
    return p["start"] + engines + f["out"] / p["dram_write"]


def kernel_ns(f: Mapping[str, Any], p: Mapping[str, Any], ghz: Any) -> Any:
    """The kernel's own time: its cycles at a clock that droops under long load."""
    spent = cycles(f, p)
    return spent / (ghz * (1 - p["throttle"] * (1 - np.exp(-spent / p["droop_cycles"]))))


def call_ns(f: Mapping[str, Any], p: Mapping[str, Any]) -> Any:
    """One call among many, as the published tables time it: with the gap between calls, and without a trace at
    the host's pace where the device is quicker."""
    ns = kernel_ns(f, p, f["ghz"]) + p["gap"]
    return (ns**4 + (1 - f["traced"]) * p["host"] ** 4) ** 0.25


MODE_PARAMETERS = ("read", "noc", "host")
"""What differs between configs that ttnn chooses itself and hand-tuned ones: how operands come to the cores. The
engines are the same."""

START: dict[str, dict[str, float]] = {
    "wormhole_b0": {
        "overhead": 2.2,
        "overhead_hifi": 1.3,
        "unpack": 45.3,
        "read": 54.2,
        "noc": 67.9,
        "from_l1": 0.8,
        "dram_read": 107.0,
        "dram_write": 84.0,
        "start": 5011.0,
        "gap": 2500.0,
        "throttle": 0.103,
        "droop_cycles": 1e5,
        "host": 1e5,
    },
    "blackhole": {
        "overhead": 1.8,
        "overhead_hifi": 1.5,
        "unpack": 200.0,
        "read": 51.6,
        "noc": 200.0,
        "from_l1": 0.8,
        "dram_read": 322.0,
        "dram_write": 328.0,
        "start": 9487.0,
        "gap": 1800.0,
        "throttle": 0.227,
        "droop_cycles": 5e7,
        "host": 5e4,
    },
}
"""Where the fit starts: cycles, bytes per cycle, ns (`gap`, `host`)."""
