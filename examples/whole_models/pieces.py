"""What the models written by hand share: tensors of no numbers, shards, fidelities."""

from __future__ import annotations

from typing import Any

import torch

from proveout import ttnn

LAYOUT = ttnn.TensorMemoryLayout
TILES = {"layout": ttnn.TILE_LAYOUT}
NEAR = ttnn.L1_MEMORY_CONFIG
LOFI = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=False)
HIFI2 = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2, fp32_dest_acc_en=False)
HIFI4 = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=False)


def shell(*shape: int) -> torch.Tensor:
    """A tensor of no numbers."""
    return torch.empty(*shape, device="meta")


def sent(device: Any, *shape: int, dtype: Any = ttnn.bfloat8_b, place: Any = ttnn.DRAM_MEMORY_CONFIG) -> Any:
    return ttnn.from_torch(shell(*shape), dtype=dtype, device=device, memory_config=place, **TILES)


def words(device: Any, *shape: int, place: Any = ttnn.DRAM_MEMORY_CONFIG) -> Any:
    """Token numbers, as they come from the host."""
    return ttnn.from_torch(
        shell(*shape), dtype=ttnn.uint32, device=device, memory_config=place, layout=ttnn.ROW_MAJOR_LAYOUT
    )


def sharded(strategy: Any, rows: int, width: int, grid: tuple[int, int]) -> Any:
    return ttnn.create_sharded_memory_config(
        (rows, width), ttnn.CoreGrid(x=grid[0], y=grid[1]), strategy, ttnn.ShardOrientation.ROW_MAJOR
    )


def blocks(rows: int, width: int, grid: tuple[int, int]) -> Any:
    """Rows down the grid, width across it."""
    return sharded(ttnn.ShardStrategy.BLOCK, rows, width, grid)


def heights(rows: int, width: int, grid: tuple[int, int]) -> Any:
    return sharded(ttnn.ShardStrategy.HEIGHT, rows, width, grid)


def widths(width: int, grid: tuple[int, int]) -> Any:
    """One row of tiles."""
    return sharded(ttnn.ShardStrategy.WIDTH, 32, width, grid)


def gridded(grid: tuple[int, int], m: int, n: int, k: int, subblock: tuple[int, int], activation: Any = None) -> Any:
    """A product cut over a grid of cores, sizes in tiles."""
    return ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(*grid), in0_block_w=k, out_subblock_h=subblock[0],
        out_subblock_w=subblock[1], per_core_M=m, per_core_N=n, transpose_mcast=False, fused_activation=activation,
    )  # fmt: skip


def batched(grid: tuple[int, int], m: int, n: int, k: int, wide: int) -> Any:
    """Products of a batch, each core's own."""
    return ttnn.MatmulMultiCoreReuseProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(*grid), in0_block_w=k, out_subblock_h=1, out_subblock_w=wide,
        per_core_M=m, per_core_N=n,
    )  # fmt: skip


def normed(grid: tuple[int, int], high: int, wide: int, subblock: int) -> Any:
    return ttnn.LayerNormShardedMultiCoreProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(*grid), subblock_w=subblock, block_h=high, block_w=wide,
        inplace=False,
    )  # fmt: skip
