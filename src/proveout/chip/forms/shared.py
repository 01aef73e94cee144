"""What all forms count with: bytes by where they lie, tiles and rows of the busiest core, shapes as told."""

from __future__ import annotations

import math
from dataclasses import replace

from proveout.chip.device_op import DeviceOp, rows, tiles
from proveout.chip.profile_text import numbers, settings
from proveout.types import DTYPE_BYTES, TILE, DeviceSpec, TensorSpec

Features = dict[str, float]


def sharded(spec: TensorSpec) -> bool:
    return spec.memory.is_sharded


def in_dram(spec: TensorSpec) -> bool:
    return spec.memory.buffer == "dram"


def per_core(count: float, cores: int) -> float:
    return -(-count // max(1, cores))


def tile_bytes(spec: TensorSpec) -> float:
    return TILE * TILE * DTYPE_BYTES[spec.dtype]


def memory(chip: DeviceSpec, *moved: tuple[TensorSpec, float]) -> Features:
    """ns at DRAM's peak rate of what is moved through DRAM, and of what through interleaved L1."""
    dram = sum(count for spec, count in moved if in_dram(spec))
    spread = sum(count for spec, count in moved if not in_dram(spec) and not sharded(spec))
    return {"dram": dram / chip.dram_gb_s, "l1": spread / chip.dram_gb_s}


def conflict(chip: DeviceSpec, *moved: tuple[TensorSpec, float, float]) -> float:
    """ns at DRAM's peak rate that are lost where cores, each reading on from its own place, start at the same banks:
    (tensor, bytes, pages from one core's place to the next)."""
    lost = 0.0
    for spec, count, stride in moved:
        if in_dram(spec) and not sharded(spec):
            lost += count / chip.dram_gb_s * (math.gcd(max(1, int(stride)), chip.dram_banks) - 1)
    return lost


def all_bytes(op: DeviceOp, chip: DeviceSpec) -> Features:
    return memory(chip, *((t, t.nbytes) for t in (*op.inputs, *op.outputs)))


def busiest(spec: TensorSpec, cores: int) -> float:
    """Tiles of the core that has most of them."""
    shard = spec.memory.shard
    if shard is not None and sharded(spec) and not in_dram(spec):
        return float(-(-shard.shape[0] // TILE) * -(-shard.shape[1] // TILE))
    return per_core(tiles(spec), cores)


def columns(spec: TensorSpec, cores: int, chip: DeviceSpec) -> int:
    """Into how many columns of cores a sharded tensor is cut: a height-sharded one into none, however its cores lie.
    Where nothing says: of a block-sharded one, the most that the grid has and that divide its cores."""
    shard, sharding = spec.memory.shard, spec.memory.sharding
    if sharding == "block":
        if shard is not None:
            return max(1, shard.grid[0])
        return max(c for c in range(1, min(cores, chip.grid[0]) + 1) if cores % c == 0)
    if sharding == "width":
        return math.prod(shard.grid) if shard is not None else cores
    return 1


def asked_columns(op: DeviceOp, spec: TensorSpec, cores: int, chip: DeviceSpec) -> int:
    """The same where a call asks for its shards by name, whatever its tensors say."""
    shards = op.param("shards")
    if shards is None or spec.memory.shard is not None:
        return columns(spec, cores, chip)
    return columns(replace(spec, memory=replace(spec.memory, sharding=shards)), cores, chip)


def fragments(spec: TensorSpec, cores: int, chip: DeviceSpec) -> float:
    """Pieces of rows a core holds of a sharded row-major tensor."""
    if spec.memory.shard is not None:
        return float(spec.memory.shard.shape[0])
    return rows(spec) * columns(spec, cores, chip) / cores


def attribute(op: DeviceOp, name: str) -> str:
    return settings(op.param("attributes", "")).get(name, "")


def told_number(op: DeviceOp, name: str, default: int = 0) -> int:
    values = numbers(attribute(op, name)) or numbers(settings(op.param("program", "")).get(name, ""))
    return values[0] if values else default


def logical_in(op: DeviceOp) -> tuple[int, ...]:
    shape: tuple[int, ...] = op.param("logical_in") or op.first.shape
    return shape


def logical_out(op: DeviceOp) -> tuple[int, ...]:
    shape: tuple[int, ...] = op.param("logical_out") or op.out.shape
    return shape


def last_two(shape: tuple[int, ...]) -> tuple[int, int]:
    padded = (1, 1, *shape)
    return padded[-2], padded[-1]


def leading(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-2])


def border_tiles(spec: TensorSpec, logical: tuple[int, ...]) -> float:
    """Tiles of a tensor that hold padding."""
    height, width = last_two(spec.padded_shape)
    inner = last_two(logical)
    down, across = height // TILE, width // TILE
    whole = (inner[0] // TILE) * (inner[1] // TILE)
    return leading(spec.padded_shape) * max(0, down * across - whole)


__all__ = [name for name in dir() if not name.startswith("_")]
