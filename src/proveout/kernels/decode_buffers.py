"""Circular buffers of what decoders call: formulas read off real ttnn's programs, as those of `circular` are."""

from __future__ import annotations

from proveout.chip.device_op import DeviceOp
from proveout.chip.matmul import tile_bytes
from proveout.types import TILE, DeviceSpec

HALF = 2048
"""Bytes of a bfloat16 tile."""
LARGEST_CHUNK = 16
"""Tiles of a cache that attention takes at once; pages are taken one tile after the other."""
SPREAD = (2048, 32768)
"""Rows, a power of two long, that top-k cuts over several cores."""


def attention(op: DeviceOp, chip: DeviceSpec) -> int:
    """One token of each user: queries, chunks of keys and values, scores, nine statistics, six results on the way, and
    what the other cores of a head send."""
    q, k, v = op.inputs[:3]
    users, heads = q.shape[1], q.shape[2]
    tile = HALF // 2 if heads <= TILE // 2 else HALF  # few heads are half a tile
    rows, chunk = _tiles(heads), 1 if op.param("pages") else _chunk(k.shape[2])
    query, result = (rows * _tiles(x.shape[-1]) * tile for x in (q, v))
    scores, statistic = rows * chunk * tile, rows * tile
    caches = sum(2 * chunk * _tiles(x.shape[-1]) * round(tile_bytes(x.dtype)) for x in (k, v))
    held = 2 * query + caches + (3 if op.param("window") else 2) * scores + 11 * statistic + 4 * result
    held += 2 * tile + HALF + 2 * _aligned(4 * users) + result // tile * HALF
    if pages := op.param("pages"):
        return held + _aligned(4 * pages)
    others = max(1, chip.cores // users // k.shape[1]) - 1
    return held + others * (result + 2 * statistic)


def update_cache(op: DeviceOp, chip: DeviceSpec) -> int:
    cache, new = op.inputs[:2]
    wide, tile = _tiles(cache.shape[-1]), round(tile_bytes(cache.dtype))
    return ((6 + new.shape[1]) * wide + 2) * tile + sum(4 * t.shape[-1] for t in op.inputs[2:] if len(t.shape) == 2)


def fill_cache(op: DeviceOp, chip: DeviceSpec) -> int:
    cache, table = op.inputs[0], op.inputs[-1]
    return 2 * _tiles(cache.shape[-1]) * round(tile_bytes(cache.dtype)) + _aligned(4 * table.shape[-1])


def fill_user(op: DeviceOp, chip: DeviceSpec) -> int:
    return 2 * round(tile_bytes(op.inputs[0].dtype))


def none(op: DeviceOp, chip: DeviceSpec) -> int:
    """Results are written where they lie."""
    return 0


def rotary(op: DeviceOp, chip: DeviceSpec) -> int:
    """Of one token of each user, shards are read and written where they lie."""
    wide, tile = _tiles(op.out.shape[-1]), round(tile_bytes(op.out.dtype))
    if op.first.memory.sharding == "height":
        return 3 * wide * tile + HALF
    return 10 * tile if wide == 1 else (10 * wide + 4) * tile


def join_heads(op: DeviceOp, chip: DeviceSpec) -> int:
    _, heads, _, size = op.first.shape
    return 2 * heads * _tiles(size) * round(tile_bytes(op.out.dtype))


def top_k(op: DeviceOp, chip: DeviceSpec) -> int:
    """A core sorts a row of tiles; long rows of a power of two go over several, which hold them whole."""
    length, blocks = op.first.shape[-1], _tiles(op.out.shape[-1])
    if SPREAD[0] <= length <= SPREAD[1] and not length & (length - 1):
        return 78 * HALF + 8 * length
    many = length > 1 << 16  # places in it take 32 bits
    return (27 + 9 * (blocks - 1) if many else 18) * HALF


def _chunk(length: int) -> int:
    """The most tiles, a power of two, that the cache is a multiple of."""
    tiles = _tiles(length)
    return min(LARGEST_CHUNK, tiles & -tiles)


def _tiles(size: int) -> int:
    return -(-size // TILE)


def _aligned(size: int) -> int:
    return -(-size // 32) * 32
