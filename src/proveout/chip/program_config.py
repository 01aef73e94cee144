"""Which program config ttnn builds for a matrix product when it is given none, and the circular buffers it then holds:
the one rule that time, memory and numerics follow.

Told apart as ttnn does: products that lie in DRAM alone spread over the whole grid, others over blocks of up to 16 x 16
tiles; narrow ones are cut along one side; what fits neither way runs tile by tile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from proveout.chip.matmul import NARROW, Blocks, Product, tile_bytes
from proveout.types import TILE, DeviceSpec, ShardSpec

LARGEST_BLOCK = 16
"""Tiles on a side of an output block where a tensor lies in L1; halved until the buffers fit."""
PARTIAL = "bfloat16"
"""What partial sums are kept in, unless the destination registers hold float32."""

WIDEST_TUNED_BLOCK = 16
"""K tiles in a block of the published hand-tuned configs, at most."""

Size = Callable[[int, int, int], float]


@dataclass(frozen=True)
class ProgramConfig:
    """`m` × `n` output tiles a core in blocks of `block_m` × `block_n`, K in steps of `k` tiles."""

    kind: Literal["2d", "1d", "tiles"]
    m: int = 1
    n: int = 1
    k: int = 1
    block_m: int = 1
    block_n: int = 1


def program_config(product: Product, chip: DeviceSpec, bias: str | None = None) -> ProgramConfig:
    """What ttnn chooses for interleaved operands. Rows of one batch count: batches run one after the other."""
    columns, rows = chip.grid
    m, n, k = product.m, product.n, product.k
    size = _estimate(product, bias)
    in_dram = not (product.in0_l1 or product.in1_l1 or product.out_l1)
    narrow = max(m, n) // min(m, n) > NARROW or (in_dram and min(m, n) == 1)
    if narrow and in_dram:
        return _one_dimensional(product, chip, size)
    if in_dram:
        step = k // columns if k % columns == 0 else 1
        return _cut("2d", -(-m // rows), -(-n // columns), step, size, chip)
    side = LARGEST_BLOCK
    while side > 1 and size(side, side, 2) >= chip.l1_allocatable:
        side //= 2
    down, across = -(-m // side), -(-n // side)
    step = 1 if k % 2 and down * across > 1 else 2
    if down * across > chip.cores or k % step:
        return ProgramConfig("tiles")
    on_grid = down * across > 1 and down <= rows and across <= columns
    if narrow or (on_grid and 1 in (down, across)):
        wide = n > m if narrow and not (on_grid and down == 1) else down == 1
        return _one_dimensional(product, chip, size, wide)
    return ProgramConfig("2d", side, side, step, side, side) if on_grid else ProgramConfig("tiles")


def circular_bytes(product: Product, config: ProgramConfig, bias: str | None = None, batches: int = 1) -> int:
    """Circular buffers per core: both operands (twice where there is more than one block of theirs to read, over all
    `batches` of the left one), the output block, partial sums where their format is another, one row of bias."""
    in0, in1, out = (round(tile_bytes(d)) for d in (product.in0, product.in1, product.out))
    if config.kind == "tiles":
        return 2 * (in0 + in1 + out)
    steps = -(-product.k // config.k)
    left, right = (2 if steps * batch > 1 else 1 for batch in (max(batches, product.batch), product.batch))
    block = config.block_m * config.block_n
    held = config.k * (left * config.block_m * in0 + right * config.block_n * in1) + block * out
    kept = "float32" if product.in0 == "float32" else PARTIAL if steps > 1 else product.out
    partial = 0 if kept == product.out else block * round(tile_bytes(kept))
    return held + partial + (config.block_n * round(tile_bytes(bias)) if bias else 0)


def _estimate(product: Product, bias: str | None) -> Size:
    """What ttnn reckons the buffers of a block will take, before it knows them."""
    in0, in1, out, partial = (tile_bytes(d) for d in (product.in0, product.in1, product.out, PARTIAL))
    row = tile_bytes(bias) if bias else 0

    def size(m: int, n: int, k: int) -> float:
        return 2 * m * k * in0 + 2 * n * k * in1 + m * n * (in0 + max(out, partial)) + n * row

    return size


def _one_dimensional(product: Product, chip: DeviceSpec, size: Size, wide: bool | None = None) -> ProgramConfig:
    wide = product.n > product.m if wide is None else wide
    m = product.m if wide else -(-product.m // chip.cores)
    n = -(-product.n // chip.cores) if wide else product.n
    return _cut("1d", m, n, 2 - product.k % 2, size, chip)


def _cut(kind: Literal["1d", "2d"], m: int, n: int, k: int, size: Size, chip: DeviceSpec) -> ProgramConfig:
    """The largest block that fits, of the squarest sides; in two dimensions K may go in shorter steps first."""
    if size(m, n, k) < chip.l1_allocatable:
        return ProgramConfig(kind, m, n, k, m, n)
    squarest: dict[int, tuple[int, int]] = {}
    for a in _divisors(m):
        for b in _divisors(n):
            known = squarest.get(a * b)
            if known is None or max(a, b) * min(known) <= max(known) * min(a, b):
                squarest[a * b] = (a, b)
    steps = [d for d in range(k, 0, -1) if k % d == 0] if kind == "2d" else [k]
    for area in sorted(squarest, reverse=True):
        for step in steps:
            if size(*squarest[area], step) < chip.l1_allocatable:
                return ProgramConfig(kind, m, n, step, *squarest[area])
    return ProgramConfig(kind, m, n)


def _divisors(n: int) -> list[int]:
    return [n, *([1] if n > 1 else []), *(d for d in range(n // 2, 1, -1) if n % d == 0)]


# ---- as blocks of the cores' work ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def blocks_for(product: Product, chip: DeviceSpec, tuned: bool = False, cores: int | None = None) -> Blocks:
    """What the cores do under the config that ttnn chooses itself, or under one as the published hand-tuned ones. Where
    a table tells how many cores ran, that decides between one- and two-dimensional multicast."""
    if not tuned and cores is None and not product.sharded:
        return _chosen(product, chip)
    candidates = (_grid(product, chip), _tall(product, chip), _wide(product, chip))
    chosen = candidates[_preferred(product)]
    if cores is not None and chosen.cores != cores:
        chosen = next((c for c in candidates if c.cores == cores), chosen)
    return _tuned(product, chip, chosen) if tuned else _halved(product, chip, chosen)


def _chosen(product: Product, chip: DeviceSpec) -> Blocks:
    config = program_config(product, chip)
    if config.kind == "tiles":
        return Blocks(1, 1, 1, 1, 1, min(chip.cores, product.batch * product.m * product.n), "tiles")
    down, across = -(-product.m // config.m), -(-product.n // config.n)
    kind = "2d" if config.kind == "2d" else "1d wide" if across >= down else "1d tall"
    high, wide = -(-config.m // config.block_m), -(-config.n // config.block_n)
    return Blocks(config.m, config.n, config.k, high, wide, down * across, kind)


def spread(product: Product, chip: DeviceSpec) -> Blocks:
    """Over all cores, wherever the tensors lie: along the longer side where the other is short, else over the grid."""
    candidates = (_grid(product, chip), _tall(product, chip), _wide(product, chip))
    return _halved(product, chip, candidates[_preferred(product)])


LONGEST_STEP = 16
"""K tiles in one step, at most, of the cuts that are tried."""


def cuts(product: Product, chip: DeviceSpec) -> list[Blocks]:
    """Every way worth trying to spread a product over all cores: over the grid, along its rows, along its columns, each
    with K in steps of any length that divides it and whose buffers fit."""
    steps = [k for k in range(1, LONGEST_STEP + 1) if product.k % k == 0]
    bases = (_grid(product, chip), _tall(product, chip), _wide(product, chip))
    tried = [_whole(_halved(product, chip, replace(base, k=k))) for base in bases for k in {*steps, base.k}]
    return [blocks for blocks in dict.fromkeys(tried) if product.k % blocks.k == 0 and _fits(product, chip, blocks)]


def _whole(blocks: Blocks) -> Blocks:
    """With a core's part filled up to whole blocks, as ttnn asks for."""
    return replace(blocks, m=-(-blocks.m // blocks.h) * blocks.h, n=-(-blocks.n // blocks.w) * blocks.w)


def shard_cuts(product: Product, shard: ShardSpec, chip: DeviceSpec) -> list[Blocks]:
    """Cuts of a product whose left factor stays in block shards: each core makes the rows that it holds, K goes in
    parts of a shard's width."""
    (columns, rows), m, wide = shard.grid, shard.shape[0] // TILE, shard.shape[1] // TILE
    n = -(-product.n // columns)
    if m * rows != product.m or wide * columns != product.k:
        return []
    tried = [Blocks(m, n, k, 1, 1, columns * rows, "2d") for k in range(1, LONGEST_STEP + 1) if wide % k == 0]
    return [blocks for blocks in tried if _fits(product, chip, blocks)]


def _preferred(product: Product) -> int:
    if product.m > NARROW * product.n or product.n == 1 < product.m:
        return 1
    if product.n > NARROW * product.m or product.m == 1:
        return 2
    return 0


def _grid(product: Product, chip: DeviceSpec) -> Blocks:
    columns, rows = chip.grid
    m, n = -(-product.m // rows), -(-product.n // columns)
    k = product.k // columns if product.k % columns == 0 else 1
    return Blocks(m, n, k, 1, 1, -(-product.m // m) * -(-product.n // n), "2d")


def _tall(product: Product, chip: DeviceSpec) -> Blocks:
    m = -(-product.m // chip.cores)
    return Blocks(m, product.n, 2 - product.k % 2, 1, 1, -(-product.m // m), "1d tall")


def _wide(product: Product, chip: DeviceSpec) -> Blocks:
    n = -(-product.n // chip.cores)
    return Blocks(product.m, n, 2 - product.k % 2, 1, 1, -(-product.n // n), "1d wide")


def _halved(product: Product, chip: DeviceSpec, blocks: Blocks) -> Blocks:
    """Halve the output block, sides in turn, until its buffers fit."""
    while not _fits(product, chip, blocks) and (blocks.h < blocks.m or blocks.w < blocks.n):
        if (blocks.w <= blocks.h and blocks.w < blocks.n) or blocks.h >= blocks.m:
            blocks = replace(blocks, w=min(2 * blocks.w, blocks.n))
        else:
            blocks = replace(blocks, h=min(2 * blocks.h, blocks.m))
    return blocks


def _tuned(product: Product, chip: DeviceSpec, blocks: Blocks) -> Blocks:
    """As the published hand-tuned configs: first a narrower K block, then square cuts."""
    if product.sharded or _fits(product, chip, blocks):
        return blocks
    narrower = replace(blocks, k=blocks.k // 2)
    if blocks.k % 2 == 0 and _fits(product, chip, narrower):
        return narrower
    blocks = replace(blocks, k=min(blocks.k, WIDEST_TUNED_BLOCK))
    while not _fits(product, chip, blocks) and (blocks.h < blocks.m or blocks.w < blocks.n):
        blocks = replace(blocks, h=min(2 * blocks.h, blocks.m), w=min(2 * blocks.w, blocks.n))
    return blocks


def _fits(product: Product, chip: DeviceSpec, blocks: Blocks) -> bool:
    """Whether the circular buffers fit: both operands double-buffered, the output, and partial sums in bfloat16
    where the output's dtype is another."""
    m, n = -(-blocks.m // blocks.h), -(-blocks.n // blocks.w)
    in0, in1, out, partial = (tile_bytes(d) for d in (product.in0, product.in1, product.out, "bfloat16"))
    held = 2 * m * blocks.k * in0 + 2 * n * blocks.k * in1 + m * n * out
    return held + (m * n * partial if product.out != "bfloat16" else 0) <= chip.l1_allocatable
