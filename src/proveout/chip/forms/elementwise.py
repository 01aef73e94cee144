"""Element-wise operations: tiles through the vector or matrix unit, and operands that software spreads first."""

from __future__ import annotations

from proveout.chip.device_op import DeviceOp, tile_rows, tiles
from proveout.chip.forms.shared import (
    Features,
    all_bytes,
    attribute,
    busiest,
    last_two,
    leading,
    memory,
    per_core,
    sharded,
    tile_bytes,
)
from proveout.chip.sfpu import passes, vector_class
from proveout.types import TILE, DeviceSpec, TensorSpec

FOUR_BYTES = ("float32", "uint32", "int32")


def name_of(op: DeviceOp) -> str:
    return str(op.param("called") or op.param("type") or "").lower()


def unary(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    times = passes(name_of(op))
    features = memory(chip, (op.first, op.first.nbytes), (op.out, op.out.nbytes))
    piece = busiest(op.out, cores)
    spread = not (sharded(op.first) and sharded(op.out))
    chain = attribute(op, "op_chain").count("op_type=") or 1
    name = name_of(op)
    return {
        "dram": times * features["dram"],
        "l1": times * features["l1"],
        "tile": times * piece if spread else 0.0,
        "byte": times * piece * (tile_bytes(op.first) + tile_bytes(op.out)) if spread else 0.0,
        "local_tile": 0.0 if spread else times * piece,
        f"sfpu/{vector_class(name) if name else 'light'}": times * piece * chain,
        "call": float(bool(op.param("host"))),
    }


def typecast(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    piece = busiest(op.out, cores)
    spread = not (sharded(op.first) and sharded(op.out))
    wide = op.first.dtype in FOUR_BYTES or op.out.dtype in FOUR_BYTES
    return {
        **memory(chip, (op.first, op.first.nbytes), (op.out, op.out.nbytes)),
        "tile": piece if spread else 0.0,
        "local_tile": 0.0 if spread else piece,
        "wide_tile": piece if wide else 0.0,
    }


def exponential(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """`exp` alone, as its own table times it: on an older stack, one tile after another."""
    piece = busiest(op.out, cores)
    wide = op.first.dtype in FOUR_BYTES
    moved = memory(chip, (op.first, op.first.nbytes), (op.out, op.out.nbytes))
    return {**moved, "tile": piece, "wide_tile": piece if wide else 0.0}


def binary(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    operands = op.inputs[:3] if op.code in ("Ternary",) or op.param("host") else op.inputs[:2]
    out = op.out
    name = name_of(op)
    times = passes(name)
    moved = memory(chip, *((t, t.nbytes) for t in (*operands, out)))
    piece = busiest(out, cores)
    spread = any(not sharded(t) or _uneven(t, cores) for t in (*operands, out))
    vector = _on_vector_unit(op, name)
    fills = _fills(op, out, cores, piece)
    wide = 1.0 if out.dtype in FOUR_BYTES else 0.0
    features: Features = {
        "dram": times * moved["dram"],
        "l1": times * moved["l1"],
        "tile": times * piece if spread else 0.0,
        "local_tile": 0.0 if spread else piece,
        "wide_tile": piece * wide if spread else 0.0,
        "sfpu": times * piece if vector else 0.0,
        **fills,
        "call": float(bool(op.param("host"))),
    }
    activations = [activation for _, activation in op.param("fused", ())]
    if vector_class(name, binary=True) != "light":
        activations.append(name)
    for activation in activations:
        key = f"sfpu/{vector_class(activation, binary=True)}"
        features[key] = features.get(key, 0.0) + times * piece
    return features


def _on_vector_unit(op: DeviceOp, name: str) -> bool:
    """As the profile says; of a Program's call, all but sums and differences, and products of block floats."""
    if attribute(op, "is_sfpu") == "true" or (
        op.out.dtype in FOUR_BYTES and any(t.dtype in FOUR_BYTES for t in op.inputs)
    ):
        return True
    plain = name in MATRIX_UNIT or op.out.dtype.endswith("_b")
    return bool(op.param("called")) and not op.param("host") and not plain


MATRIX_UNIT = ("add", "subtract", "sub", "rsub", "linear", "matmul", "conv2d")
"""Calls whose element-wise part the matrix unit adds up."""


def _fills(op: DeviceOp, out: TensorSpec, cores: int, piece: float) -> Features:
    """Tiles of a smaller operand that software spreads over rows or columns."""
    broadcast = attribute(op, "subtile_broadcast_type")
    if len(op.inputs) < 2 or op.param("host"):
        return {}
    other = min(op.inputs[:2], key=lambda t: t.numel)
    if not broadcast:
        broadcast = _broadcast(op)
    if broadcast.startswith("ROW"):
        return {"fill_row": piece * (4.0 if other.dtype in FOUR_BYTES else 1.0)}
    if broadcast.startswith(("COL", "SCALAR")):
        width = max(1, last_two(out.padded_shape)[1] // TILE)
        lines = -(-piece // width) + (1 if piece % width and piece > width else 0)
        if broadcast.startswith("SCALAR"):
            lines = max(1.0, per_core(max(1, leading(other.padded_shape)), cores))
        return {"fill_column": lines}
    return {}


def _broadcast(op: DeviceOp) -> str:
    first, second = (last_two(t.shape) for t in op.inputs[:2])
    down, across = (a != b and 1 in (a, b) for a, b in zip(first, second, strict=True))
    return "SCALAR_B" if down and across else "ROW_B" if down else "COL_B" if across else ""


def _uneven(spec: TensorSpec, cores: int) -> bool:
    """Unevenly cut shards take the interleaved way through the kernel."""
    if spec.memory.shard is not None:
        return False
    lines = tile_rows(spec)
    return spec.memory.sharding == "height" and lines % max(1, -(-lines // cores)) != 0


def engine(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    """Families without a table of their own: bytes, tiles and the engine's own rate."""
    biggest = max((*op.inputs, op.out), key=lambda t: t.nbytes)
    tiled = biggest.layout == "tile"
    return {
        **all_bytes(op, chip),
        "tile": per_core(tiles(biggest), cores) if tiled else 0.0,
        "row": 0.0 if tiled else per_core(tile_rows(biggest) * TILE, cores),
        "engine": op.work.ops / op.work.rate * op.phases / cores,
    }
