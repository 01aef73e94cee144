"""Memories as ttnn's memory configs, which Steps hold and exported scripts repeat."""

from __future__ import annotations

import functools

from proveout.program import Arg, Construct, Name
from proveout.types import DRAM, L1, Memory, Sharding, ShardSpec

CONSTRUCTOR = "ttnn.MemoryConfig"
PLAIN: dict[str, Memory] = {
    "ttnn.DRAM_MEMORY_CONFIG": DRAM,
    "ttnn.L1_MEMORY_CONFIG": L1,
    "ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG": Memory("l1", "height"),
    "ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG": Memory("l1", "width"),
    "ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG": Memory("l1", "block"),
}
"""The configs that have names of their own; those without a shard leave its shape to the kernel."""
LAYOUTS: dict[Sharding, Name] = {
    "interleaved": Name("ttnn.TensorMemoryLayout.INTERLEAVED"),
    "height": Name("ttnn.TensorMemoryLayout.HEIGHT_SHARDED"),
    "width": Name("ttnn.TensorMemoryLayout.WIDTH_SHARDED"),
    "block": Name("ttnn.TensorMemoryLayout.BLOCK_SHARDED"),
}
_SHARDINGS = {name: sharding for sharding, name in LAYOUTS.items()}
_BUFFERS = {DRAM.buffer: Name("ttnn.BufferType.DRAM"), L1.buffer: Name("ttnn.BufferType.L1")}


@functools.cache
def memory_of(config: Name | Construct) -> Memory:
    """The memory that a config stands for. Of a set of core ranges the box around it counts."""
    if isinstance(config, Name):
        return PLAIN[config.text]
    layout, buffer, *rest = config.by_place
    assert isinstance(layout, Name)
    where = L1 if buffer == _BUFFERS["l1"] else DRAM
    if _SHARDINGS[layout] == "interleaved":
        return where
    return Memory(where.buffer, _SHARDINGS[layout], _shard(rest[0]) if rest else None)


def _shard(spec: Arg) -> ShardSpec:
    assert isinstance(spec, Construct)
    assert isinstance(spec[1], tuple)
    height, width = (int(str(n)) for n in spec[1])
    cores = [tuple(int(str(n)) for n in core.by_place) for core in spec.inside("ttnn.CoreCoord")]
    columns, rows = (max(c[i] for c in cores) - min(c[i] for c in cores) + 1 for i in (0, 1))
    return ShardSpec((height, width), (columns, rows))


def memory_arg(memory: Memory) -> Name | Construct:
    """The shortest config that stands for a memory on the device; shards lie row by row from core (0, 0)."""
    for text, plain in PLAIN.items():
        if plain == memory:
            return Name(text)
    parts: list[Arg] = [LAYOUTS[memory.sharding], _BUFFERS[memory.buffer]]
    if memory.shard is not None:
        columns, rows = memory.shard.grid
        box = Construct.of("ttnn.CoreRange", core(0, 0), core(columns - 1, rows - 1))
        cores = Construct.of("ttnn.CoreRangeSet", (box,))
        parts.append(Construct.of("ttnn.ShardSpec", cores, memory.shard.shape, Name("ttnn.ShardOrientation.ROW_MAJOR")))
    return Construct.of(CONSTRUCTOR, *parts)


def core(x: int, y: int) -> Construct:
    """One core, or how many columns and rows of them."""
    return Construct.of("ttnn.CoreCoord", x, y)
