"""Memories as the Python text of ttnn's memory configs, which Steps hold and exported scripts repeat."""

from __future__ import annotations

import functools
import re

from proveout.types import DRAM, L1, Memory, Sharding, ShardSpec

CONSTRUCTOR = "ttnn.MemoryConfig("
PLAIN: dict[str, Memory] = {
    "ttnn.DRAM_MEMORY_CONFIG": DRAM,
    "ttnn.L1_MEMORY_CONFIG": L1,
    "ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG": Memory("l1", "height"),
    "ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG": Memory("l1", "width"),
    "ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG": Memory("l1", "block"),
}
"""The configs that have names of their own; those without a shard leave its shape to the kernel."""
_SHARDINGS: dict[str, Sharding] = {"HEIGHT": "height", "WIDTH": "width", "BLOCK": "block"}


@functools.cache
def parse_memory(text: str) -> Memory:
    """The memory that a config's text stands for. Of a set of core ranges the box around it counts."""
    if text in PLAIN:
        return PLAIN[text]
    kind = re.search(r"TensorMemoryLayout\.(\w+?)_SHARDED", text)
    buffer = re.search(r"BufferType\.(\w+)", text)
    where: Memory = L1 if buffer and buffer[1] == "L1" else DRAM
    if kind is None:
        return where
    cores = [(int(x), int(y)) for x, y in re.findall(r"CoreCoord\((\d+), (\d+)\)", text)]
    shape = re.search(r"\[(\d+), (\d+)\]", text)
    shard = None
    if cores and shape:
        columns, rows = (max(c[i] for c in cores) - min(c[i] for c in cores) + 1 for i in (0, 1))
        shard = ShardSpec((int(shape[1]), int(shape[2])), (columns, rows))
    return Memory(where.buffer, _SHARDINGS[kind[1]], shard)


def memory_text(memory: Memory) -> str:
    """The shortest text that stands for a memory on the device; shards lie row by row from core (0, 0)."""
    for text, plain in PLAIN.items():
        if plain == memory:
            return text
    kind = "INTERLEAVED" if memory.sharding == "interleaved" else f"{memory.sharding.upper()}_SHARDED"
    parts = [f"ttnn.TensorMemoryLayout.{kind}", f"ttnn.BufferType.{memory.buffer.upper()}"]
    if memory.shard is not None:
        columns, rows = memory.shard.grid
        box = f"ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord({columns - 1}, {rows - 1}))"
        shape = list(memory.shard.shape)
        parts.append(f"ttnn.ShardSpec(ttnn.CoreRangeSet([{box}]), {shape}, ttnn.ShardOrientation.ROW_MAJOR)")
    return f"{CONSTRUCTOR}{', '.join(parts)})"
