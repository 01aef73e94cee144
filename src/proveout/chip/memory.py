"""Where buffers go on a chip: lockstep allocation over the banks, first fit, DRAM bottom-up and L1 top-down."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from proveout.errors import OutOfMemory
from proveout.types import DeviceSpec, TensorSpec


def bytes_per_bank(spec: TensorSpec, chip: DeviceSpec) -> int:
    """Lockstep: every bank holds as much as the fullest one."""
    on_l1 = spec.memory.buffer == "l1"
    banks = chip.cores if on_l1 else chip.dram_banks
    alignment = chip.l1_alignment if on_l1 else chip.dram_alignment
    page = -(-spec.page_bytes // alignment) * alignment
    return -(-spec.num_pages // banks) * page


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
