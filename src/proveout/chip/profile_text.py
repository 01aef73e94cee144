"""Reads what profilers write beside a device operation: its program config, its attributes, its fused activations."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

ConfigKind = Literal["1d", "2d", "dram", "batched", "minimal", "height"]
CONFIGS: dict[str, ConfigKind] = {
    "MatmulMultiCoreReuseMultiCast1DProgramConfig": "1d",
    "MatmulMultiCoreReuseMultiCastProgramConfig": "2d",
    "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig": "dram",
    "MatmulMultiCoreReuseProgramConfig": "batched",
    "MinimalMatmulConfig": "minimal",
}


@dataclass(frozen=True)
class ProductConfig:
    """How a matrix product is cut, in tiles: what each core makes, in which blocks, and who shares what."""

    kind: ConfigKind
    per_core_m: int = 0
    per_core_n: int = 0
    block_w: int = 0
    """K tiles of one step; 0 where not told."""
    out_h: int = 0
    out_w: int = 0
    sub_h: int = 0
    sub_w: int = 0
    grid: tuple[int, int] = (0, 0)
    mcast_in0: bool = True
    """One-dimensional: every core takes columns of the right factor and all of the left one."""
    fuse_batch: bool = True
    """Whether leading dimensions of the left factor count as its rows; without, the right one is read for each."""

    @property
    def gridded(self) -> bool:
        """Whether its grid is told."""
        return self.grid[0] * self.grid[1] > 0


@functools.lru_cache(maxsize=8192)
def product_config(text: str) -> ProductConfig | None:
    """`Name(key=value;…)` as a ProductConfig; None where it is no matrix product's."""
    name, _, rest = text.partition("(")
    kind = CONFIGS.get(name.strip())
    if kind is None:
        return None
    fields = dict(re.findall(r"(\w+)=([^;()]*)", rest))

    def whole(key: str) -> int:
        return int(fields[key]) if fields.get(key, "").isdigit() else 0

    columns, _, rows = next(
        (fields[k] for k in ("grid", "compute_with_storage_grid_size") if k in fields), ""
    ).partition("-")
    minimal = kind == "minimal"
    return ProductConfig(
        kind,
        whole("M_block_size" if minimal else "per_core_M"),
        whole("N_block_size" if minimal else "per_core_N"),
        whole("K_block_size" if minimal else "in0_block_w"),
        whole("out_block_h"),
        whole("out_block_w"),
        whole("subblock_h" if minimal else "out_subblock_h"),
        whole("subblock_w" if minimal else "out_subblock_w"),
        (int(columns), int(rows)) if columns.isdigit() and rows.isdigit() else (0, 0),
        fields.get("mcast_in0", "1") != "0",
        fields.get("fuse_batch", "1") != "0",
    )


@functools.lru_cache(maxsize=8192)
def settings(text: str) -> Mapping[str, str]:
    """`key=value` pairs of attributes or of a program config; values in brackets are kept whole."""
    return MappingProxyType(dict(re.findall(r"(\w+)=((?:\w+)?(?:\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\])|[^ ;()]+)", text)))


@functools.lru_cache(maxsize=8192)
def numbers(text: str) -> tuple[int, ...]:
    """The whole numbers in `Shape([1; 32; 64])` or `{0; 2; 1}`."""
    return tuple(int(n) for n in re.findall(r"-?\d+", text))


@functools.lru_cache(maxsize=8192)
def fused(text: str) -> tuple[tuple[str, str], ...]:
    """`lhs:SILU` as (place, activation) pairs."""
    activations = re.findall(r"(\w+):(\w+)", text)
    return tuple((place, activation.upper()) for place, activation in activations)


@functools.lru_cache(maxsize=8192)
def shape(text: str) -> tuple[int, ...] | None:
    """`1x32x64`; None where it says nothing."""
    parts = text.strip().split("x")
    return tuple(int(n) for n in parts) if all(p.isdigit() for p in parts) else None
