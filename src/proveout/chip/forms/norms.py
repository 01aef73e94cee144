"""Norms, softmax and reductions: lines of tiles that one core or a row of cores goes through."""

from __future__ import annotations

import math

from proveout.chip.device_op import DeviceOp, rows, tile_rows, tiles
from proveout.chip.fidelity import PHASES
from proveout.chip.forms.shared import (
    Features,
    all_bytes,
    attribute,
    busiest,
    columns,
    last_two,
    memory,
    per_core,
    sharded,
    told_number,
)
from proveout.types import TILE, DeviceSpec

GROUPS = 32
"""Groups of a group norm: not in the tables, 32 in the models they come from."""
HELD_TILES = 256
"""Tiles of a line that a core keeps; a longer one is read again."""


def layer_norm(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    width = last_two(source.padded_shape)[1] // TILE
    phases = PHASES[op.fidelity]
    mean = attribute(op, "norm_type") == "LAYERNORM" or (not op.param("rms") and not attribute(op, "norm_type"))
    scales = sum(1 for t in op.inputs[1:] if t.numel < source.numel)
    if sharded(source):
        height = told_number(op, "block_h") or max(
            1, tile_rows(source) // max(1, cores // columns(source, cores, chip))
        )
        wide = told_number(op, "block_w") or busiest(source, cores) / max(1, height)
        # All lines' sums are exchanged at once, among the cores that share a line.
        return {
            "block_line": float(height),
            "block_tile": height * wide,
            "phase_tile": height * wide * phases,
            "gathering": math.sqrt(columns(source, cores, chip)),
            "fp32_tile": height * 30.0 if op.param("fp32") else 0.0,
        }
    lines = per_core(tile_rows(source), cores)
    count = lines * width
    return {
        **memory(chip, (source, source.nbytes), (op.out, op.out.nbytes)),
        "line": lines,
        "line_tile": count,
        "phase_tile": count * phases,
        "gamma_tile": count * scales,
        "fp32_tile": count if op.param("fp32") else 0.0,
        "mean_tile": count if mean else 0.0,
        "reread_tile": count if width > HELD_TILES else 0.0,
        "call": float(bool(op.param("host"))),
    }


def softmax(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Lines along the dimension that is summed over; a long one is read three times."""
    source = op.first
    name = str(op.param("called", ""))
    large = "large" in name
    rank = len(source.shape)
    dim = op.param("dim", rank - 1)
    along = source.padded_shape[dim] if isinstance(dim, int) and -rank <= dim < rank else source.padded_shape[-1]
    width = -(-along // TILE) if isinstance(dim, int) and dim % rank >= rank - 2 else along
    count = per_core(tiles(source) / max(1, width), cores) * width
    if sharded(source):
        count = busiest(source, cores)
    return {
        **all_bytes(op, chip),
        "line": count / max(1, width),
        "line_tile": count,
        "reread_tile": count if large or width > HELD_TILES else 0.0,
        "max_tile": count if isinstance(dim, int) and dim % rank == rank - 2 else 0.0,
        "backward_tile": count if "backward" in name else 0.0,
        "call": float(bool(op.param("host"))),
    }


def reduce(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Each core takes whole lines; along columns it takes columns of tiles."""
    source, out = op.first, op.out
    pieces = max(1, tiles(out))
    count = per_core(pieces, cores) * tiles(source) / pieces
    greatest = op.param("type") in ("MAX", "MIN") or attribute(op, "math_op") in ("MAX", "MIN")
    return {
        **all_bytes(op, chip),
        "tile": count,
        "line": per_core(pieces, cores),
        "max_tile": count if greatest else 0.0,
        "call": float(bool(op.param("host"))),
    }


def argmax(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Every core searches its part of each row with its own processor."""
    source = op.first
    return {
        "searched_element": source.numel / cores,
        "row": float(rows(source)) / cores if rows(source) > cores else 1.0,
    }


def top_k(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    width = last_two(source.padded_shape)[1] / TILE
    lines = per_core(tile_rows(source), cores)
    return {
        "sorted_tile": lines * width,
        "line": lines,
        "wide_tile": lines * width if source.dtype == "float32" else 0.0,
    }


def group_norm(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    cut = columns(source, cores, chip)
    groups = op.param("groups", GROUPS)
    return {
        "group": 0.0 if cut > 1 else groups,
        "block_group": groups / cut if cut > 1 else 0.0,
        "group_row": groups / cut * -(-rows(source) // TILE) * cut / cores,
        "tile": 0.0 if sharded(source) else tiles(source) / cores,
    }
