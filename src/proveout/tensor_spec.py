"""What is known of a tensor without its numbers, and of the chip that holds it: shapes, dtypes, layouts, places."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Layout = Literal["row_major", "tile"]
Buffer = Literal["host", "dram", "l1"]
Sharding = Literal["interleaved", "height", "width", "block"]

TILE = 32

DTYPE_BYTES: dict[str, float] = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "bfloat8_b": 1088 / 1024, "bfloat4_b": 576 / 1024,
}  # fmt: skip
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def short_dtype(dtype: str) -> str:
    """`float32` as `f32`, `bfloat8_b` as `bf8_b`: for printing only."""
    head = dtype.rstrip("0123456789_b") if dtype != "bool" else dtype
    return _SHORT[head] + dtype[len(head) :] if head in _SHORT else dtype


@dataclass(frozen=True)
class ShardSpec:
    """How one tensor is cut over cores: the shard's shape and the core grid (columns, rows)."""

    shape: tuple[int, int]
    grid: tuple[int, int]


@dataclass(frozen=True)
class Memory:
    """Where a tensor lies: on the host, in DRAM or in L1, interleaved over the banks or sharded."""

    buffer: Buffer = "host"
    sharding: Sharding = "interleaved"
    shard: ShardSpec | None = None

    @property
    def is_sharded(self) -> bool:
        return self.sharding != "interleaved"

    def __str__(self) -> str:
        return f"{self.buffer}/{self.sharding}" if self.is_sharded else self.buffer


HOST, DRAM, L1 = Memory("host"), Memory("dram"), Memory("l1")


@dataclass(frozen=True)
class TensorSpec:
    """Everything about a tensor but its numbers."""

    shape: tuple[int, ...]
    dtype: str
    layout: Layout = "row_major"
    memory: Memory = HOST

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape as stored: in tile layout the last two dimensions are whole tiles."""
        if self.layout == "row_major":
            return self.shape
        shape = (1,) * (2 - len(self.shape)) + self.shape
        return (*shape[:-2], *(-(-n // TILE) * TILE for n in shape[-2:]))

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes as stored, tile padding included."""
        return math.ceil(math.prod(self.padded_shape) * DTYPE_BYTES[self.dtype])

    @property
    def page_bytes(self) -> int:
        """One page of the buffer: a tile, or a row in row-major."""
        elements = TILE * TILE if self.layout == "tile" else (self.shape[-1] if self.shape else 1)
        return math.ceil(elements * DTYPE_BYTES[self.dtype])

    @property
    def num_pages(self) -> int:
        return -(-self.nbytes // self.page_bytes) if self.nbytes else 0

    def __str__(self) -> str:
        place = "host" if self.memory == HOST else f"{self.layout.replace('row_major', 'rm')} {self.memory}"
        return f"{short_dtype(self.dtype)}[{','.join(map(str, self.shape))}] {place}"


@dataclass(frozen=True)
class DeviceSpec:
    """What a chip is, as data. Lengths in bytes, rates in GB/s, one chip each."""

    name: str
    arch: str
    grid: tuple[int, int]
    clock_ghz: float
    l1_per_core: int
    l1_allocatable: int
    dram_banks: int
    dram_bank_bytes: int
    dram_gb_s: float
    pm_dram_gib_s: float
    """The DRAM rate that ttnn's own performance model assumes, in GiB/s."""
    dram_alignment: int
    l1_alignment: int
    pcie_write_gb_s: float
    pcie_read_gb_s: float
    chips: int = 1
    trace_region: int = 24 << 20
    """DRAM bytes per bank set aside for recorded commands where Programs are traced: our default, of the order that
    published models reserve."""
    l1_small: int = 16_384
    """What convolutions and pools of ttnn keep of each core's L1 for themselves: chips are opened with it."""

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def l1_room(self) -> int:
        """What the other buffers may take of each core's L1."""
        return self.l1_allocatable - self.l1_small


@dataclass(frozen=True)
class Origin:
    """Where a Step comes from: the ATen node, the module path and the user's source line."""

    node: str = ""
    aten: str = ""
    module: str = ""
    source: str = ""


def innermost(paths: Sequence[str]) -> str:
    """The innermost module around all of these."""
    split = [path.split(".") for path in paths]
    shared = []
    for parts in zip(*split):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
