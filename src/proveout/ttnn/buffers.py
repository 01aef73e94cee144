"""What lies in the chip's memories: buffers at addresses, allocated as the chip's allocator does, freed with their
last tensor."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from proveout.chip.memory import Arena, bytes_per_bank, shard_refusal
from proveout.errors import OutOfMemory
from proveout.types import DeviceSpec, TensorSpec


@dataclass(frozen=True, eq=False)
class Slot:
    """A place in memory that a tensor had: traces go by it, since it stays when the tensor is gone."""

    kind: str
    address: int
    size: int
    spec: TensorSpec

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(eq=False)
class Buffer:
    """A tensor's numbers: on the host, or in a slot of the device's memory."""

    data: torch.Tensor | None
    slot: Slot | None = None
    problem: str = ""
    """Why its numbers cannot be read, where they cannot."""
    written: tuple[int, int] | None = None
    """The last command that wrote it: queue and number."""
    read: dict[int, int] = field(default_factory=dict)
    """Per queue, the last command that read it."""
    freed: bool = False
    alias: tuple[Buffer, TensorSpec] | None = None
    """Of weights that a convolution has prepared on the device: the buffer on the host that they were."""

    pending: Callable[[], bool] | None = None
    """On the host, of a read that nobody has waited for: whether that is still so."""

    def value(self) -> torch.Tensor:
        if self.pending is not None and self.pending():
            raise RuntimeError(
                "the read from the device was not waited for, and the numbers may not have arrived: call "
                "ttnn.synchronize_device or ttnn.event_synchronize first, or read with blocking=True"
            )
        if self.data is None or self.problem:
            raise RuntimeError(f"TT_FATAL: {self.problem or 'the tensor was deallocated'}")
        return self.data

    def write(self, data: torch.Tensor) -> None:
        self.data, self.problem = data, ""


class Memories:
    """DRAM and L1 of one opened device. All banks move in lockstep, so addresses are one bank's."""

    def __init__(self, chip: DeviceSpec, l1_small_size: int, trace_region_size: int) -> None:
        self._chip = chip
        self._arenas = {
            "dram": Arena("DRAM", chip.dram_bank_bytes - -(-trace_region_size // chip.dram_banks)),
            "l1": Arena("L1", chip.l1_allocatable - l1_small_size),
        }
        for arena in self._arenas.values():
            if arena.capacity <= 0:
                raise RuntimeError(f"TT_FATAL: nothing of {arena.name} is left beside the regions asked for")
        self._count = itertools.count()
        self._live: weakref.WeakValueDictionary[tuple[str, int], Buffer] = weakref.WeakValueDictionary()
        self._freeing: dict[Slot, weakref.finalize[..., Buffer]] = {}
        self.on_free: list[Callable[[Slot], None]] = []

    def allocate(self, spec: TensorSpec, problem: str = "") -> Buffer:
        """Room for a tensor, or ttnn's complaint."""
        kind = spec.memory.buffer
        wrong = shard_refusal(spec, self._chip) if spec.memory.shard is not None else None
        if wrong:
            raise RuntimeError(f"TT_FATAL: {wrong}")
        arena, key = self._arenas[kind], str(next(self._count))
        size = bytes_per_bank(spec, self._chip)
        try:
            arena.allocate(key, size)
        except OutOfMemory:
            banks = self._chip.cores if kind == "l1" else self._chip.dram_banks
            raise RuntimeError(
                f"TT_FATAL: Out of Memory: Not enough space to allocate {size * banks} B {arena.name} buffer across "
                f"{banks} banks, where each bank needs to store {size} B, but bank size is {arena.capacity} B "
                f"(allocated: {arena.used} B, free: {arena.capacity - arena.used} B, "
                f"largest free block: {arena.largest_free} B)"
            ) from None
        start, _ = arena.blocks[key]
        slot = Slot(kind, arena.capacity - start - size if kind == "l1" else start, size, spec)
        buffer = Buffer(None, slot, problem)
        self._live[kind, slot.address] = buffer
        self._freeing[slot] = weakref.finalize(buffer, self._free, slot, key)
        return buffer

    def free(self, buffer: Buffer) -> None:
        buffer.data, buffer.problem, buffer.freed = None, "the tensor was deallocated", True
        if buffer.slot is not None and buffer.slot in self._freeing:
            if self._live.get((buffer.slot.kind, buffer.slot.address)) is buffer:
                del self._live[buffer.slot.kind, buffer.slot.address]
            self._freeing[buffer.slot]()

    def _free(self, slot: Slot, key: str) -> None:
        self._freeing.pop(slot, None)
        self._arenas[slot.kind].free(key)
        for listener in self.on_free:
            listener(slot)

    def at(self, slot: Slot) -> Buffer | None:
        """The buffer that lies exactly there now, whichever tensor's it is."""
        buffer = self._live.get((slot.kind, slot.address))
        return buffer if buffer is not None and buffer.slot is not None and buffer.slot.spec == slot.spec else None

    def live(self) -> list[Buffer]:
        return list(self._live.values())

    def used(self, kind: str) -> int:
        """Bytes taken in each bank."""
        return self._arenas[kind].used
