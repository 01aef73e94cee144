"""What of a device operation costs time: bytes through DRAM, and pages, tiles, rows and bytes of its busiest core."""

from __future__ import annotations

import math

from proveout.chip.device_op import DeviceOp, rows, tile_rows, tiles
from proveout.chip.matmul import Product, blocks_for
from proveout.types import TILE, DeviceSpec, TensorSpec

Features = dict[str, float]
GROUPS = 32
"""Groups of a group norm: not in the tables, 32 in the models they come from."""

GUESSES: dict[str, float] = {
    "launch": 1.5,
    "dram": 1.4,
    # a tile or a row that one core fetches over the network, waits for and sends on: round trips of some hundred cycles
    "tile": 500.0,
    "row": 300.0,
    "row_byte": 0.1,
    "broadcast_tile": 500.0,
    "block_tile": 100.0,
    "in0_tile": 250.0,
    "in1_tile": 100.0,
    "own_in1_tile": 250.0,
    "out_tile": 250.0,
    "weight_tile": 50.0,
    "multicast_tile": 50.0,
    # what stays in the core's L1: unpack, work, pack; copies at 16 to 32 bytes a cycle
    "local_tile": 100.0,
    "l1_byte": 0.05,
    "tile_row": 200.0,
    "gathered_tile": 50.0,
    "gathered_row": 2.0,
    "window_row": 20.0,
    "added_kilobyte": 2.0,
    "added_byte": 0.05,
    # tiles taken apart row by row, bytes copied by the core's own processor
    "regrouped_tile": 3000.0,
    "copied_byte": 10.0,
    # arithmetic, against the engine's rate
    "math": 1.1,
    "engine": 2.0,
    "tile_product": 3.0,
    "batch": 1.0,
    "group": 5000.0,
    "block_group": 5000.0,
    "group_row": 300.0,
}
"""Cost of each feature before any table is looked at: thousands of cycles of launch, times of the peak DRAM rate, and
cycles. Where no table says otherwise these are the model."""


def product_of(op: DeviceOp) -> Product:
    """The matrix product of a matmul, in tiles; K follows from its arithmetic, whatever is transposed."""
    a, b = op.inputs[:2]
    shape = op.out.padded_shape
    batch = math.prod(b.shape[:-2])
    k = round(op.work.ops / (2 * math.prod(shape))) if math.prod(shape) else TILE
    m = math.prod(shape[:-1]) // batch
    return Product(
        m=max(1, m // TILE),
        k=max(1, -(-k // TILE)),
        n=max(1, shape[-1] // TILE),
        batch=batch,
        in0=a.dtype,
        in1=b.dtype,
        out=op.out.dtype,
        phases=op.phases,
        in0_l1=a.memory.buffer == "l1",
        in1_l1=b.memory.buffer == "l1",
        out_l1=op.out.memory.buffer == "l1",
        sharded=_sharded(a),
    )


def _sharded(spec: TensorSpec) -> bool:
    return spec.memory.sharding != "interleaved"


def _in_dram(spec: TensorSpec) -> bool:
    return spec.memory.buffer == "dram"


def _per_core(count: float, cores: int) -> float:
    return -(-count // cores)


def _columns(spec: TensorSpec, cores: int, chip: DeviceSpec) -> int:
    """Into how many columns of cores a sharded tensor is cut. Tables do not say: of a block-sharded one, the most that
    the grid has and that divide its cores."""
    if spec.memory.sharding == "block":
        if spec.memory.shard is not None:
            return spec.memory.shard.grid[0]
        return max(c for c in range(1, min(cores, chip.grid[0]) + 1) if cores % c == 0)
    return cores if spec.memory.sharding == "width" else 1


def _fragments(spec: TensorSpec, cores: int, chip: DeviceSpec) -> float:
    """Pieces of rows a core holds of a sharded row-major tensor."""
    return rows(spec) * _columns(spec, cores, chip) / cores


def _dram(bytes_moved: float, chip: DeviceSpec) -> float:
    return bytes_moved / chip.dram_gb_s


def elementwise(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    tensors = (*op.inputs, op.out)
    piece = _per_core(tiles(op.out), cores)
    spread = any(not _sharded(t) or _uneven(t, cores) for t in tensors)
    smaller = any(tiles(t) < tiles(op.out) for t in op.inputs)
    return {
        "dram": _dram(op.dram_bytes, chip),
        "tile": piece if spread else 0.0,
        "local_tile": 0.0 if spread else piece,
        "broadcast_tile": piece if smaller else 0.0,
    }


def _uneven(spec: TensorSpec, cores: int) -> bool:
    """Unevenly cut shards take the interleaved way through the kernel."""
    lines = tile_rows(spec)
    return spec.memory.sharding == "height" and lines % max(1, -(-lines // cores)) != 0


def unary(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    piece = _per_core(tiles(op.out), cores)
    spread = not (_sharded(op.first) and _sharded(op.out))
    return {
        "dram": _dram(op.first.nbytes * _in_dram(op.first) + op.out.nbytes * _in_dram(op.out), chip),
        "tile": piece if spread else 0.0,
        "local_tile": 0.0 if spread else piece,
    }


def copied(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    return {
        "dram": _dram(op.first.nbytes * _in_dram(op.first) + op.out.nbytes * _in_dram(op.out), chip),
        "l1_byte": source.nbytes / cores if _sharded(source) else 0.0,
        "tile": _per_core(tiles(out), cores) if out.layout == "tile" and not _sharded(source) else 0.0,
        "row": _per_core(rows(source), cores) if source.layout == "row_major" and not _sharded(source) else 0.0,
    }


def tilize(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    spread = not _sharded(source)
    return {
        "dram": _dram(op.dram_bytes, chip),
        "local_tile": tiles(op.out) / cores,
        "row": _per_core(rows(source), cores) if spread else 0.0,
        "row_byte": source.nbytes / cores if spread else 0.0,
    }


def untilize(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    return {
        "dram": _dram(op.dram_bytes, chip),
        "local_tile": tiles(source) / cores,
        "tile": 0.0 if _sharded(source) else _per_core(tiles(source), cores),
        "row": 0.0 if _sharded(out) else _per_core(rows(out), cores),
    }


def to_sharded(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    moved = min(source.nbytes, out.nbytes)
    tiled = source.layout == "tile"
    return {
        "dram": _dram(moved, chip) if _in_dram(source) else 0.0,
        "tile": _per_core(tiles(out), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _fragments(out, cores, chip),
        "row_byte": 0.0 if tiled else moved / cores,
    }


def from_sharded(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    tiled = source.layout == "tile"
    return {
        "dram": _dram(source.nbytes, chip) if _in_dram(op.out) else 0.0,
        "tile": _per_core(tiles(source), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _fragments(source, cores, chip),
    }


def slice_(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    out = op.out
    tiled = out.layout == "tile"
    return {
        "dram": _dram(out.nbytes * (_in_dram(op.first) + _in_dram(out)), chip),
        "tile": _per_core(tiles(out), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _per_core(rows(out), cores),
        "row_byte": 0.0 if tiled else out.nbytes / cores,
    }


def slice_write(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    tiled = op.out.layout == "tile"
    return {
        "dram": _dram(source.nbytes, chip),
        "tile": _per_core(tiles(source), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _fragments(source, cores, chip),
        "row_byte": 0.0 if tiled else source.nbytes / cores,
    }


def padded_slice(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = source.layout == "tile"
    piece = tiles(out) / cores
    return {
        "dram": _dram(out.nbytes * source.nbytes / max(1, math.prod(source.padded_shape)) / 2, chip),
        "local_tile": piece if tiled else 0.0,
        "row": 0.0 if tiled else _fragments(out, cores, chip),
        "block_tile": piece if out.memory.sharding == "block" else 0.0,
    }


def concat(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    out = op.out
    tiled, spread = out.layout == "tile", not _sharded(out)
    return {
        "dram": _dram(op.dram_bytes, chip),
        "tile": _per_core(tiles(out), cores) if tiled and spread else 0.0,
        "row": _per_core(sum(rows(t) for t in op.inputs), cores) if not tiled and spread else 0.0,
        "l1_byte": 0.0 if spread else out.nbytes / cores,
    }


def reshape(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = out.layout == "tile"
    return {
        "regrouped_tile": _per_core(tiles(source), cores) + _per_core(tiles(out), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _per_core(max(rows(source), rows(out)), cores),
        "copied_byte": 0.0 if tiled else out.nbytes / cores,
    }


def transpose(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    piece = _per_core(tiles(op.out), cores)
    return {
        "dram": _dram(op.dram_bytes, chip),
        "tile": piece,
        "regrouped_tile": piece if tiles(op.first) != tiles(op.out) else 0.0,
    }


def permute(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    tiled = out.layout == "tile"
    return {
        "tile": _per_core(tiles(source), cores) if tiled else 0.0,
        "regrouped_tile": _per_core(tiles(out), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _per_core(max(rows(source), rows(out)), cores),
    }


def halo(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    cut = _columns(source, cores, chip)
    tiled = source.layout == "tile"
    added = 2.0 * max(0, out.numel - source.numel)
    return {
        "tile_row": tile_rows(source) * cut / cores if tiled else 0.0,
        "local_tile": tiles(source) / cores if tiled else 0.0,
        "added_kilobyte": added / 1000 if cut == 1 else 0.0,
        "added_byte": added / cores if cut > 1 else 0.0,
    }


def conv(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    cut = _columns(source, cores, chip)
    k = op.work.ops / (2 * max(1, out.numel))
    m = _per_core(-(-rows(out) // TILE), max(1, cores // cut))
    n = _per_core(-(-out.shape[-1] // TILE), cut)
    depth = -(-k // TILE)
    return {
        "math": m * n * depth * 16 * op.phases,
        "gathered_tile": m * depth / cut,
        "gathered_row": m * TILE * (k / source.shape[-1]) / cut,
        "weight_tile": depth * n,
        "multicast_tile": m * depth if cut > 1 else 0.0,
        "local_tile": m * n,
    }


def pool(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    window = op.work.ops / max(1, op.out.numel)
    return {"window_row": _per_core(rows(op.out) * _columns(op.out, cores, chip), cores) * window}


def group_norm(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source = op.first
    cut = _columns(source, cores, chip)
    return {
        "group": 0.0 if cut > 1 else GROUPS,
        "block_group": GROUPS / cut if cut > 1 else 0.0,
        "group_row": GROUPS / cut * -(-rows(source) // TILE) * cut / cores,
        "tile": 0.0 if _sharded(source) else tiles(source) / cores,
    }


def engine(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Families without a table of their own: bytes, tiles and the engine's own rate."""
    out = op.out
    biggest = max((*op.inputs, out), key=lambda t: t.nbytes)
    tiled = biggest.layout == "tile"
    return {
        "dram": _dram(op.dram_bytes, chip),
        "tile": _per_core(tiles(biggest), cores) if tiled else 0.0,
        "row": 0.0 if tiled else _per_core(rows(biggest), cores),
        "engine": op.work.ops / op.work.rate * op.phases / cores,
    }


def lookup(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    return {"dram": _dram(2 * op.out.nbytes, chip), "row": _per_core(rows(op.out), cores)}


def narrow_matmul(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Products outside the wide two-dimensional multicast: latency of tiles read one by one."""
    product = product_of(op)
    blocks = blocks_for(product, chip, cores=op.cores)
    batch, wide = product.batch, blocks.kind == "1d wide"
    own = batch * blocks.m * product.k
    other = batch * blocks.n * product.k
    return {
        "dram": _dram(op.dram_bytes, chip),
        "in0_tile": 0.0 if product.sharded or wide else own,
        "in1_tile": 0.0 if wide else other,
        "own_in1_tile": other if wide else 0.0,
        "out_tile": 0.0 if product.out_l1 else batch * blocks.m * blocks.n,
        "math": batch * blocks.m * blocks.n * product.k * 16 * product.phases,
        "tile_product": batch * blocks.m * blocks.n * product.k,
        "batch": 1000.0 * batch if batch > 1 else 0.0,
    }
