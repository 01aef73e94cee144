"""Products of few rows with many columns, such as a language model's head: a block keeps its rows and streams tiles of
columns past them, so that weights are on their way while the tile before them is finished."""

from __future__ import annotations

import triton
import triton.language as tl

from proveout.devices.cuda.triton_product import columns_of, finish
from proveout.devices.cuda.triton_shared import row_stats, wait_for_inputs


@triton.jit
def stream_kernel(
    a_map, w_map, y, bias, residual, second, a_stats, columns, r_stats, r_gamma, r_beta, stats,
    M, N, K, y_row, r_row, s_row, a_eps, r_eps,
    BIAS: tl.constexpr, ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, SECOND: tl.constexpr,
    A_BLOCKS: tl.constexpr, A_PADDED: tl.constexpr, R_BLOCKS: tl.constexpr, R_PADDED: tl.constexpr,
    STATS: tl.constexpr, INNER_MAJOR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """What `product_kernel` computes, for operands that the copy engine can read."""
    tiles_m = tl.cdiv(M, BM)
    tile_m = tl.program_id(0) % tiles_m
    rows = tile_m * BM + tl.arange(0, BM)
    in_rows = rows < M
    wait_for_inputs(PDL)
    a_means, a_squares = row_stats(a_stats, rows, in_rows, A_BLOCKS, A_PADDED)
    r_means, r_squares = row_stats(r_stats, rows, in_rows, R_BLOCKS, R_PADDED)
    begin, every = tl.program_id(0) // tiles_m, tl.num_programs(0) // tiles_m
    for tile_n in tl.range(begin, tl.cdiv(N, BN), every, flatten=True):
        total = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(K, BK)):
            a_tile = a_map.load([tile_m * BM, step * BK])
            if INNER_MAJOR:
                w_tile = w_map.load([tile_n * BN, step * BK]).T
            else:
                w_tile = w_map.load([step * BK, tile_n * BN])
            total = tl.dot(a_tile, w_tile, total)
        cols = tile_n * BN + tl.arange(0, BN)
        in_cols = cols < N
        finish(
            total, y, residual, second, stats, columns_of(bias, cols, in_cols, BIAS),
            columns_of(columns, cols, in_cols, A_BLOCKS > 0), columns_of(r_gamma, cols, in_cols, R_BLOCKS > 0),
            columns_of(r_beta, cols, in_cols, R_BLOCKS > 0), a_means, a_squares, r_means, r_squares,
            N, y_row, r_row, s_row, a_eps, r_eps, rows, cols, in_rows, in_cols, tile_n,
            ACTIVATION, RESIDUAL, SECOND, A_BLOCKS, R_BLOCKS, STATS, BN,
        )  # fmt: skip
