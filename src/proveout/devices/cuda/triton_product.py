"""Matrix products with everything around them inside: a layer norm of the operand, bias, activation, residuals, and the
moments that the next layer norm needs; cut along the inner dimension where there are too few tiles for the GPU."""

from __future__ import annotations

import triton
import triton.language as tl

from proveout.devices.cuda.triton_shared import STATS_WIDTH, activate, moments_of, prefetch, row_stats, wait_for_inputs


@triton.jit
def product_kernel(
    a, w, a_map, w_map, y, bias, residual, second, a_stats, columns, r_stats, r_gamma, r_beta, stats, partial, arrived,
    M, N, K, a_row, w_inner, w_column, y_row, r_row, s_row, a_eps, r_eps,
    BIAS: tl.constexpr, ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, SECOND: tl.constexpr,
    A_BLOCKS: tl.constexpr, A_PADDED: tl.constexpr, R_BLOCKS: tl.constexpr, R_PADDED: tl.constexpr,
    STATS: tl.constexpr, SPLIT: tl.constexpr, WHOLE_K: tl.constexpr, WHOLE_N: tl.constexpr, INNER_MAJOR: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """y = residual + second + activation(norm(a) @ w + bias). Where a is normalised, w is already scaled by gamma, bias
    holds beta @ w, and `columns` are w's column sums. A normalised residual is so with r_gamma and r_beta."""
    pid = tl.program_id(0)
    part = pid % SPLIT
    tile = pid // SPLIT
    tiles_m = tl.cdiv(M, BM)
    tile_m = tile % tiles_m
    tile_n = tile // tiles_m
    rows = tile_m * BM + tl.arange(0, BM)
    cols = tile_n * BN + tl.arange(0, BN)
    in_rows, in_cols = rows < M, cols < N
    safe_rows = tl.minimum(rows, M - 1)
    safe_cols = cols
    if not WHOLE_N:
        safe_cols = tl.minimum(cols, N - 1)
    inner = tl.arange(0, BK)
    steps = tl.cdiv(K, BK)
    each = tl.cdiv(steps, SPLIT)
    first = part * each
    last = tl.minimum(first + each, steps)
    if PDL:  # weights are nobody's result: they can come before the kernel ahead is done
        for step in range(first + tile_m, last, tiles_m):
            if INNER_MAJOR:
                prefetch(w + safe_cols * w_column + step * BK * w_inner)  # all of it was slower, on an H200
            else:
                prefetch(w + tl.minimum(step * BK + inner, K - 1) * w_inner + tile_n * BN * w_column)
                if BN > 64:
                    prefetch(w + tl.minimum(step * BK + inner, K - 1) * w_inner + (tile_n * BN + 64) * w_column)
    # What the end needs is on its way from the start: rows of weights before anything is waited for.
    offset = columns_of(bias, cols, in_cols, BIAS)
    sums = columns_of(columns, cols, in_cols, A_BLOCKS > 0)
    gamma = columns_of(r_gamma, cols, in_cols, R_BLOCKS > 0)
    beta = columns_of(r_beta, cols, in_cols, R_BLOCKS > 0)
    wait_for_inputs(PDL)
    a_means, a_squares = row_stats(a_stats, rows, in_rows, A_BLOCKS, A_PADDED)
    r_means, r_squares = row_stats(r_stats, rows, in_rows, R_BLOCKS, R_PADDED)
    total = tl.zeros((BM, BN), tl.float32)
    a_at = a + safe_rows[:, None].to(tl.int64) * a_row + (first * BK + inner)[None, :]
    w_at = w + (first * BK + inner)[:, None].to(tl.int64) * w_inner + safe_cols[None, :].to(tl.int64) * w_column
    for step in range(first, last):
        if TMA:
            a_tile = a_map.load([tile_m * BM, step * BK])
            if INNER_MAJOR:
                w_tile = w_map.load([tile_n * BN, step * BK]).T
            else:
                w_tile = w_map.load([step * BK, tile_n * BN])
        elif WHOLE_K:
            a_tile = tl.load(a_at)
            w_tile = tl.load(w_at)
        else:
            left = (step * BK + inner) < K
            a_tile = tl.load(a_at, mask=left[None, :], other=0.0)
            w_tile = tl.load(w_at, mask=left[:, None], other=0.0)
        total = tl.dot(a_tile, w_tile, total)
        a_at += BK
        w_at += BK * w_inner
    if SPLIT > 1:
        mine = partial + tile.to(tl.int64) * (SPLIT * BM * BN)
        spot = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        tl.store(mine + part * (BM * BN) + spot, total)
        tl.debug_barrier()
        before = tl.atomic_add(arrived + tile, 1, sem="acq_rel", scope="gpu")
        if before == SPLIT - 1:  # the last to come adds all parts, always in the same order
            tl.store(arrived + tile, 0)
            total = tl.load(mine + spot, cache_modifier=".cg")
            for other in tl.static_range(1, SPLIT):
                total += tl.load(mine + other * (BM * BN) + spot, cache_modifier=".cg")
            finish(
                total, y, residual, second, stats, offset, sums, gamma, beta, a_means, a_squares, r_means, r_squares,
                N, y_row, r_row, s_row, a_eps, r_eps, rows, cols, in_rows, in_cols, tile_n,
                ACTIVATION, RESIDUAL, SECOND, A_BLOCKS, R_BLOCKS, STATS, BN,
            )  # fmt: skip
    else:
        finish(
            total, y, residual, second, stats, offset, sums, gamma, beta, a_means, a_squares, r_means, r_squares,
            N, y_row, r_row, s_row, a_eps, r_eps, rows, cols, in_rows, in_cols, tile_n,
            ACTIVATION, RESIDUAL, SECOND, A_BLOCKS, R_BLOCKS, STATS, BN,
        )  # fmt: skip


@triton.jit
def columns_of(values, cols, in_cols, WANTED: tl.constexpr):
    """A number for each column, or zeros."""
    result = tl.zeros(cols.shape, tl.float32)
    if WANTED:
        result = tl.load(values + cols, mask=in_cols, other=0.0).to(tl.float32)
    return result


@triton.jit
def finish(
    total, y, residual, second, stats, offset, sums, gamma, beta, a_means, a_squares, r_means, r_squares,
    N, y_row, r_row, s_row, a_eps, r_eps, rows, cols, in_rows, in_cols, tile_n,
    ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, SECOND: tl.constexpr, A_BLOCKS: tl.constexpr,
    R_BLOCKS: tl.constexpr, STATS: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """What comes after the sums of one tile."""
    mask = in_rows[:, None] & in_cols[None, :]
    if A_BLOCKS > 0:
        mean, scale = moments_of(a_means, a_squares, a_eps, A_BLOCKS)
        total = (total - mean[:, None] * sums[None, :]) * scale[:, None]
    total = activate(total + offset[None, :], ACTIVATION)
    if RESIDUAL:
        value = tl.load(residual + rows[:, None] * r_row + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        if R_BLOCKS > 0:
            mean, scale = moments_of(r_means, r_squares, r_eps, R_BLOCKS)
            value = (value - mean[:, None]) * scale[:, None] * gamma[None, :] + beta[None, :]
        total += value
    if SECOND:
        total += tl.load(second + rows[:, None] * s_row + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    result = total.to(y.dtype.element_ty)
    tl.store(y + rows[:, None].to(tl.int64) * y_row + cols[None, :], result, mask=mask)
    if STATS:  # of the numbers as they are stored, which are those that the norm would read
        PARTS: tl.constexpr = BN // STATS_WIDTH
        stored = tl.reshape(result.to(tl.float32), (rows.shape[0], PARTS, STATS_WIDTH))
        mean = tl.sum(stored, 2) / STATS_WIDTH
        apart = stored - mean[:, :, None]
        blocks = tile_n * PARTS + tl.arange(0, PARTS)
        at = stats + (rows[:, None] * (N // STATS_WIDTH) + blocks[None, :]) * 2
        inside = in_rows[:, None] & (blocks[None, :] < N // STATS_WIDTH)
        tl.store(at, mean, mask=inside)
        tl.store(at + 1, tl.sum(apart * apart, 2), mask=inside)


@triton.jit
def norm_kernel(
    x, y, gamma, beta, ROWS, x_row, eps, N: tl.constexpr, PADDED: tl.constexpr, BM: tl.constexpr, PDL: tl.constexpr
):
    """A layer norm of BM rows."""
    columns = tl.arange(0, PADDED)
    inside = columns < N
    scale = tl.load(gamma + columns, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(beta + columns, mask=inside, other=0.0).to(tl.float32)
    wait_for_inputs(PDL)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    mask = (rows < ROWS)[:, None] & inside[None, :]
    value = tl.load(x + rows[:, None] * x_row + columns[None, :], mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(value, 1) / N
    apart = tl.where(mask, value - mean[:, None], 0.0)
    rate = 1.0 / tl.sqrt(tl.sum(apart * apart, 1) / N + eps)
    result = apart * rate[:, None] * scale[None, :] + shift[None, :]
    tl.store(y + rows[:, None] * N + columns[None, :], result.to(y.dtype.element_ty), mask=mask)
