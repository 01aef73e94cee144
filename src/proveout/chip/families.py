"""The families of device operations, and the one form of their time.

A prediction is `launch + (dram⁴ + core⁴)^¼` in ns: bytes through DRAM against the sum of what the busiest core does.
What counts is in `features.py`; what it costs is fitted by `fit.py` where tables exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from proveout.chip import features
from proveout.chip.device_op import DeviceOp, rows, tile_rows, tiles
from proveout.chip.features import Features, product_of
from proveout.chip.matmul import blocks_for
from proveout.types import TILE, DeviceSpec


@dataclass(frozen=True)
class Form:
    """One family: what of it costs, and the device operations that are it."""

    features: Callable[[DeviceOp, DeviceSpec, int], Features]
    codes: tuple[str, ...] = ()
    """Names of device operations, without `DeviceOperation`."""
    pieces: Callable[[DeviceOp], int] = lambda op: max(op.out.num_pages, 1)
    """How many cores could share it."""


def predict(found: Mapping[str, Any], costs: Mapping[str, float]) -> Any:
    """Time in ns from features: floats, or arrays of them."""
    core: Any = 0.0
    for name, value in found.items():
        if name not in ("launch", "dram"):
            core = core + value * costs[name]
    dram = found["dram"] * costs["dram"] if "dram" in found else 0.0
    return found["launch"] * costs["launch"] + (dram**4 + core**4) ** 0.25


def features_of(op: DeviceOp, chip: DeviceSpec) -> Features:
    """Its features in ns: cycles at the chip's clock, bytes at its DRAM rate."""
    found = FORMS[op.family].features(op, chip, cores_of(op, chip))
    scaled = {name: value if name == "dram" else value / chip.clock_ghz for name, value in found.items()}
    return {"launch": 1000.0 / chip.clock_ghz, **scaled}


def cores_of(op: DeviceOp, chip: DeviceSpec) -> int:
    """How many cores run it: as a table says, as its shards lie, or as many as it has pieces of work."""
    if op.cores is not None:
        return max(1, op.cores)
    if op.family == "matmul":
        return blocks_for(product_of(op), chip).cores
    for tensor in (op.out, op.first):
        if tensor.memory.shard is not None:
            columns, lines = tensor.memory.shard.grid
            return min(chip.cores, columns * lines)
    return max(1, min(chip.cores, FORMS[op.family].pieces(op)))


def _tiles(op: DeviceOp) -> int:
    return tiles(op.out)


def _tile_rows(op: DeviceOp) -> int:
    return max(tile_rows(op.out), tile_rows(op.first))


def _conv_pieces(op: DeviceOp) -> int:
    """Tile rows of the output; block-sharded, tiles."""
    cut = -(-op.out.shape[-1] // TILE) if op.out.memory.sharding == "block" else 1
    return -(-rows(op.out) // TILE) * cut


FORMS: dict[str, Form] = {
    "matmul": Form(features.narrow_matmul, ("Matmul", "MinimalMatmulOp")),
    "conv": Form(features.conv, ("Conv2d", "OptimizedConvNew"), _conv_pieces),
    "halo": Form(features.halo, ("Halo",), _tile_rows),
    "pool": Form(features.pool, ("Pool2D",), lambda op: rows(op.out)),
    "unary": Form(features.unary, ("Unary", "Typecast"), _tiles),
    "binary": Form(features.elementwise, ("Binary", "BinaryNg", "Ternary"), _tiles),
    "group norm": Form(features.group_norm, ("GroupNorm",), _tile_rows),
    "layer norm": Form(features.engine, ("LayerNorm",), _tile_rows),
    "softmax": Form(features.engine, ("Softmax",), _tile_rows),
    "attention": Form(features.engine, ("SDPAOperation",), _tile_rows),
    "reduce": Form(features.engine, ("Reduce", "FastReduceNC", "ArgMax", "FillPad", "TopK", "Sort", "Prod"), _tiles),
    "scan": Form(features.engine, ("Accumulation", "IntImg"), _tiles),
    "embedding": Form(features.lookup, ("Embeddings",)),
    "copy": Form(features.copied, ("Move", "Copy")),
    "reshard": Form(features.copied, ("Reshard",)),
    "interleaved to sharded": Form(features.to_sharded, ("InterleavedToSharded", "InterleavedToShardedPartial")),
    "sharded to interleaved": Form(features.from_sharded, ("ShardedToInterleaved", "ShardedToInterleavedPartial")),
    "tilize": Form(features.tilize, ("Tilize",), _tile_rows),
    "tilize with padding": Form(features.tilize, ("TilizeWithValPadding",), _tile_rows),
    "untilize": Form(features.untilize, ("Untilize", "UntilizeCodegen"), _tile_rows),
    "untilize with unpadding": Form(features.untilize, ("UntilizeWithUnpadding",), _tile_rows),
    "reshape": Form(features.reshape, ("Reshape", "ReshapeView")),
    "permute": Form(features.permute, ("Permute",)),
    "transpose": Form(features.transpose, ("Transpose",), _tiles),
    "slice": Form(features.slice_, ("Slice", "Split")),
    "slice write": Form(features.slice_write, ("SliceWrite",)),
    "padded slice": Form(features.padded_slice, ("PaddedSlice",)),
    "concat": Form(features.concat, ("Concat",)),
    "upsample": Form(features.engine, ("UpsampleOperation",)),
    "grid sample": Form(features.engine, ("GridSample", "GridSampleOperation")),
    "other": Form(features.engine, ("RotaryEmbeddingLlama", "UpdateKVCacheOperation")),
}

CODES: dict[str, str] = {code: family for family, form in FORMS.items() for code in form.codes}
"""Names of device operations to their families."""
