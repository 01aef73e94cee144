"""Where buffers go on a chip: lockstep allocation over the banks, first fit, DRAM bottom-up and L1 top-down."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace

from proveout.errors import OutOfMemory
from proveout.types import TILE, DeviceSpec, TensorSpec


def bytes_per_bank(spec: TensorSpec, chip: DeviceSpec) -> int:
    """Lockstep: every bank holds as much as the fullest one; of a sharded tensor, one shard."""
    on_l1 = spec.memory.buffer == "l1"
    banks = chip.cores if on_l1 else chip.dram_banks
    if spec.memory.shard is not None:
        spec, banks = replace(spec, shape=spec.memory.shard.shape), 1
    alignment = chip.l1_alignment if on_l1 else chip.dram_alignment
    page = -(-spec.page_bytes // alignment) * alignment
    return -(-spec.num_pages // banks) * page


def shard_refusal(spec: TensorSpec, chip: DeviceSpec) -> str | None:
    """Why a sharded tensor cannot lie on this chip, or None. Leading dimensions count as rows, as in ttnn."""
    kind, shard = spec.memory.sharding, spec.memory.shard
    if kind == "interleaved":
        return None
    if shard is None:
        return f"{kind} sharding needs the shape of a shard and a grid of cores"
    (height, width), (columns, rows) = shard.shape, shard.grid
    if columns > chip.grid[0] or rows > chip.grid[1]:
        return f"a shard grid of {columns}x{rows} cores does not fit {chip.name}'s {chip.grid[0]}x{chip.grid[1]}"
    if spec.layout == "tile" and (height % TILE or width % TILE):
        return f"shards in tile layout are whole tiles, not {height}x{width}"
    padded = spec.padded_shape
    tall, wide = math.prod(padded[:-1]), padded[-1] if padded else 1
    down, across = -(-tall // height), -(-wide // width)
    if kind == "height" and width < wide:
        return f"a height shard has the tensor's full width of {wide}, not {width}"
    if kind == "width" and height < tall:
        return f"a width shard has the tensor's full height of {tall}, not {height}"
    if kind == "block" and (down > rows or across > columns):
        return f"{down}x{across} blocks need as many rows and columns of cores; the grid has {rows}x{columns}"
    if down * across > columns * rows:
        return f"{down * across} shards need as many cores; the grid has {columns * rows}"
    return None


class Arena:
    """One kind of memory, seen as one bank since all banks move in lockstep."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name, self.capacity = name, capacity
        self.blocks: dict[str, tuple[int, int]] = {}
        self.peak = 0

    @property
    def used(self) -> int:
        return sum(size for _, size in self.blocks.values())

    @property
    def largest_free(self) -> int:
        return max((end - start for start, end in self._gaps()), default=0)

    def _gaps(self) -> list[tuple[int, int]]:
        gaps, cursor = [], 0
        for start, size in sorted(self.blocks.values()):
            if start > cursor:
                gaps.append((cursor, start))
            cursor = max(cursor, start + size)
        if cursor < self.capacity:
            gaps.append((cursor, self.capacity))
        return gaps

    def allocate(self, name: str, size: int) -> None:
        for start, end in self._gaps():
            if end - start >= size:
                self.blocks[name] = (start, size)
                self.peak = max(self.peak, self.used)
                return
        raise OutOfMemory(
            f"out of {self.name} for %{name}: {size} B per bank asked, {self.capacity - self.used} B free, "
            f"largest free block {self.largest_free} B."
        )

    def windows(self, size: int, movable: Collection[str]) -> Iterator[tuple[str, ...]]:
        """Runs of neighbouring movable buffers whose removal opens a block of this size, each as short as can be."""
        blocks = sorted((start, start + length, name) for name, (start, length) in self.blocks.items())
        ends = [0, *(end for _, end, _ in blocks)]
        starts = [*(start for start, _, _ in blocks), self.capacity]
        for first in range(len(blocks)):
            for last in range(first, len(blocks)):
                if blocks[last][2] not in movable:
                    break
                if starts[last + 1] - ends[first] >= size:
                    yield tuple(name for _, _, name in blocks[first : last + 1])
                    break

    def free(self, name: str) -> None:
        self.blocks.pop(name, None)
