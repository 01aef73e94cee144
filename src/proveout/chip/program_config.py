"""Which program config ttnn builds for a matrix product when it is given none, and the circular buffers it then holds.

Told apart as ttnn does: products that lie in DRAM alone spread over the whole grid, others over blocks of up to 16 x 16
tiles; narrow ones are cut along one side; what fits neither way runs tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from proveout.chip.matmul import NARROW, Product, tile_bytes
from proveout.types import DeviceSpec

LARGEST_BLOCK = 16
"""Tiles on a side of an output block where a tensor lies in L1; halved until the buffers fit."""
PARTIAL = "bfloat16"
"""What partial sums are kept in, unless the destination registers hold float32."""

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
