"""How ttnn lays a convolution's or a pool's input over the cores: shards, and the rows they borrow from each other."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from proveout.chip.forms.windows import cut_over
from proveout.chip.matmul import tile_bytes
from proveout.types import TILE, DeviceSpec, Sharding, ShardSpec

CHANNELS = 8
"""Channels of a stick are a multiple of this: 16 bytes of bfloat16, L1's alignment."""
DATUM = 2
"""Halos are bfloat16."""


@dataclass(frozen=True)
class Window:
    """A window sliding over images in channels-last form."""

    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Top, bottom, left, right."""
    dilation: tuple[int, int] = (1, 1)
    pools: bool = False

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from a window's first pixel to its last."""
        return (self.size[0] - 1) * self.dilation[0], (self.size[1] - 1) * self.dilation[1]

    @property
    def padded(self) -> tuple[int, int]:
        return self.height + self.padding[0] + self.padding[1], self.width + self.padding[2] + self.padding[3]

    @property
    def out(self) -> tuple[int, int]:
        (tall, wide), (down, across) = self.padded, self.reach
        return (tall - down - 1) // self.stride[0] + 1, (wide - across - 1) // self.stride[1] + 1

    @property
    def out_pixels(self) -> int:
        return self.batch * self.out[0] * self.out[1]

    def slice(self, count: int) -> Window:
        """The first of so many slices of rows, as ttnn takes them through DRAM where the whole does not fit into L1."""
        if count == 1:
            return self
        rows = -(-self.out[0] // count)
        height = (rows - 1) * self.stride[0] + self.reach[0] + 1
        return replace(self, height=height, padding=(0, 0, *self.padding[2:]))

    def sticks(self, share: int) -> int:
        """Most pixels of padded input that `share` output pixels in a row look at."""
        most = 0
        for first in range(0, self.out_pixels, share):
            last = min(first + share, self.out_pixels) - 1
            most = max(most, self._corner(last) + self.reach[0] * self.padded[1] + self.reach[1] - self._corner(first))
        return most + 1

    def _corner(self, pixel: int) -> int:
        """Where an output pixel's window starts in the padded input."""
        (out_height, out_width), (tall, wide) = self.out, self.padded
        row, column = divmod(pixel, out_width)
        image, row = divmod(row, out_height)
        return (image * tall + row * self.stride[0]) * wide + column * self.stride[1]


@dataclass(frozen=True)
class Shards:
    """One core's part, in bytes, and its blocks in tiles: `out_rows` × `out_columns` of output, `depth` of window."""

    kind: str
    cores: int
    stick_bytes: int
    input_bytes: int
    haloed_bytes: int
    out_bytes: int
    out_rows: int = 0
    out_columns: int = 0
    depth: int = 0
    weight_bytes: int = 0

    @property
    def total(self) -> int:
        """What ttnn compares shardings by: the halo, the output, and blocks of activations and weights."""
        activations = 2 * self.out_rows * self.depth * TILE * TILE * DATUM
        return self.haloed_bytes + self.out_bytes + activations + self.weight_bytes


@functools.lru_cache(maxsize=4096)
def conv_shards(window: Window, weights: str, chip: DeviceSpec, sharding: Sharding | None = None) -> Shards:
    """As a call asks; otherwise rows over all cores, or rows and channels over rows and columns of them: what takes
    less L1, and blocks only where they slice the channels. ttnn also weighs channels alone; no call we know of came out
    that way."""
    columns, rows = chip.grid
    tile = round(tile_bytes(weights))
    height = _conv(window, "height", chip.cores, 1, tile)
    block = _conv(window, "block", rows, columns, tile)
    if sharding in ("height", "block"):
        return block if sharding == "block" else height
    return block if block.total < height.total and block.cores >= columns else height


def _conv(window: Window, kind: str, down: int, across: int, weight_tile: int) -> Shards:
    tall = max(1, -(-window.out_pixels // TILE))  # a transposed one may have no whole window
    out_rows = -(-tall // down)
    rows = -(-tall // out_rows)
    channels = _up(-(-window.in_channels // across), CHANNELS)
    columns = -(-window.in_channels // channels)
    out_tiles = -(-window.out_channels // TILE)
    out_columns = -(-out_tiles // across)
    pixels = window.batch * window.height * window.width
    stick, depth = channels * DATUM, -(-channels * window.size[1] // TILE)
    return Shards(
        kind,
        rows * max(columns, -(-out_tiles // out_columns)),
        stick,
        _up(-(-pixels // rows), TILE) * stick,
        window.sticks(out_rows * TILE) * stick,
        out_rows * out_columns * TILE * TILE * DATUM,
        out_rows,
        out_columns,
        depth,
        depth * out_columns * weight_tile,
    )


def out_shards(window: Window, kind: Sharding, chip: DeviceSpec, cores: tuple[int, int] | None = None) -> ShardSpec:
    """The shards that a convolution leaves its result in: whole tiles, over these columns and rows of cores."""
    return shards_of(window.out_pixels, window.out_channels, kind, chip, cores)


def shards_of(
    pixels: int, channels: int, kind: Sharding, chip: DeviceSpec, cores: tuple[int, int] | None = None
) -> ShardSpec:
    tall, wide = max(1, -(-pixels // TILE)), -(-channels // TILE)
    across, down = cut_over(kind, tall, wide, cores or chip.grid)
    shape = (-(-tall // down) * TILE, -(-wide // across) * TILE)
    if kind == "block":
        return ShardSpec(shape, (across, down))
    return ShardSpec(shape, _box(across * down, (cores or chip.grid)[0]))


def _box(cores: int, columns: int) -> tuple[int, int]:
    """The smallest box of whole rows of cores around so many."""
    return (cores, 1) if cores <= columns else (columns, -(-cores // columns))


@functools.lru_cache(maxsize=4096)
def pool_shards(window: Window, chip: DeviceSpec) -> Shards:
    columns, rows = chip.grid
    height = _pool(window, "height", chip.cores, 1)
    block = _pool(window, "block", rows, columns)
    return min(height, block, key=lambda shards: shards.total)


def _pool(window: Window, kind: str, down: int, across: int) -> Shards:
    """Channels are cut at whole tiles, and evenly."""
    share = -(-window.out_pixels // down)
    rows = -(-window.out_pixels // share)
    wide = -(-window.in_channels // TILE)
    columns = max(n for n in range(1, across + 1) if wide % n == 0)
    channels = window.in_channels if columns == 1 else wide // columns * TILE
    stick = _up(channels, CHANNELS) * DATUM
    pixels = window.batch * window.height * window.width
    return Shards(kind, rows * columns, stick, -(-pixels // rows) * stick, window.sticks(share) * stick, share * stick)


def _up(n: int, to: int) -> int:
    return -(-n // to) * to
