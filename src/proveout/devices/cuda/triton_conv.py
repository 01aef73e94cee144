"""Convolutions of channels-last images as one product: windows are gathered on the way, and batch norm (as a bias),
residual and ReLU happen before the result is stored; cut along the inner dimension where there are few tiles."""

from __future__ import annotations

import triton
import triton.language as tl

from proveout.devices.cuda.triton_shared import activate, prefetch, wait_for_inputs


@triton.jit
def conv_kernel(
    x, w, w_map, y, bias, residual, partial, arrived,
    M, N, H, W, OH, OW, x_image, x_row, x_column, x_channel,
    C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr, PAD_W: tl.constexpr, GAP_H: tl.constexpr, GAP_W: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, ACTIVATION: tl.constexpr, SPLIT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TMA: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """y[M, N] from x[image, H, W, C] and w[KH * KW * C, N]; M counts output positions."""
    K: tl.constexpr = KH * KW * C
    STEPS: tl.constexpr = (K + BK - 1) // BK
    EACH: tl.constexpr = (STEPS + SPLIT - 1) // SPLIT
    pid = tl.program_id(0)
    part = pid % SPLIT
    tile = pid // SPLIT
    tiles_m = tl.cdiv(M, BM)
    tile_m = tile % tiles_m
    tile_n = tile // tiles_m
    rows = tile_m * BM + tl.arange(0, BM)
    cols = tile_n * BN + tl.arange(0, BN)
    in_rows, in_cols = rows < M, cols < N
    inner = tl.arange(0, BK)
    first = part * EACH
    last = tl.minimum(first + EACH, STEPS)
    if PDL:
        for step in range(first + tile_m, last, tiles_m):
            prefetch(w + tl.minimum(step * BK + inner, K - 1) * N + tile_n * BN)
    offset = tl.zeros((BN,), tl.float32)
    if BIAS:  # on its way before anything is waited for
        offset = tl.load(bias + cols, mask=in_cols, other=0.0).to(tl.float32)
    wait_for_inputs(PDL)
    image = rows // (OH * OW)
    top = (rows // OW) % OH * STRIDE_H - PAD_H
    left = rows % OW * STRIDE_W - PAD_W
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(first, last):
        at = step * BK
        if C % BK == 0:  # one step is inside one position of the window
            spot = step // (C // BK)
            channel = step % (C // BK) * BK + inner
            h, across = top + spot // KW * GAP_H, left + spot % KW * GAP_W
            seen = in_rows & (h >= 0) & (h < H) & (across >= 0) & (across < W)
            base = image * x_image + h * x_row + across * x_column
            window = tl.load(x + base[:, None] + channel[None, :] * x_channel, mask=seen[:, None], other=0.0)
            if not TMA:
                filters = tl.load(w + (at + inner)[:, None] * N + cols[None, :], mask=in_cols[None, :], other=0.0)
        else:
            index = at + inner
            spot, channel = index // C, index % C
            h = top[:, None] + (spot // KW * GAP_H)[None, :]
            across = left[:, None] + (spot % KW * GAP_W)[None, :]
            seen = in_rows[:, None] & (index < K)[None, :] & (h >= 0) & (h < H) & (across >= 0) & (across < W)
            where = (image * x_image)[:, None] + h * x_row + across * x_column + (channel * x_channel)[None, :]
            window = tl.load(x + where, mask=seen, other=0.0)
            if not TMA:
                known = (index < K)[:, None] & in_cols[None, :]
                filters = tl.load(w + index[:, None] * N + cols[None, :], mask=known, other=0.0)
        if TMA:
            filters = w_map.load([at, tile_n * BN])
        total = tl.dot(window, filters, total)
    if SPLIT > 1:
        mine = partial + tile * (SPLIT * BM * BN)
        spots = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        tl.store(mine + part * (BM * BN) + spots, total)
        tl.debug_barrier()
        before = tl.atomic_add(arrived + tile, 1, sem="acq_rel", scope="gpu")
        if before == SPLIT - 1:
            tl.store(arrived + tile, 0)
            total = tl.load(mine + spots, cache_modifier=".cg")
            for other in tl.static_range(1, SPLIT):
                total += tl.load(mine + other * (BM * BN) + spots, cache_modifier=".cg")
            _finish(total + offset[None, :], y, residual, N, rows, cols, in_rows, in_cols, RESIDUAL, ACTIVATION)
    else:
        _finish(total + offset[None, :], y, residual, N, rows, cols, in_rows, in_cols, RESIDUAL, ACTIVATION)


@triton.jit
def _finish(
    total, y, residual, N, rows, cols, in_rows, in_cols, RESIDUAL: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    mask = in_rows[:, None] & in_cols[None, :]
    at = rows[:, None] * N + cols[None, :]
    if RESIDUAL:
        total += tl.load(residual + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + at, activate(total, ACTIVATION).to(y.dtype.element_ty), mask=mask)
