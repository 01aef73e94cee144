"""Where buffers go on a chip: lockstep allocation over the banks, first fit, DRAM bottom-up and L1 top-down."""

from __future__ import annotations

import bisect
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
    held = (chip.dram_banks, 1) if spec.memory.buffer == "dram" else chip.grid
    if columns > held[0] or rows > held[1]:
        where = "banks" if spec.memory.buffer == "dram" else "cores"
        return f"a shard grid of {columns}x{rows} {where} does not fit {chip.name}'s {held[0]}x{held[1]}"
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
    """One kind of memory, seen as one bank since all banks move in lockstep. Places count from where buffers start:
    from the bottom of DRAM, from the top of L1, whose other end circular buffers grow from."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name, self.capacity = name, capacity
        self.blocks: dict[str, tuple[int, int]] = {}
        self.used = self.peak = 0
        self._places: list[tuple[int, int]] = []
        """(start, end) of every block, in order."""

    @property
    def edge(self) -> int:
        """Where the last buffer ends; all beyond it is free."""
        return self._places[-1][1] if self._places else 0

    @property
    def largest_free(self) -> int:
        return self.largest_below(self.capacity)

    def largest_below(self, limit: int) -> int:
        """The largest free block that ends before a limit."""
        return max((min(end, limit) - start for start, end in self._gaps()), default=0)

    def _gaps(self) -> Iterator[tuple[int, int]]:
        cursor = 0
        for start, end in self._places:
            if start > cursor:
                yield cursor, start
            cursor = end
        if cursor < self.capacity:
            yield cursor, self.capacity

    def allocate(self, name: str, size: int, limit: int | None = None) -> None:
        """First fit, before a limit where one is given."""
        last = self.capacity if limit is None else limit
        for start, end in self._gaps():
            if min(end, last) - start >= size:
                self.free(name)
                self.blocks[name] = (start, size)
                bisect.insort(self._places, (start, start + size))
                self.used += size
                self.peak = max(self.peak, self.used)
                return
        raise OutOfMemory(
            f"out of {self.name} for %{name}: {size} B per bank asked, {self.capacity - self.used} B free, "
            f"largest free block {self.largest_free} B."
        )

    def refusal(self, kernel: str, circular: int) -> str | None:
        """Why a kernel's circular buffers do not fit beside the buffers that lie here, or None."""
        free = self.capacity - self.edge
        if circular <= free:
            return None
        return (
            f"out of {self.name} for the circular buffers of {kernel}: {circular} B per core asked, "
            f"{self.capacity - self.used} B free, {free} B of them before the first buffer."
        )

    def windows(self, size: int, movable: Collection[str], limit: int | None = None) -> Iterator[tuple[str, ...]]:
        """Runs of neighbouring movable buffers whose removal opens a block of this size, each as short as can be."""
        capacity = self.capacity if limit is None else limit
        blocks = sorted((start, start + length, name) for name, (start, length) in self.blocks.items())
        ends = [0, *(end for _, end, _ in blocks)]
        starts = [*(min(start, capacity) for start, _, _ in blocks), capacity]
        for first in range(len(blocks)):
            for last in range(first, len(blocks)):
                if blocks[last][2] not in movable:
                    break
                if starts[last + 1] - ends[first] >= size:
                    yield tuple(name for _, _, name in blocks[first : last + 1])
                    break

    def free(self, name: str) -> None:
        if name in self.blocks:
            start, size = self.blocks.pop(name)
            del self._places[bisect.bisect_left(self._places, (start, start + size))]
            self.used -= size
