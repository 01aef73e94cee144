"""Changes of layout: rows into tiles and back, and what takes tiles apart."""

from __future__ import annotations

import math

from proveout.chip.device_op import DeviceOp, rows, tile_rows, tiles
from proveout.chip.forms.shared import (
    Features,
    all_bytes,
    attribute,
    border_tiles,
    busiest,
    in_dram,
    last_two,
    logical_in,
    logical_out,
    per_core,
    sharded,
)
from proveout.types import DTYPE_BYTES, TILE, DeviceSpec

FEW = 4
"""From so many cores to a row of tiles on, several read parts of the same rows and wait for one bank."""


def tilize(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    spread = not sharded(source)
    lines = tile_rows(out)
    split = spread and cores >= FEW * lines
    row_bytes = last_two(source.shape)[1] * DTYPE_BYTES[source.dtype] * min(1.0, lines / cores)
    held = per_core(lines, cores) * TILE
    return {
        **all_bytes(op, chip),
        "local_tile": busiest(out, cores),
        "row": held if spread and not split else 0.0,
        "row_byte": held * row_bytes if spread and not split else 0.0,
        "split_row": float(lines * TILE) if split else 0.0,
    }


def tilize_padding(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    lines = tile_rows(out)
    split = cores >= FEW * lines
    real = last_two(source.shape)
    held = per_core(lines, cores) * min(TILE, real[0])
    ragged = real[1] % TILE != 0
    count = per_core(tiles(out), cores)
    return {
        **all_bytes(op, chip),
        "local_tile": count,
        "padded_tile": count * min(1.0, border_tiles(out, source.shape) / max(1, tiles(out))),
        "wide_tile": count if DTYPE_BYTES[source.dtype] == 4 else 0.0,
        "row": 0.0 if split else held,
        "row_byte": 0.0 if split else held * real[1] * DTYPE_BYTES[source.dtype] * min(1.0, lines / cores),
        "split_row": float(lines * min(TILE, real[0])) if split else 0.0,
        "padded_row": held if ragged else 0.0,
    }


def untilize(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    lines = tile_rows(source)
    if sharded(source):
        return {
            **all_bytes(op, chip),
            "local_tile": busiest(source, cores),
            "tile_row": per_core(lines, cores),
            "l1_row": 0.0 if sharded(out) else per_core(rows(out), cores),
        }
    held = per_core(lines, cores) * TILE
    return {
        **all_bytes(op, chip),
        "tile": per_core(tiles(source), cores),
        "row": 0.0 if sharded(out) or cores >= FEW * lines else held,
        "split_row": float(TILE * lines) if cores >= FEW * lines else 0.0,
    }


def untilize_unpadding(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    return {
        **all_bytes(op, chip),
        "tile": 0.0 if sharded(source) else per_core(tiles(source), cores),
        "local_tile": busiest(source, cores) if sharded(source) else 0.0,
        "row": 0.0 if sharded(out) else per_core(rows(out), cores),
    }


def reshape(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """In tiles: pairs of source and result tiles that share a row, and the pieces of rows that move between them."""
    source, out = op.first, op.out
    if out.layout != "tile":
        return {
            **all_bytes(op, chip),
            "row": per_core(max(rows(source), rows(out)), cores),
            "copied_byte": out.nbytes / cores,
        }
    before, after = logical_in(op), logical_out(op)
    pieces, pairs = row_pieces(before, after)
    grows = last_two(after)[1] > last_two(before)[1]
    share = busiest(out, cores) / max(1, tiles(out))
    return {
        **all_bytes(op, chip),
        "regrouped_tile": busiest(out, cores),
        "tile_pair": 0.0 if grows else pairs * share,
        "gathered_pair": pairs * share if grows else 0.0,
        "row_piece": pieces * share,
    }


def row_pieces(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[float, float]:
    """(pieces of rows that stay whole between two shapes in tiles, pairs of tiles that share some)."""
    size = max(1, math.prod(before))
    (h0, w0), (h1, w1) = last_two(before), last_two(after)
    h0, w0, h1, w1 = (max(1, n) for n in (h0, w0, h1, w1))
    if w0 % TILE == 0 and w1 % TILE == 0:
        pieces = size / TILE
    else:
        pieces = size / w0 * -(-w0 // TILE) + size / w1 * -(-w1 // TILE) - size / math.lcm(w0, w1)
    here, there = min(TILE, h0), min(TILE, h1)
    if w0 == w1:
        shared = float(min(here, there))
    elif w0 > w1:
        shared = min(here, there * w1 / w0)
    else:
        shared = min(here * w0 / w1, there)
    narrow = max(1.0, TILE / min(w0, w1))  # pieces narrower than a tile lie beside each other in one
    return pieces, pieces / (max(1.0, shared) * narrow)


def transpose(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Rows and columns inside tiles, tiles whole, or rows from tile to tile."""
    source, out = op.first, op.out
    kind = attribute(op, "dim") or {"hw": "WH", "ch": "HC", "nc": "CN"}.get(op.param("swaps", ""), "")
    if not kind:
        kind = _swapped(source.shape, out.shape)
    piece = per_core(max(tiles(out), tiles(source) if kind == "WH" else 0), cores)
    if kind == "WH":
        return {**all_bytes(op, chip), "local_tile": piece}
    if kind == "CN":
        return {**all_bytes(op, chip), "tile": piece}
    filled = min(TILE, last_two(logical_out(op))[0])
    return {**all_bytes(op, chip), "regrouped_tile": piece, "row_piece": piece * filled}


def _swapped(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """Which two dimensions changed places, from shapes alone."""
    if before[:-2] == after[:-2]:
        return "WH"
    if before[-2:] == after[-2:] and before[-3:-2] != after[-3:-2]:
        return "CN" if len(before) > 3 and before[-4] == after[-3] else "HC"
    return "HC"


def permute(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Tiles of the result that the source has not are mostly padding, which software writes. Rows of which another
    dimension becomes the last are turned in blocks of a tile's side, one core a block: a piece is read of each row of
    the source, and one written of each row of the result."""
    source, out = op.first, op.out
    across, down = last_two(source.shape)[1], last_two(out.shape)[1]
    if out.layout == "tile":
        more = per_core(max(0, tiles(out) - tiles(source)), cores)
        return {
            **all_bytes(op, chip),
            "tile": per_core(tiles(source), cores),
            "padded_tile": more if across == down else 0.0,
            "regrouped_tile": 0.0 if across == down else more,
        }
    if across == down:
        return {**all_bytes(op, chip), "row": per_core(max(rows(source), rows(out)), cores)}
    wide, high = -(-across // TILE), -(-down // TILE)
    apart = source.numel / (across * down)
    held = per_core(apart * wide * high, cores) / (wide * high)
    return {
        **all_bytes(op, chip),
        "page": apart * down * wide if in_dram(source) else 0.0,
        "row": held * down * wide,
        "sent_piece": held * across * high,
    }


__all__ = [
    "in_dram",
    "permute",
    "reshape",
    "row_pieces",
    "tilize",
    "tilize_padding",
    "transpose",
    "untilize",
    "untilize_unpadding",
]
