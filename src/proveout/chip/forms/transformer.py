"""What transformers run between their products: heads, caches, rotations, attention."""

from __future__ import annotations

import math

from proveout.chip.device_op import DeviceOp, tile_rows, tiles
from proveout.chip.fidelity import PHASES
from proveout.chip.forms.shared import (
    Features,
    all_bytes,
    attribute,
    in_dram,
    last_two,
    logical_in,
    memory,
    per_core,
    sharded,
    tile_bytes,
    told_number,
)
from proveout.types import DTYPE_BYTES, TILE, DeviceSpec

PART = 16
"""Elements of a head that are copied at once: one row of a tile's face."""
CHUNK = 32
"""Positions of a chunk where nothing says."""


def split_heads(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Tiles of the fused projection sorted by head; also the way back."""
    largest = max((op.first, op.out), key=lambda t: t.nbytes)
    piece = per_core(tile_rows(op.first) if op.code.startswith("Nlp") else tile_rows(op.out), cores)
    width = tiles(largest) / max(1, tile_rows(op.first) if op.code.startswith("Nlp") else tile_rows(op.out))
    count = piece * width
    return {
        **memory(chip, (op.first, op.first.nbytes), (op.out, op.first.nbytes)),
        "tile": count,
        "byte": count * tile_bytes(op.first),
    }


def decode_heads(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    size = told_number(op, "head_dim") or op.out.shape[-1]
    heads = told_number(op, "num_q_heads") + 2 * told_number(op, "num_kv_heads")
    heads = heads or max(1, op.first.shape[-1] // max(1, size))
    parts = heads * size / PART
    dram = in_dram(op.first)
    return {
        "head": 0.0 if dram else float(heads),
        "dram_head": float(heads) if dram else 0.0,
        "head_part": parts,
    }


def merge_heads(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    users = logical_in(op)[1] if len(logical_in(op)) > 3 else 1
    return {"head_part": max(1, users) * op.first.shape[-1] / PART, "head": 1.0}


def update_cache(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """One row of each user written into tiles that are read, changed and written back."""
    cache = op.first
    heads = cache.shape[1] if len(cache.shape) > 3 else 1
    fused = 1
    wide = cache.shape[-1] / TILE
    update = op.inputs[1] if len(op.inputs) > 1 else cache
    users = max(1, update.shape[1] if len(update.shape) > 3 else 1)
    kilobytes = users * heads * cache.shape[-1] * TILE * DTYPE_BYTES[cache.dtype] / 1024
    return {"cache_head": float(fused * heads), "cache_tile": heads * wide, "user_kilobyte": kilobytes}


def fill_cache(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    update = op.inputs[1] if len(op.inputs) > 1 else op.first
    piece = per_core(tiles(update), cores)
    lines = per_core(tile_rows(update), cores)
    return {**memory(chip, (update, update.nbytes), (op.first, update.nbytes)), "local_tile": piece, "line": lines}


def rotary(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    lines = per_core(tile_rows(source), cores)
    width = last_two(source.padded_shape)[1] // TILE
    token = attribute(op, "token_idx") != ""
    local = sharded(source) and not token
    length = max(1, last_two(source.padded_shape)[0] // TILE)
    crowd = cores / per_core(length, cores)
    return {
        **memory(chip, (source, source.nbytes), (op.out, op.out.nbytes)),
        "line": lines,
        "rotated_tile": 0.0 if local or token else lines * width,
        "token_tile": lines * width if token else 0.0,
        "local_rotated_tile": lines * width if local else 0.0,
        "crowded_tile": 0.0 if local else lines * width * crowd,
        "fp32_tile": lines * width if op.param("fp32") else 0.0,
    }


def attention(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Chunks of queries shared out over cores, each against the chunks of keys that it may see."""
    q = op.first
    k = op.inputs[1] if len(op.inputs) > 1 else q
    batch, heads = (math.prod(q.shape[:-3]) or 1, q.shape[-3] if len(q.shape) > 2 else 1)
    length, size = last_two(q.shape)
    seen = last_two(k.shape)[0]
    causal = attribute(op, "is_causal") == "true" or bool(op.param("causal"))
    window = told_number(op, "sliding_window_size")
    q_chunk = _chunk(op, "q_chunk_size", length)
    k_chunk = _chunk(op, "k_chunk_size", seen)
    blocks = batch * heads * -(-length // q_chunk)
    share = per_core(blocks, cores)
    reach = float(-(-seen // k_chunk))
    if window:
        reach = min(reach, -(-window // k_chunk) + 1.0)
    if causal and length == seen and not (window and window < length):
        reach = (reach + 1) / 2 if -(-length // q_chunk) > 1 else reach
    q_tiles, k_tiles, wide = -(-q_chunk // TILE), -(-k_chunk // TILE), -(-size // TILE)
    scores = share * reach * q_tiles * k_tiles
    return {
        **all_bytes(op, chip),
        "line": share,
        "chunk_pair": share * reach,
        "score_tile": scores,
        "key_tile": share * reach * k_tiles * wide * 2,
        "product_phase": scores * wide * 2 * 16 * PHASES[op.fidelity],
        "tile_product": scores * wide * 2,
        "windowed": 1.0 if window else 0.0,
    }


def _chunk(op: DeviceOp, name: str, length: int) -> int:
    size = told_number(op, name) or CHUNK
    return max(TILE, min(size, -(-length // TILE) * TILE))


def decode_attention(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """One query of each user against its cache: cores share a head and merge their parts. How much of the cache is
    filled a call may tell and no table does; there its capacity is taken, or the window."""
    q, k = op.first, op.inputs[1] if len(op.inputs) > 1 else op.first
    users = q.shape[1] if len(q.shape) > 3 else 1
    heads = k.shape[1] if len(k.shape) > 3 else 1
    size = k.shape[-1]
    tables = [t for t in op.inputs[3:] if t.dtype == "int32" and t.shape[-1] >= 1]
    paged = attribute(op, "paged_attention") == "true" and len(tables) > 1
    capacity = k.shape[-2] * (tables[-1].shape[-1] if paged else 1)
    window = told_number(op, "sliding_window_size")
    seen = op.param("seen") or (min(capacity, window) if window else capacity)
    chunk = told_number(op, "k_chunk_size") or CHUNK
    steps = max(1, -(-seen // max(TILE, chunk)))
    share = max(1, min(cores // max(1, users * heads), steps, 16))
    mine = -(-users * heads // max(1, cores // share)) * -(-steps // share)
    wide = -(-size // TILE)
    key_tiles = mine * max(TILE, chunk) / TILE * wide * 2
    read = 2.0 * users * heads * seen * size * DTYPE_BYTES[k.dtype]
    return {
        **memory(chip, (k, read)),
        "line": float(-(-users * heads // cores)),
        "chunk_pair": float(mine),
        "key_tile": key_tiles,
        "cores_per_head": float(share),
        "windowed": 1.0 if window else 0.0,
        "head_part": q.shape[-2] * size / PART / 32,
    }
