"""Matrix products by how they are cut: along one side, over a grid, on the DRAM banks' own cores, batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from proveout.chip.device_op import DeviceOp, tiles
from proveout.chip.fidelity import PHASES
from proveout.chip.forms.shared import Features, attribute, conflict, in_dram, memory, per_core, sharded, tile_bytes
from proveout.chip.matmul import NARROW, Blocks, Product
from proveout.chip.profile_text import ProductConfig
from proveout.chip.program_config import blocks_for
from proveout.types import TILE, DeviceSpec, TensorSpec

SPARSE = 6
"""Where a sparse product does not tell how many of its experts run, one in so many does."""
PARTIAL = 4


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
        sharded=a.memory.is_sharded,
    )


def grid_config(product: Product, columns: int, rows: int) -> ProductConfig:
    """How ttnn cuts a product over so many columns and rows of cores when it is told them and nothing else."""
    narrow = max(product.m, product.n) > NARROW * min(product.m, product.n) or 1 in (product.m, product.n)
    if narrow:
        wide = product.n >= product.m
        m = product.m if wide else -(-product.m // (columns * rows))
        n = -(-product.n // (columns * rows)) if wide else product.n
        return ProductConfig("1d", m, n, 2 - product.k % 2, grid=(columns, rows), mcast_in0=wide)
    step = product.k // columns if product.k % columns == 0 else 1
    return ProductConfig("2d", -(-product.m // rows), -(-product.n // columns), step, grid=(columns, rows))


def cores_told(op: DeviceOp, chip: DeviceSpec) -> int:
    """Cores that have work under a program config; 0 where it does not tell."""
    config: ProductConfig | None = op.param("config")
    if config is None or config.kind not in ("1d", "2d", "batched"):
        return 0
    product = product_of(op)
    most = config.grid[0] * config.grid[1] if config.gridded else chip.cores
    if config.kind == "batched":
        pieces = -(-product.batch * product.m // max(1, config.per_core_m))
        return max(1, min(chip.cores, most, pieces * -(-product.n // max(1, config.per_core_n))))
    if not (config.per_core_m and config.per_core_n):
        pieces = {"2d": product.m * product.n, "1d": product.n if config.mcast_in0 else product.m}[config.kind]
        return max(1, min(chip.cores, most, pieces)) if config.gridded else 0
    return max(1, min(chip.cores, most, -(-product.m // config.per_core_m) * -(-product.n // config.per_core_n)))


def cores_chosen(op: DeviceOp, chip: DeviceSpec) -> int:
    """Cores that ttnn takes by itself: of a batch whose rows lie in shards, those that hold them."""
    product, a = product_of(op), op.inputs[0]
    if product.batch > 1 and sharded(a) and not in_dram(a) and a.memory.shard is not None:
        return max(1, min(chip.cores, math.prod(a.memory.shard.grid)))
    return blocks_for(product, chip).cores


def told_blocks(op: DeviceOp, chip: DeviceSpec) -> Blocks:
    """The blocks of a two-dimensional program config, or those of ttnn's own choice."""
    product = product_of(op)
    config: ProductConfig | None = op.param("config")
    chosen = blocks_for(product, chip, cores=op.cores)
    if config is None or config.kind != "2d" or not (config.per_core_m and config.per_core_n and config.block_w):
        return chosen
    m, n = config.per_core_m, config.per_core_n
    high, wide = (-(-m // (config.out_h or m)), -(-n // (config.out_w or n)))
    return Blocks(m, n, config.block_w, high, wide, -(-product.m // m) * -(-product.n // n), "2d")


@dataclass(frozen=True)
class CoreWork:
    """What one core of a product does, in tiles, and how often all of it is repeated."""

    m: int
    n: int
    k: int
    step: int
    times: int
    rereads: int
    """How often the right factor is read."""
    wide: bool
    """Whether cores take columns and share the rows."""
    down: int = 1
    across: int = 1
    """Blocks of a core's output: the right factor comes again for each row of them, the left one for each column."""

    @property
    def steps(self) -> int:
        return self.down * self.across * -(-self.k // max(1, self.step))


def form_of(op: DeviceOp, chip: DeviceSpec) -> str:
    """Which family of products this one belongs to."""
    if op.code.startswith("SparseMatmul"):
        return "sparse product"
    if op.code.startswith("MinimalMatmul"):
        return "minimal product"
    config: ProductConfig | None = op.param("config")
    product = product_of(op)
    if config is not None:
        if config.kind == "height":
            return "height-sharded product"
        if config.kind == "dram":
            return "DRAM-sharded product"
        if config.kind in ("batched", "minimal"):
            return "batched product"
        if config.kind == "2d":
            return "2D product"
        if product.m == 1 and product.batch == 1 and config.fuse_batch:
            return "1D decode product"
        return "1D product" if product.batch == 1 else "batched product"
    b = op.inputs[1]
    if in_dram(b) and sharded(b) and product.m == 1:
        return "DRAM-sharded product"
    if product.batch > 1:
        return "batched product"
    blocks = blocks_for(product, chip, cores=op.cores)
    if blocks.kind == "2d":
        return "2D product"
    if blocks.kind == "tiles":
        return "batched product"
    return "1D decode product" if product.m == 1 else "1D product"


def cut_of(op: DeviceOp, chip: DeviceSpec, cores: int) -> CoreWork:
    """As its program config says, or as ttnn would choose."""
    product = product_of(op)
    config: ProductConfig | None = op.param("config")
    blocks = blocks_for(product, chip, cores=op.cores)
    m, n, step, wide = blocks.m, blocks.n, blocks.k, blocks.kind == "1d wide"
    if config is not None:
        columns, lines = config.grid if config.gridded else chip.grid
        if config.kind == "2d":
            m = config.per_core_m or -(-product.m // lines)
            n = config.per_core_n or -(-product.n // columns)
            wide = False
        elif config.kind == "1d":
            wide = config.mcast_in0
            m = config.per_core_m or (product.m if wide else -(-product.m // cores))
            n = config.per_core_n or (-(-product.n // cores) if wide else product.n)
        else:
            m, n = config.per_core_m or m, config.per_core_n or n
        step = config.block_w or step
    # A left factor whose leading dimensions are not fused into rows goes through the right one again for each.
    a = op.inputs[0]
    apart = math.prod(a.padded_shape[:-2]) if config is not None and not config.fuse_batch else 1
    times = max(1, product.batch, apart if product.batch == 1 else product.batch)
    rereads = apart if product.batch == 1 else 1
    if apart > 1 and product.batch == 1:
        m = min(m, max(1, a.padded_shape[-2] // TILE))
    m, n = max(1, m), max(1, n)
    down, across = (
        -(-m // config.out_h) if config and config.out_h else 1,
        -(-n // config.out_w) if config and config.out_w else 1,
    )
    return CoreWork(m, n, product.k, max(1, step), times, max(1, rereads), wide, down, across)


def fused(op: DeviceOp, count: float) -> Features:
    """An activation inside the kernel, on every output tile of the busiest core."""
    features: Features = {}
    for _, activation in op.param("fused", ()):
        name = (
            "fused_silu"
            if activation in ("SILU", "SIGMOID")
            else "fused_gelu"
            if activation == "GELU"
            else "fused_light"
        )
        features[name] = features.get(name, 0.0) + count
    return features


def _math(
    op: DeviceOp, m: float, n: float, k: float, steps: float, times: float = 1.0, blocks: float = 1.0
) -> Features:
    """`blocks` of the output are made one after another, each in its part of the steps."""
    count = times * m * n * k
    return {
        "product_phase": count * 16 * PHASES[op.fidelity],
        "tile_product": count,
        "fp32_product": count if op.param("fp32") else 0.0,
        "k_step": times * steps,
        "k_step_tile": times * steps * m * n / blocks,
    }


def _weights(op: DeviceOp) -> TensorSpec:
    return op.inputs[1]


def dram_sharded(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """The cores beside the DRAM banks read and compute; all others only hold."""
    product, cut = product_of(op), cut_of(op, chip, cores)
    n = per_core(product.n, chip.dram_banks)
    return {
        **memory(chip, (_weights(op), _weights(op).nbytes)),
        "bank_phase": product.m * n * product.k * 16.0 * PHASES[op.fidelity],
        "k_step_tile": float(cut.steps * product.m * n),
        "read_step": float(cut.steps),
        **fused(op, product.m * n),
    }


def one_dimensional(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    a, b, out = op.inputs[0], op.inputs[1], op.out
    cut = cut_of(op, chip, cores)
    moved = memory(chip, (b, b.nbytes * cut.rereads * cut.down), (a, a.nbytes * cut.across), (out, out.nbytes))
    local = sharded(a) and not in_dram(a) and not cut.wide
    tall = () if cut.wide else ((a, a.nbytes, cut.m * cut.k), (out, out.nbytes, cut.m * cut.n))
    return {
        **moved,
        "conflict": conflict(chip, *tall),
        **_math(op, cut.m, cut.n, cut.k, cut.steps, cut.times, cut.down * cut.across),
        "k_step": 0.0,
        "read_step": float(cut.times * cut.steps),
        "multicast_tile": float(cut.times * (cut.m * cut.across if cut.wide else cut.n * cut.down) * cut.k),
        "page": cut.times * cut.down * float(tiles(b)) if cut.wide else 0.0,
        "in0_tile": 0.0 if local or cut.wide else float(cut.times * cut.across * cut.m * cut.k),
        "dram_out_tile": float(cut.times * cut.m * cut.n) if in_dram(out) else 0.0,
        **fused(op, cut.times * cut.m * cut.n),
    }


def decode_1d(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    a, b, out = op.inputs[0], op.inputs[1], op.out
    cut = cut_of(op, chip, cores)
    return {
        **memory(chip, (b, b.nbytes), (out, out.nbytes if in_dram(out) else 0.0), (a, a.nbytes if in_dram(a) else 0.0)),
        "page": float(tiles(b)),
        "core_start": 0.0,
        **_math(op, cut.m, cut.n, cut.k, cut.steps),
        "k_step": 0.0,
        "read_step": float(cut.steps),
        "step_core": float(cut.steps * cores),
        "in1_tile": float(cut.n * cut.k),
        "in1_byte": cut.n * cut.k * tile_bytes(b),
        **fused(op, cut.m * cut.n),
    }


def two_dimensional(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    a, b, out = op.inputs[0], op.inputs[1], op.out
    cut = cut_of(op, chip, cores)
    config: ProductConfig | None = op.param("config")
    area = (config.sub_h * config.sub_w if config is not None else 0) or PARTIAL
    lefts, rights = cut.times * cut.across * cut.m * cut.k, cut.times * cut.down * cut.n * cut.k
    return {
        **memory(chip, (b, b.nbytes * cut.down), (a, a.nbytes * cut.across), (out, out.nbytes)),
        **_math(op, cut.m, cut.n, cut.k, cut.steps, cut.times, cut.down * cut.across),
        "subblock": cut.times * cut.m * cut.n * cut.k / area,
        "in0_tile": float(lefts),
        "in0_byte": lefts * tile_bytes(a),
        "in1_tile": float(rights),
        "in1_byte": rights * tile_bytes(b),
        "dram_out_tile": float(cut.times * cut.m * cut.n) if in_dram(out) else 0.0,
        **fused(op, cut.times * cut.m * cut.n),
    }


def batched(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    a, b, out = op.inputs[0], op.inputs[1], op.out
    cut, product = cut_of(op, chip, cores), product_of(op)
    config: ProductConfig | None = op.param("config")
    times = float(cut.times)
    local = sharded(a) and not in_dram(a)
    if local:
        # every core has rows of its own, of one product of the batch or several, and takes the right factor of each
        rows_held = per_core(product.batch * product.m, cores)
        times = per_core(rows_held, product.m)
        cut = CoreWork(int(-(-rows_held // times)), product.n, product.k, cut.step, 1, 1, False)
    elif config is not None and config.kind == "batched":
        # every core takes whole products of the batch
        total = product.batch * -(-product.m // cut.m) * -(-product.n // cut.n)
        times = per_core(total, cores)
    elif config is None:
        total = product.batch * product.m * product.n
        cut = CoreWork(1, 1, product.k, product.k, 1, 1, True)
        times = per_core(total, cores)
    return {
        **memory(chip, (b, b.nbytes), (a, a.nbytes), (out, out.nbytes)),
        **_math(op, cut.m, cut.n, cut.k, cut.steps, times),
        "in0_tile": 0.0 if local else times * cut.m * cut.k,
        "in1_tile": times * cut.n * cut.k,
        "dram_out_tile": times * cut.m * cut.n if in_dram(out) else 0.0,
        "batch": times,
        **fused(op, times * cut.m * cut.n),
    }


def minimal(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Blocks of both factors go round the grid; each core makes its part of the output block by block."""
    a, b, out = op.inputs[0], op.inputs[1], op.out
    product = product_of(op)
    config: ProductConfig | None = op.param("config")
    columns, lines = config.grid if config is not None and config.gridded else chip.grid
    if product.m > product.n:
        columns, lines = max(columns, lines), min(columns, lines)
        across, down = lines, columns
    else:
        across, down = max(columns, lines), min(columns, lines)
    m, n = -(-product.m // down), -(-product.n // across)
    block_m = (config.per_core_m if config else 0) or 8
    block_n = (config.per_core_n if config else 0) or 8
    block_k = (config.block_w if config else 0) or 8
    blocks_m, blocks_n = -(-m // block_m), -(-n // block_n)
    steps = -(-product.k // block_k)
    full_m, full_n = blocks_m * block_m, blocks_n * block_n
    area = (config.sub_h * config.sub_w if config is not None else 0) or PARTIAL
    count = full_m * full_n * steps * block_k
    return {
        **memory(chip, (b, b.nbytes * blocks_m), (a, a.nbytes * blocks_n), (out, out.nbytes)),
        "product_phase": count * 16.0 * PHASES[op.fidelity],
        "tile_product": float(count),
        "subblock": count / area,
        "k_step": float(blocks_m * blocks_n * steps),
        "k_step_tile": float(full_m * full_n * steps),
        "in0_tile": float(blocks_n * full_m * steps * block_k),
        "in1_tile": float(blocks_m * full_n * steps * block_k),
        "dram_out_tile": float(full_m * full_n),
    }


def sparse(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """One product after another, of the experts that run."""
    b, out = op.inputs[1], op.out
    config: ProductConfig | None = op.param("config")
    k, n_total = b.shape[-2] // TILE, b.shape[-1] // TILE
    nnz = attribute(op, "nnz")
    experts = op.inputs[2].numel if len(op.inputs) > 2 else b.shape[1]
    active = float(nnz) if nnz.isdigit() else max(1.0, experts / SPARSE)
    n = (config.per_core_n if config is not None else 0) or -(-n_total // max(1, cores))
    m = (config.per_core_m if config is not None else 0) or 1
    step = (config.block_w if config is not None else 0) or 1
    bytes_each = b.shape[-2] * b.shape[-1] * tile_bytes(b) / (TILE * TILE)
    return {
        **memory(chip, (b, active * bytes_each)),
        **_math(op, m, n, k, -(-k // step), active),
        "in1_tile": active * n * k,
        "batch": active,
        "searched_element": float(experts),
        "dram_out_tile": active * m * n if in_dram(out) else 0.0,
    }


def height_sharded(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Every core has its rows and takes all of the right factor; what its L1 cannot hold it goes through in blocks."""
    product, cut = product_of(op), cut_of(op, chip, cores)
    m = -(-product.m // cores)
    held = m * product.k + product.k * product.n + m * product.n
    blocks = -(-held // HELD)
    return {
        "tile_product": float(m * product.n * product.k),
        "out_tile": float(m * product.n),
        "row_block": float(product.k * product.n * min(m, blocks)),
        "k_step": float(m if cut.step else 0),
    }


HELD = 600
"""Tiles of L1 beyond which a height-sharded product goes block by block."""
