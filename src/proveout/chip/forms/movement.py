"""Data movement that keeps the layout: copies, shards, slices, concatenations, repeats, look-ups."""

from __future__ import annotations

import math

from proveout.chip.device_op import DeviceOp, rows, tiles
from proveout.chip.forms.shared import (
    Features,
    all_bytes,
    asked_columns,
    attribute,
    border_tiles,
    busiest,
    fragments,
    in_dram,
    logical_in,
    memory,
    per_core,
    sharded,
    tile_bytes,
)
from proveout.chip.profile_text import numbers
from proveout.types import DTYPE_BYTES, TILE, DeviceSpec

NOC_BYTES = {"wormhole_b0": 32, "blackhole": 64}
"""Bytes a clock that one link of a core carries."""


def _noc(chip: DeviceSpec) -> int:
    return NOC_BYTES.get(chip.arch, 32)


def copied(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    local = sharded(source) and not in_dram(source)
    shard = source.memory.shard or out.memory.shard
    own = math.prod(shard.shape) * DTYPE_BYTES[source.dtype] if shard else source.nbytes / cores
    tiled = out.layout == "tile"
    piece = busiest(out, cores)
    return {
        **memory(chip, (source, source.nbytes), (out, out.nbytes)),
        "local_byte": own * 32 / _noc(chip) if local else 0.0,
        "tile": piece if tiled and not local else 0.0,
        "byte": piece * tile_bytes(out) if tiled and not local else 0.0,
        "row": 0.0 if tiled or local else per_core(rows(source), cores),
        "row_byte": 0.0 if tiled or local else source.nbytes / cores,
    }


def to_sharded(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    moved = min(source.nbytes, out.nbytes)
    tiled = source.layout == "tile"
    lines = 0.0 if tiled else fragments(out, cores, chip)
    piece = busiest(out, cores) if tiled else 0.0
    return {
        **memory(chip, (source, moved)),
        "tile": piece if in_dram(source) else 0.0,
        "local_tile": 0.0 if in_dram(source) else piece,
        "row": lines if in_dram(source) else 0.0,
        "l1_row": 0.0 if in_dram(source) else lines,
        "row_byte": 0.0 if tiled else moved / cores,
    }


def from_sharded(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = source.layout == "tile"
    lines = 0.0 if tiled else fragments(source, cores, chip)
    piece = per_core(tiles(source), cores) if tiled else 0.0
    return {
        **memory(chip, (out, source.nbytes)),
        "tile": piece if in_dram(out) else 0.0,
        "local_tile": 0.0 if in_dram(out) else piece,
        "row": lines if in_dram(out) else 0.0,
        "l1_row": 0.0 if in_dram(out) else lines,
    }


def slice_(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    out = op.out
    tiled = out.layout == "tile"
    step = numbers(attribute(op, "step"))
    strided = any(s > 1 for s in step)
    return {
        **memory(chip, (op.first, out.nbytes), (out, out.nbytes)),
        "tile": busiest(out, cores) if tiled else 0.0,
        "row": 0.0 if tiled else per_core(rows(out), cores),
        "row_byte": 0.0 if tiled else per_core(rows(out), cores) * out.page_bytes,
        "element": out.numel / cores if strided else 0.0,
    }


def slice_write(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    tiled = op.out.layout == "tile"
    return {
        **memory(chip, (op.out, source.nbytes)),
        "tile": per_core(tiles(source), cores) if tiled else 0.0,
        "row": 0.0 if tiled else fragments(source, cores, chip),
        "row_byte": 0.0 if tiled else source.nbytes / cores,
    }


def padded_slice(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = source.layout == "tile"
    piece = busiest(out, cores)
    return {
        **memory(chip, (source, out.nbytes * source.nbytes / max(1, math.prod(source.padded_shape)) / 2)),
        "local_tile": piece if tiled else 0.0,
        "row": 0.0 if tiled else fragments(out, cores, chip),
        "block_tile": piece if out.memory.sharding == "block" else 0.0,
    }


def concat(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    out = op.out
    tiled, spread = out.layout == "tile", not sharded(out)
    if not spread:
        pieces = sum(fragments(t, cores, chip) for t in op.inputs if sharded(t)) if not tiled else 0.0
        return {
            **memory(chip, *((t, t.nbytes) for t in op.inputs)),
            "local_byte": out.nbytes / cores * 32 / _noc(chip),
            "l1_row": pieces,
            "tensor": float(len(op.inputs)),
        }
    lines = sum(rows(t) for t in op.inputs) if out.shape[-1] != op.first.shape[-1] else rows(out)
    return {
        **all_bytes(op, chip),
        "tile": per_core(tiles(out), cores) if tiled else 0.0,
        "row": 0.0 if tiled else per_core(lines, cores),
        "row_byte": 0.0 if tiled else out.nbytes / cores,
        "tensor": float(len(op.inputs)),
    }


def repeat(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = out.layout == "tile"
    pages = out.num_pages
    return {
        **memory(chip, (source, source.nbytes), (out, out.nbytes)),
        "tile": per_core(pages, cores) if tiled else 0.0,
        "row": 0.0 if tiled else per_core(pages, cores),
        "row_byte": 0.0 if tiled else per_core(pages, cores) * out.page_bytes,
    }


def pad(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = out.layout == "tile"
    return {
        **memory(chip, (source, source.nbytes), (out, out.nbytes)),
        "tile": per_core(tiles(source), cores) if tiled else 0.0,
        "padded_tile": per_core(max(0, tiles(out) - tiles(source)), cores) if tiled else 0.0,
        "row": 0.0 if tiled else per_core(rows(out), cores),
        "row_byte": 0.0 if tiled else out.nbytes / cores,
    }


def fill_pad(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    border = border_tiles(op.first, logical_in(op)) or tiles(op.first)
    count = per_core(border, cores)
    wide = DTYPE_BYTES[op.first.dtype] == 4
    return {"border_tile": count, "wide_border_tile": count if wide else 0.0}


def lookup(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    out = op.out
    tiled = out.layout == "tile" or attribute(op, "tilized") == "true"
    lines = per_core(rows(out), cores)
    return {
        **memory(chip, (out, 2 * out.nbytes)),
        "row": 0.0 if tiled else lines,
        "l1_row": lines if tiled else 0.0,
        "row_byte": lines * out.shape[-1] * DTYPE_BYTES[out.dtype] if tiled else 0.0,
    }


def scatter(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    lines = per_core(rows(op.out), cores)
    picked = op.inputs[1].shape[-1] if len(op.inputs) > 1 else op.out.shape[-1]
    return {
        **memory(chip, (op.first, op.first.nbytes), (op.out, op.out.nbytes)),
        "row": lines,
        "row_byte": lines * op.out.shape[-1] * DTYPE_BYTES[op.out.dtype],
        "element": lines * picked,
    }


def halo(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    cut = asked_columns(op, source, cores, chip)
    tiled = source.layout == "tile"
    added = 2.0 * max(0, out.numel - source.numel)
    lines = -(-rows(source) // TILE)
    return {
        "tile_row": lines * cut / cores if tiled else 0.0,
        "local_tile": tiles(source) / cores if tiled else 0.0,
        "local_byte": source.nbytes / cores * 32 / _noc(chip),
        "added_kilobyte": added / 1000 if cut == 1 else 0.0,
        "added_byte": added / cores if cut > 1 else 0.0,
    }
