"""Windows over images: convolutions and pools of sharded pixels."""

from __future__ import annotations

from proveout.chip.device_op import DeviceOp, rows
from proveout.chip.forms.shared import Features, columns, per_core, told_number
from proveout.types import TILE, DeviceSpec


def cut_over(kind: str, tall: int, wide: int, grid: tuple[int, int]) -> tuple[int, int]:
    """Columns and rows of cores that tiles of pixels and of channels are shared out over; none stays empty."""
    columns, lines = grid
    down = {"height": columns * lines, "block": lines}.get(kind, 1)
    across = {"width": columns * lines, "block": columns}.get(kind, 1)
    down, across = min(down, tall), min(across, wide)
    return -(-wide // -(-wide // across)), -(-tall // -(-tall // down))


def asked_cut(op: DeviceOp, chip: DeviceSpec) -> tuple[int, int] | None:
    """Columns and rows of cores where a call names its shards or its cores; None where it leaves them to ttnn."""
    kind, cores = op.param("shards"), op.param("on_cores")
    if kind is None and cores is None:
        return None
    columns, lines = chip.grid
    if cores is not None:
        columns = min(columns, cores)
        lines = max(1, min(lines, cores // columns))
    tall, wide = -(-rows(op.out) // TILE), -(-op.out.shape[-1] // TILE)
    return cut_over(kind or "height", tall, wide, (columns, lines))


def conv(op: DeviceOp, chip: DeviceSpec, cores: int) -> Features:
    source, out = op.first, op.out
    cut = columns(out if out.memory.shard is not None else source, cores, chip)
    k = op.work.ops / (2 * max(1, out.numel))
    m = per_core(-(-rows(out) // TILE), max(1, cores // cut))
    n = per_core(-(-out.shape[-1] // TILE), cut)
    chosen_cut = asked_cut(op, chip)
    if chosen_cut is not None and out.memory.shard is None:
        cut, m, n = (
            chosen_cut[0],
            per_core(-(-rows(out) // TILE), chosen_cut[1]),
            per_core(-(-out.shape[-1] // TILE), chosen_cut[0]),
        )
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
