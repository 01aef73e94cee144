"""Circular buffers: what L1 a device operation holds on each core beside its tensors, as ttnn builds its program.

Integer formulas read off real ttnn's programs, one per family; docs/reference/ttnn-conformance.md says how well they
hold. A tile-sized page is double-buffered unless a formula says otherwise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from proveout.chip.device_op import Buffers, DeviceOp, L1Use, tile_rows
from proveout.chip.features import product_of
from proveout.chip.fidelity import BLOCK_FLOATS
from proveout.chip.matmul import tile_bytes
from proveout.chip.memory import bytes_per_bank
from proveout.chip.program_config import ProgramConfig, program_config
from proveout.chip.program_config import circular_bytes as matmul_bytes
from proveout.kernels.device_ops import SHARDED
from proveout.kernels.windows import Window, conv_shards, pool_shards
from proveout.types import TILE, DeviceSpec, TensorSpec

FULL = 4096
HALF = 2048
"""Bytes of a float32 and of a bfloat16 tile: what kernels keep statistics and partial results in."""


@functools.lru_cache(maxsize=65536)
def held_by(op: DeviceOp, chip: DeviceSpec) -> L1Use:
    """What one device operation holds: by its own rule, else by its family's, else two pages for every operand and
    result."""
    rule = op.buffers or RULES.get(op.family, held_pages)
    held = rule(op, chip)
    return held if isinstance(held, L1Use) else L1Use(held)


def call_peak(ops: Sequence[DeviceOp], results: Sequence[TensorSpec], chip: DeviceSpec) -> int:
    """Peak L1 per core of one call: its results, its intermediate tensors and circular buffers. As ttnn tallies it,
    the buffers of one program stay until the next one's are laid out, after its result has been allocated."""
    live: list[TensorSpec] = []
    peak = before = 0
    for index, op in enumerate(ops):
        live += [t for t in op.outputs if t.memory.buffer == "l1" and not _same(t, op.inputs)]
        tensors = sum(bytes_per_bank(t, chip) for t in live if t.memory != SHARDED)
        held = held_by(op, chip)
        peak = max(peak, tensors + before, tensors + held.circular + held.tensors)
        needed = [t for later in ops[index + 1 :] for t in later.inputs] + list(results)
        live = [t for t in live if _same(t, needed)]
        before = held.circular
    return peak


def held_before_results(ops: Sequence[DeviceOp], chip: DeviceSpec) -> list[int]:
    """L1 per core of each tensor of a call's own that is there when its last operation allocates the results: they lie
    behind it."""
    *earlier, last = ops
    made = [t for op in earlier for t in op.outputs if t.memory.buffer == "l1" and _same(t, last.inputs)]
    sizes = [bytes_per_bank(t, chip) for t in made if not _same(t, last.outputs)]
    held = held_by(last, chip)
    return [*sizes, *(held.each or filter(None, [held.tensors]))]


def _same(tensor: TensorSpec, others: Sequence[TensorSpec]) -> bool:
    """Whether it is one of these itself: others may have its spec."""
    return any(tensor is other for other in others)


def held_pages(op: DeviceOp, chip: DeviceSpec) -> int:
    return sum(2 * _part(t) for t in (*op.inputs, *op.outputs))


def _part(spec: TensorSpec) -> int:
    """A page, or as much of a long row as a tile holds."""
    return min(_page(spec), _tile(spec))


def _page(spec: TensorSpec) -> int:
    """A page as L1 holds it."""
    return -(-spec.page_bytes // 16) * 16


def _tile(spec: TensorSpec) -> int:
    return round(tile_bytes(spec.dtype))


def _wide(spec: TensorSpec) -> int:
    """Tiles in a row of tiles."""
    return -(-spec.padded_shape[-1] // TILE)


def _binary(op: DeviceOp, chip: DeviceSpec) -> int:
    """An operand that is stretched along a row or column of tiles goes through a buffer of its own; a number is one
    tile."""
    number = _tile(op.first) if len(op.inputs) == 1 else 0
    stretched = any(_matrix(t) != _matrix(op.out) for t in op.inputs)
    return held_pages(op, chip) + number + (2 * _part(op.inputs[-1]) * (len(op.inputs) - 1) if stretched else 0)


def _matrix(spec: TensorSpec) -> tuple[int, ...]:
    return (1, 1, *spec.shape)[-2:]


def _matmul(op: DeviceOp, chip: DeviceSpec) -> int:
    shape = op.out.padded_shape
    product = replace(product_of(op), m=max(1, shape[-2] // TILE))
    bias, told = op.param("bias"), op.param("config")
    if told is not None and told.kind in ("1d", "2d") and told.per_core_m and told.per_core_n and told.block_w:
        m, n = told.per_core_m, told.per_core_n
        config = ProgramConfig(told.kind, m, n, told.block_w, told.out_h or m, told.out_w or n)
        return matmul_bytes(product_of(op), config, bias)
    return matmul_bytes(product, program_config(product, chip, bias), bias, math.prod(shape[:-2]))


LARGEST_ROW = 112
"""Tiles of a row that a norm holds at once where the whole row does not fit: halved for weights, for float32 operands
and for float32 statistics."""
ROW_SHARE = 0.9
"""Of L1, for a norm's or a softmax's whole rows."""


def _norm(op: DeviceOp, chip: DeviceSpec) -> int:
    """Layer norms keep their statistics in float32 and work on 4 tiles at a time, RMS norms in bfloat16 on 8."""
    rms, weights = op.param("rms", False), op.inputs[1:]
    block, partial = (8, HALF) if rms else (4, FULL)
    width = -(-_wide(op.first) // block) * block
    scalars = 6 * HALF if rms else 6 * FULL
    rest = scalars + 2 * block * _tile(op.out) + (block if rms else 2 * block) * partial
    rest += 2 * block * partial if weights else 0

    def total(row: int, copies: int) -> int:
        return rest + row * (_tile(op.first) + copies * partial + sum(map(_tile, weights)))

    whole = total(width, 1 if rms else 2)
    halvings = [bool(weights), op.first.dtype == "float32", not rms]
    part = LARGEST_ROW // 2 ** sum(halvings)
    if whole <= ROW_SHARE * chip.l1_allocatable or width <= part:
        return whole
    return total(part, 2) + partial


LARGEST_SOFTMAX_ROW = 80


def _softmax(op: DeviceOp, chip: DeviceSpec) -> int:
    """Over rows: the row, its exponentials, and once more those where the last tile is ragged and has to be masked."""
    source, dim = op.first, op.param("dim", -1)
    exponent = FULL if source.dtype == "float32" else HALF
    if dim % len(source.shape) != len(source.shape) - 1:
        return 16 * exponent
    wide = _wide(source)
    block = next((n for n in (4, 3) if wide % n == 0), min(4, wide))
    width = -(-wide // block) * block
    ragged, mask = source.shape[-1] % TILE != 0, op.inputs[1:]
    rest = 2 * block * _tile(op.out) + 3 * HALF + 2 * FULL if exponent == HALF else 2 * block * _tile(op.out) + 18432
    rest += 2 * block * _tile(mask[0]) + HALF + 2 * width * exponent if mask else 0
    whole = rest + (2 * block if ragged else width) * _tile(source) + width * exponent * (2 if ragged else 1)
    if whole <= ROW_SHARE * chip.l1_allocatable or width <= LARGEST_SOFTMAX_ROW:
        return whole
    return rest + LARGEST_SOFTMAX_ROW * (_tile(source) + 2 * exponent) + 3 * exponent


def _reduce(op: DeviceOp, chip: DeviceSpec) -> int:
    """4 tiles at a time where every core has as many tiles of rows, or as many columns, to go through; 8 over leading
    dimensions."""
    page, kind = _page(op.first), op.param("over", "w")
    if kind == "n":
        ahead = min(8, op.param("size", 8))
    else:
        pieces = tile_rows(op.first) if kind == "w" else math.prod(op.first.shape[:-2]) * _wide(op.first)
        share = max(1, pieces // chip.cores) * (_wide(op.first) if kind == "w" else 1)
        ahead = 4 if share >= 4 else 1
    scaler = FULL if op.first.dtype == "float32" else HALF
    return 2 * ahead * page + scaler + 2 * _page(op.out)


def argmax(op: DeviceOp, chip: DeviceSpec) -> int:
    """A page of the operand and a row of positions."""
    return min(_page(op.first), 2 * FULL) + 4 * (op.first.shape[-2] if len(op.first.shape) > 1 else 1)


def fill_pad(op: DeviceOp, chip: DeviceSpec) -> int:
    """One tile more where both rows and columns are padded."""
    both = all(n % TILE for n in op.first.shape[-2:])
    return (6 if both else 5) * _page(op.first)


def _transpose(op: DeviceOp, chip: DeviceSpec) -> int:
    """Rows with columns tile by tile; other dimensions by way of one buffer, and a row of faces for their padding."""
    if "h" in op.param("swaps", "hw") and "w" in op.param("swaps", "hw"):
        return held_pages(op, chip)
    ragged = "c" in op.param("swaps", "hw") and op.first.shape[-3] % TILE
    return 2 * _page(op.first) + (512 if ragged else 0)


def _permute(op: DeviceOp, chip: DeviceSpec) -> int:
    """The further the last dimension comes from, the more buffers a tile goes through; rows whose last dimension moves
    are made tiles on the way."""
    if op.first.layout == "row_major" and op.param("last", -1) % len(op.first.shape) != len(op.first.shape) - 1:
        return 6 * _tile(op.first)
    page, rank = max(_page(op.first), _page(op.out)), len(op.first.shape)
    return 2 * page * {rank - 1: 1, rank - 2: 2}.get(op.param("last", rank - 1) % rank, 3)


def _two_pages(op: DeviceOp, chip: DeviceSpec) -> int:
    return 2 * _page(op.out)


def _reshape(op: DeviceOp, chip: DeviceSpec) -> int:
    """A page in and one out, and the map between them."""
    return _part(op.first) + _part(op.out) + 64


def _concat(op: DeviceOp, chip: DeviceSpec) -> int:
    """Whole tiles are copied; rows with ragged ends are taken out of their tiles and put back, and moved to where
    they are not the last dimension where they are too long for that."""
    along = op.param("dim", 0) % len(op.out.shape) == len(op.out.shape) - 1
    if op.out.layout == "row_major" or not along or not any(t.shape[-1] % TILE for t in op.inputs):
        return 2 * max(map(_page, op.inputs))
    whole = 3 * _tile(op.out) * (sum(map(_wide, op.inputs)) + _wide(op.out))
    return whole if whole <= chip.l1_allocatable else 24 * _tile(op.out)


def _tilize(op: DeviceOp, chip: DeviceSpec) -> int:
    """Rows of tiles, as far as they fit; wide ones are cut into squares that keep the cores busy where there are too
    few rows, or where they are too long."""
    tiled = op.out if op.out.layout == "tile" else op.first
    rows, wide, pair = tile_rows(tiled), _wide(tiled), _tile(op.first) + _tile(op.out)
    fitting = max(1, chip.l1_allocatable // pair)
    if wide > fitting or (wide > TILE and rows < chip.cores):
        squares = (s for s in range(1, wide + 1) if -(-rows // s) * -(-wide // s) < chip.cores)
        wide = next(squares, wide)
    return min(wide, fitting) * pair


def _untilize(op: DeviceOp, chip: DeviceSpec) -> int:
    """Whole tiles: each row is cut into as many equal parts as there are cores for it; float32 ones are not."""
    if op.first.dtype == "float32":
        held = _tilize(op, chip)
        return 2 * held if tile_rows(op.first) > chip.cores and 4 * held <= chip.l1_allocatable else held
    rows, wide = tile_rows(op.first), _wide(op.first)
    parts = max((d for d in range(1, max(1, chip.cores // rows) + 1) if wide % d == 0), default=1)
    held = 2 * (wide // parts) * (_tile(op.first) + _tile(op.out))
    return held if held <= chip.l1_allocatable else _tilize(op, chip)


def _embedding(op: DeviceOp, chip: DeviceSpec) -> int:
    """Rows of tiles, in halves, quarters, … where they would take more than half of L1."""
    if op.out.layout == "row_major":
        return 2 * _page(op.out)
    wide = _wide(op.out)
    while 4 * wide * _tile(op.out) > chip.l1_allocatable // 2 and wide > 1:
        wide = -(-wide // 2)
    return 4 * wide * _tile(op.out) + 128


def _attention(op: DeviceOp, chip: DeviceSpec) -> int:
    """Chunks of 32 queries and 32 keys. Queries are read ahead where a core takes several chunks, which pairs of them
    under a causal mask always are."""
    q, k, mask = op.inputs[0], op.inputs[1], op.inputs[3:]
    depth, causal = _wide(q), op.param("causal", True)
    batch, heads = min(q.shape[0], chip.cores), q.shape[1]
    heads = min(chip.cores // batch, heads)
    chunks = -(-q.shape[-2] // TILE)
    several = chunks > min(chip.cores // (batch * heads), chunks) or (causal and chunks > 1 and chunks % 2 == 0)
    masked = causal or bool(mask) or k.shape[-2] % TILE != 0
    page = _tile(q)
    read = ((2 if several else 1) + 4) * depth * page + (2 * HALF if masked else 0)
    return read + 9 * HALF + 2 * depth * HALF + 2 * depth * _tile(op.out)


def _conv(op: DeviceOp, chip: DeviceSpec) -> L1Use:
    """The window's input and the output as shards, blocks of activations (as read and as tiles), weights and bias."""
    bias = round(tile_bytes(op.param("bias"))) if op.param("bias") else 0

    def held(window: Window) -> L1Use:
        shards = conv_shards(window, op.param("weights"), chip, op.param("shards"))
        circular = 2 * shards.out_rows * shards.depth * HALF + shards.weight_bytes + shards.out_columns * bias + 64
        return L1Use(circular, shards.haloed_bytes + shards.out_rows * shards.out_columns * _tile(op.out))

    return _in_slices(op, chip, held)


def _in_slices(op: DeviceOp, chip: DeviceSpec, held: Callable[[Window], L1Use]) -> L1Use:
    """Whole, or in as few slices as fit."""
    window: Window = op.param("window")
    sizes = (held(window.slice(count)) for count in range(1, window.out[0] + 1))
    return next((h for h in sizes if h.circular + h.tensors <= chip.l1_allocatable), held(window))


POOL_BYTES = 7 * HALF
"""Two tiles of windows, a scalar, two of results, twice."""


def _pool(op: DeviceOp, chip: DeviceSpec) -> L1Use:
    def held(window: Window) -> L1Use:
        shards = pool_shards(window, chip)
        return L1Use(POOL_BYTES, shards.haloed_bytes + shards.out_bytes)

    return _in_slices(op, chip, held)


def _halo(op: DeviceOp, chip: DeviceSpec) -> L1Use:
    """The input as shards, and with what they borrow from each other."""

    def held(window: Window) -> L1Use:
        if window.pools:
            shards = pool_shards(window, chip)
        else:
            shards = conv_shards(window, op.param("weights"), chip, op.param("shards"))
        return L1Use(2 * shards.stick_bytes, shards.input_bytes + shards.haloed_bytes)

    return _in_slices(op, chip, held)


def _nothing(op: DeviceOp, chip: DeviceSpec) -> int:
    """Shards are filled and emptied in place."""
    return 0


def batch_norm(op: DeviceOp, chip: DeviceSpec) -> int:
    return 18 * _page(op.out)


def ternary(op: DeviceOp, chip: DeviceSpec) -> int:
    return 8 * _tile(op.out)


ROWS_PADDED = 32 << 10
"""What a pad of rows works through at once."""


def pad(op: DeviceOp, chip: DeviceSpec) -> int:
    return 4 * _tile(op.out) if op.out.layout == "tile" else ROWS_PADDED + 2 * _page(op.out)


def repeat(op: DeviceOp, chip: DeviceSpec) -> L1Use:
    """Whole tiles, or along rows and columns the rows: these are tiled at the end and lie where the result does."""
    pages = _two_pages(op, chip)
    if op.out.layout != "tile" or (1, 1, *op.first.shape)[-2:] == (1, 1, *op.out.shape)[-2:]:
        return L1Use(pages)
    dtype = "bfloat16" if op.out.dtype in BLOCK_FLOATS else op.out.dtype
    rows = replace(op.out, dtype=dtype, layout="row_major")
    return L1Use(pages, bytes_per_bank(rows, chip) if op.out.memory.buffer == "l1" else 0)


def heads(op: DeviceOp, chip: DeviceSpec) -> int:
    """Queries, keys and values one after the other; keys that are transposed go through buffers of their own."""
    return (12 if op.param("transposed") else 4) * _tile(op.out)


RULES: dict[str, Buffers] = {
    "matmul": _matmul,
    "binary": _binary,
    "layer norm": _norm,
    "softmax": _softmax,
    "reduce": _reduce,
    "transpose": _transpose,
    "permute": _permute,
    "slice": _two_pages,
    "copy": _two_pages,
    "reshape": _reshape,
    "concat": _concat,
    "tilize": _tilize,
    "tilize with padding": _tilize,
    "untilize": _untilize,
    "untilize with unpadding": _tilize,
    "embedding": _embedding,
    "attention": _attention,
    "conv": _conv,
    "pool": _pool,
    "halo": _halo,
    "interleaved to sharded": _nothing,
    "sharded to interleaved": _nothing,
    "reshard": _nothing,
}
"""By family; a kernel's row may give its device operation a rule of its own."""
