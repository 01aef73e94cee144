"""Windows over images: convolutions and pools of sharded pixels."""

from __future__ import annotations

from proveout.chip.device_op import DeviceOp, rows
from proveout.chip.forms.shared import Features, asked_columns, columns, per_core, told_number
from proveout.types import TILE, DeviceSpec


def conv(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    cut = asked_columns(op, out if out.memory.shard is not None else source, cores, chip)
    k = op.work.ops / (2 * max(1, out.numel))
    m = per_core(-(-rows(out) // TILE), max(1, cores // cut))
    n = per_core(-(-out.shape[-1] // TILE), cut)
    if out.memory.shard is not None:
        m, n = (float(-(-side // TILE)) for side in out.memory.shard.shape)
    depth = -(-k // TILE)
    block = told_number(op, "act_block_h_ntiles") or int(op.param("act_block_h", 0)) // TILE
    blocks = max(1.0, m / block) if block else 1.0
    return {
        "product_phase": m * n * depth * 16 * op.phases,
        "tile_product": m * n * depth,
        "gathered_tile": m * depth / cut,
        "gathered_row": m * TILE * (k / source.shape[-1]) / cut,
        "weight_tile": depth * n * blocks,
        "multicast_tile": m * depth if cut > 1 else 0.0,
        "local_tile": m * n,
    }


def pool(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    window = op.work.ops / max(1, op.out.numel)
    return {"window_row": per_core(rows(op.out) * columns(op.out, cores, chip), cores) * window}
