"""Cores, shards and memory configs, with ttnn's names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from proveout.kernels.memory_config import CONSTRUCTOR, core, memory_arg, memory_of
from proveout.program import Construct, Name
from proveout.ttnn.enums import (
    BLOCK_SHARDED,
    HEIGHT_SHARDED,
    INTERLEAVED,
    WIDTH_SHARDED,
    BufferType,
    ShardOrientation,
    ShardStrategy,
    TensorMemoryLayout,
    arg_of,
    member,
)
from proveout.types import TILE, Memory, Sharding

ROW_MAJOR: ShardOrientation = member(ShardOrientation, "ROW_MAJOR")
COL_MAJOR: ShardOrientation = member(ShardOrientation, "COL_MAJOR")
DRAM: BufferType = member(BufferType, "DRAM")
L1: BufferType = member(BufferType, "L1")
_LAYOUTS: dict[Sharding, TensorMemoryLayout] = {
    "interleaved": INTERLEAVED, "height": HEIGHT_SHARDED, "width": WIDTH_SHARDED, "block": BLOCK_SHARDED,
}  # fmt: skip
_STRATEGIES = {"HEIGHT": HEIGHT_SHARDED, "WIDTH": WIDTH_SHARDED, "BLOCK": BLOCK_SHARDED}


@dataclass(frozen=True, init=False)
class CoreCoord:
    """One core: column, row."""

    x: int
    y: int

    def __init__(self, *at: Any) -> None:
        x, y = at[0] if len(at) == 1 else at
        object.__setattr__(self, "x", int(x))
        object.__setattr__(self, "y", int(y))

    def __str__(self) -> str:
        return f"{self.x}-{self.y}"

    @property
    def arg(self) -> Construct:
        return core(self.x, self.y)


@dataclass(frozen=True)
class CoreRange:
    """A rectangle of cores, its corners included."""

    start: CoreCoord
    end: CoreCoord

    def __post_init__(self) -> None:
        if self.end.x < self.start.x or self.end.y < self.start.y:
            raise RuntimeError(f"TT_FATAL: invalid core range: start {self.start} is past end {self.end}")

    def size(self) -> int:
        return (self.end.x - self.start.x + 1) * (self.end.y - self.start.y + 1)

    @property
    def arg(self) -> Construct:
        return Construct.of("ttnn.CoreRange", self.start.arg, self.end.arg)


@dataclass(frozen=True, init=False)
class CoreRangeSet:
    """Rectangles of cores that do not overlap."""

    core_ranges: tuple[CoreRange, ...]

    def __init__(self, core_ranges: Iterable[CoreRange] | CoreRange) -> None:
        ranges = (core_ranges,) if isinstance(core_ranges, CoreRange) else core_ranges
        ordered = sorted(ranges, key=lambda r: (r.start.y, r.start.x))
        object.__setattr__(self, "core_ranges", tuple(ordered))

    def ranges(self) -> list[CoreRange]:
        return list(self.core_ranges)

    def num_cores(self) -> int:
        return sum(r.size() for r in self.core_ranges)

    def bounding_box(self) -> CoreRange:
        starts, ends = [r.start for r in self.core_ranges], [r.end for r in self.core_ranges]
        return CoreRange(
            CoreCoord(min(c.x for c in starts), min(c.y for c in starts)),
            CoreCoord(max(c.x for c in ends), max(c.y for c in ends)),
        )

    @property
    def arg(self) -> Construct:
        return Construct.of("ttnn.CoreRangeSet", tuple(r.arg for r in self.core_ranges))


@dataclass(frozen=True, kw_only=True)
class CoreGrid:
    """So many columns and rows of cores from core (0, 0)."""

    x: int
    y: int

    @property
    def num_cores(self) -> int:
        return self.x * self.y

    @property
    def arg(self) -> Construct:
        return Construct.of("ttnn.CoreGrid", x=self.x, y=self.y)

    def __repr__(self) -> str:
        return str(self.arg)


@dataclass(frozen=True, init=False)
class ShardSpec:
    """Which cores hold a tensor's shards, and the shape of one."""

    grid: CoreRangeSet
    shape: tuple[int, int]
    orientation: ShardOrientation

    def __init__(
        self, grid: CoreRangeSet, shard_shape: Sequence[int], shard_orientation: ShardOrientation = ROW_MAJOR
    ) -> None:
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "shape", tuple(int(n) for n in shard_shape))
        object.__setattr__(self, "orientation", shard_orientation)
        if len(self.shape) != 2 or min(self.shape) <= 0:
            raise RuntimeError(f"TT_FATAL: a shard has a height and a width above 0, not {list(self.shape)}")

    def num_cores(self) -> int:
        return self.grid.num_cores()

    @property
    def arg(self) -> Construct:
        return Construct.of("ttnn.ShardSpec", self.grid.arg, self.shape, arg_of(self.orientation))


@dataclass(frozen=True)
class MemoryConfig:
    """Where a tensor lies on the chip."""

    memory_layout: TensorMemoryLayout = INTERLEAVED
    buffer_type: BufferType = DRAM
    shard_spec: ShardSpec | None = field(default=None)

    def is_sharded(self) -> bool:
        return self.memory_layout != INTERLEAVED

    @property
    def arg(self) -> Name | Construct:
        """As Steps hold it: short where ttnn has a name for it."""
        parts = [arg_of(self.memory_layout), arg_of(self.buffer_type)]
        if self.shard_spec is None:
            return memory_arg(memory_of(Construct.of(CONSTRUCTOR, *parts)))
        return Construct.of(CONSTRUCTOR, *parts, self.shard_spec.arg)

    def __repr__(self) -> str:
        return str(self.arg)

    @property
    def memory(self) -> Memory:
        return memory_of(self.arg)


DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG = MemoryConfig(), MemoryConfig(buffer_type=L1)
L1_HEIGHT_SHARDED_MEMORY_CONFIG = MemoryConfig(HEIGHT_SHARDED, L1)
L1_WIDTH_SHARDED_MEMORY_CONFIG = MemoryConfig(WIDTH_SHARDED, L1)
L1_BLOCK_SHARDED_MEMORY_CONFIG = MemoryConfig(BLOCK_SHARDED, L1)


def config_of(memory: Memory) -> MemoryConfig:
    """The config that says a memory of the device."""
    shard = None
    if memory.shard is not None:
        columns, rows = memory.shard.grid
        box = CoreRange(CoreCoord(0, 0), CoreCoord(columns - 1, rows - 1))
        shard = ShardSpec(CoreRangeSet([box]), memory.shard.shape)
    return MemoryConfig(_LAYOUTS[memory.sharding], L1 if memory.buffer == "l1" else DRAM, shard)


def create_sharded_memory_config(
    shape: Sequence[int],
    core_grid: CoreGrid | CoreRangeSet,
    strategy: ShardStrategy | TensorMemoryLayout,
    orientation: ShardOrientation | None = None,
    use_height_and_width_as_shard_shape: bool = False,
) -> MemoryConfig:
    """A config in L1 whose shards cover a tensor's shape evenly: the grid must divide it."""
    return _sharded(shape, core_grid, strategy, orientation, use_height_and_width_as_shard_shape, even=True)


def create_sharded_memory_config_(
    shape: Sequence[int],
    core_grid: CoreGrid | CoreRangeSet,
    strategy: ShardStrategy | TensorMemoryLayout,
    orientation: ShardOrientation,
    use_height_and_width_as_shard_shape: bool = False,
    tile_layout: bool = False,
) -> MemoryConfig:
    """As `create_sharded_memory_config`, with the last shards partly empty where the grid does not divide the shape.
    In tile layout the height is first filled up to whole tiles, and the width of height shards must be whole tiles."""
    if not isinstance(orientation, ShardOrientation):
        raise RuntimeError("Invalid type of shard orientation")
    if tile_layout:
        if HEIGHT_SHARDED in (strategy, _STRATEGIES.get(strategy.name)) and shape[-1] % TILE:
            raise RuntimeError(f"Incorrect tensor shape: a width of {shape[-1]} is not whole tiles")
        shape = (-(-math.prod(shape[:-1]) // TILE) * TILE, shape[-1])
    return _sharded(shape, core_grid, strategy, orientation, use_height_and_width_as_shard_shape, even=False)


def _sharded(
    shape: Sequence[int],
    core_grid: CoreGrid | CoreRangeSet,
    strategy: ShardStrategy | TensorMemoryLayout,
    orientation: ShardOrientation | None,
    whole: bool,
    even: bool,
) -> MemoryConfig:
    cores = core_range_set(core_grid)
    layout = strategy if isinstance(strategy, TensorMemoryLayout) else _STRATEGIES[strategy.name]
    orientation = orientation or ROW_MAJOR
    if whole:
        if len(shape) < 2:
            raise RuntimeError(f"TT_FATAL: a shard has a height and a width, not {list(shape)}")
        return MemoryConfig(layout, L1, ShardSpec(cores, shape[-2:], orientation))
    height, width = math.prod(shape[:-1]), shape[-1]
    down, across = _pieces(cores, layout, orientation)
    if even and (height % down or width % across):
        raise RuntimeError(
            f"Invalid sharding core_grid: {height}x{width} is not cut evenly into {down}x{across} "
            f"{layout.name.lower().replace('_', ' ')} pieces"
        )
    return MemoryConfig(layout, L1, ShardSpec(cores, (-(-height // down), -(-width // across)), orientation))


def _pieces(cores: CoreRangeSet, layout: TensorMemoryLayout, orientation: ShardOrientation) -> tuple[int, int]:
    """How often height and width are cut."""
    if layout == HEIGHT_SHARDED:
        return cores.num_cores(), 1
    if layout == WIDTH_SHARDED:
        return 1, cores.num_cores()
    box = cores.bounding_box()
    if box.size() != cores.num_cores():
        raise RuntimeError("TT_FATAL: block sharding needs one rectangle of cores")
    columns, rows = box.end.x - box.start.x + 1, box.end.y - box.start.y + 1
    return (rows, columns) if orientation == ROW_MAJOR else (columns, rows)


def core_range_set(grid: CoreGrid | CoreRangeSet) -> CoreRangeSet:
    if isinstance(grid, CoreRangeSet):
        return grid
    return CoreRangeSet([CoreRange(CoreCoord(0, 0), CoreCoord(grid.x - 1, grid.y - 1))])


def num_cores_to_corerangeset(target_num_cores: int, grid_size: CoreCoord, row_wise: bool = False) -> CoreRangeSet:
    """The first so many cores of a grid, column by column or row by row."""
    if target_num_cores > grid_size.x * grid_size.y:
        raise RuntimeError(f"TT_FATAL: {target_num_cores} cores do not fit a grid of {grid_size.x}x{grid_size.y} cores")
    long = grid_size.x if row_wise else grid_size.y
    full, rest = divmod(target_num_cores, long)

    def box(a: int, b: int, c: int, d: int) -> CoreRange:
        """From (a, b) to (c, d), counted along the filling direction first."""
        return CoreRange(CoreCoord(a, b), CoreCoord(c, d)) if row_wise else CoreRange(CoreCoord(b, a), CoreCoord(d, c))

    ranges = [box(0, 0, long - 1, full - 1)] if full else []
    return CoreRangeSet([*ranges, *([box(0, full, rest - 1, full)] if rest else [])])
