"""How many cycles a large matrix product takes once it is cut over the cores (`program_config.py` says how).

`cycles` is the fitted form; its parameters are in `data/fit.json`, one set for the configs that ttnn chooses itself and
one for hand-tuned ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from proveout.types import DTYPE_BYTES, TILE

NARROW = 8
"""Above this ratio of the output's sides ttnn takes one-dimensional multicast."""


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
    """A cut product: `m` × `n` output tiles a core, in `h` × `w` blocks, K in steps of `k` tiles."""

    m: int
    n: int
    k: int
    h: int
    w: int
    cores: int
    kind: str


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
