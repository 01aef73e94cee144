"""Convolutions of channels-last images as one product: windows are gathered on the way, and batch norm (as a bias),
residual and ReLU happen before the result is stored; cut along the inner dimension where there are few tiles."""

from __future__ import annotations

import triton
import triton.language as tl

from proveout.devices.cuda.triton_shared import activate, prefetch, wait_for_inputs


@triton.jit(
    do_not_specialize=[
        "M", "H", "W", "OH", "OW", "stride_h", "stride_w", "pad_h", "pad_w", "gap_h", "gap_w", "own", "steps", "split",
        "adds",
    ]
)  # fmt: skip
def conv_kernel(
    x, beside, w, w_map, y, bias, residual, partial, arrived,
    M, N, C, H, W, OH, OW, x_image, x_row, x_column, b_image, b_row, b_column,
    stride_h, stride_w, pad_h, pad_w, gap_h, gap_w, own, steps, split, adds,
    KH: tl.constexpr, KW: tl.constexpr, ACTIVATION: tl.constexpr, TMA: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """y[M, N] from x[image, H, W, C] and w[KH * KW * C, N]; M counts output positions, and a step takes BK channels of
    one position of the window. After the `own` steps come those of a second image whose positions are the output's: a
    1 x 1 convolution beside this one, with its filters after the others in w. What shapes differ in are numbers of the
    call, not of the compiled kernel: a network's convolutions are few kernels then."""
    pid = tl.program_id(0)
    part, tile = pid % split, pid // split
    tiles_m = tl.cdiv(M, BM)
    tile_m, tile_n = tile % tiles_m, tile // tiles_m
    rows = tile_m * BM + tl.arange(0, BM)
    cols = tile_n * BN + tl.arange(0, BN)
    in_rows, in_cols = rows < M, cols < N
    inner = tl.arange(0, BK)
    each = tl.cdiv(steps, split)
    first = part * each
    last = tl.minimum(first + each, steps)
    if PDL:
        for step in range(first + tile_m, last, tiles_m):
            prefetch(w + (_row(step, own, C, KH * KW, BK) + inner) * N + tile_n * BN)
    offset = tl.load(bias + cols, mask=in_cols, other=0.0).to(tl.float32)  # on its way before anything is waited for
    image, place = rows // (OH * OW), rows % (OH * OW)
    line = place // OW
    column = place - line * OW
    top, left = line * stride_h - pad_h, column * stride_w - pad_w
    corner = x + (image * x_image + top * x_row + left * x_column)
    spot_beside = beside + (image * b_image + line * b_row + column * b_column)
    shown = in_rows.to(tl.int32) << 31  # a bit for each position of the window: whether it is inside the image
    for bit in tl.static_range(KH * KW):
        h, v = top + bit // KW * gap_h, left + bit % KW * gap_w
        inside = in_rows & (h >= 0) & (h < H) & (v >= 0) & (v < W)
        shown |= inside.to(tl.int32) << bit
    filters_at = w + inner[:, None] * N + cols[None, :]
    wait_for_inputs(PDL)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(first, last):
        at = _row(step, own, C, KH * KW, BK)
        spot, block = step % (KH * KW), step // (KH * KW)
        is_own = step < own
        away = spot // KW * gap_h * x_row + spot % KW * gap_w * x_column + block * BK
        away = tl.where(is_own, away, (step - own) * BK)
        seen = (shown >> tl.where(is_own, spot, 31)) & 1
        source = tl.where(is_own, corner, spot_beside)
        window = tl.load(source[:, None] + (away + inner)[None, :], mask=seen[:, None] != 0, other=0.0)
        if TMA:
            filters = w_map.load([at, tile_n * BN])
        else:
            filters = tl.load(filters_at + at * N, mask=in_cols[None, :], other=0.0)
        total = tl.dot(window, filters, total)
    complete = split == 1
    if split > 1:
        mine = partial + tile * (split * BM * BN)
        spots = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        tl.store(mine + part * (BM * BN) + spots, total)
        tl.debug_barrier()
        complete = tl.atomic_add(arrived + tile, 1, sem="acq_rel", scope="gpu") == split - 1
        if complete:
            tl.store(arrived + tile, 0)
            total = tl.zeros((BM, BN), tl.float32)
            for begin in range(0, split, 4):
                for other in tl.static_range(4):
                    here = begin + other
                    total += tl.load(
                        mine + here * (BM * BN) + spots, mask=here < split, other=0.0, cache_modifier=".cg"
                    )
    if complete:
        mask = in_rows[:, None] & in_cols[None, :]
        to = rows[:, None] * N + cols[None, :]
        total += offset[None, :]
        total += tl.load(residual + to, mask=mask & (adds > 0), other=0.0).to(tl.float32)
        tl.store(y + to, activate(total, ACTIVATION).to(y.dtype.element_ty), mask=mask)


@triton.jit
def _row(step, own, C, SPOTS: tl.constexpr, BK: tl.constexpr):
    """The row of w where a step begins: a slice of the channels at one position of the window after the other."""
    return tl.where(step < own, step % SPOTS * C + step // SPOTS * BK, SPOTS * C + (step - own) * BK)


@triton.jit
def window_kernel(
    x, w, w_map, y, bias, residual, partial, arrived,
    M, N, H, W, OH, OW, x_image, x_row, x_column, x_channel,
    C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr, PAD_W: tl.constexpr, GAP_H: tl.constexpr, GAP_W: tl.constexpr,
    RESIDUAL: tl.constexpr, ACTIVATION: tl.constexpr, TMA: tl.constexpr, SPLIT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """As conv_kernel, of channels that are not a multiple of BK, or that do not lie one after another: what a step
    takes are BK numbers of the whole window, each of which is looked up."""
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
    offset = tl.load(bias + cols, mask=in_cols, other=0.0).to(tl.float32)  # on its way before anything is waited for
    wait_for_inputs(PDL)
    image = rows // (OH * OW)
    top = (rows // OW) % OH * STRIDE_H - PAD_H
    left = rows % OW * STRIDE_W - PAD_W
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(first, last):
        index = step * BK + inner
        spot, channel = index // C, index % C
        h = top[:, None] + (spot // KW * GAP_H)[None, :]
        across = left[:, None] + (spot % KW * GAP_W)[None, :]
        seen = in_rows[:, None] & (index < K)[None, :] & (h >= 0) & (h < H) & (across >= 0) & (across < W)
        where = (image * x_image)[:, None] + h * x_row + across * x_column + (channel * x_channel)[None, :]
        window = tl.load(x + where, mask=seen, other=0.0)
        if TMA:
            filters = w_map.load([step * BK, tile_n * BN])
        else:
            known = (index < K)[:, None] & in_cols[None, :]
            filters = tl.load(w + index[:, None] * N + cols[None, :], mask=known, other=0.0)
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


@triton.jit
def stem_kernel(
    x, w, y, bias, M, H, W, OH, OW, GROUPS, x_image, x_row, x_channel,
    C: tl.constexpr, N: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, ACTIVATION: tl.constexpr,
    TOGETHER: tl.constexpr, LEAD: tl.constexpr, SPAN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """As conv_kernel, of an image with few channels, each of which lies by itself. A row of the product is TOGETHER
    neighbouring outputs, so that what it reads of a line of the image are SPAN numbers one after another; its columns
    are the filters of each. GROUPS is how many such rows make a line of the output, LEAD where the first begins."""
    K: tl.constexpr = KH * C * SPAN
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    rows = pid % tiles_m * BM + tl.arange(0, BM)
    cols = pid // tiles_m * BN + tl.arange(0, BN)
    place, which = cols // N, cols % N
    in_rows, in_cols = rows < M, cols < TOGETHER * N
    offset = tl.load(bias + which, mask=in_cols, other=0.0).to(tl.float32)
    inner = tl.arange(0, BK)
    wait_for_inputs(PDL)
    group, line, image = rows % GROUPS, (rows // GROUPS) % OH, rows // (GROUPS * OH)
    top = line * STRIDE_H - PAD_H
    left = group * (TOGETHER * STRIDE_W) - LEAD
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        index = start + inner
        column, kh, channel = index % SPAN, index // SPAN // C, index // SPAN % C
        h = top[:, None] + kh[None, :]
        across = left[:, None] + column[None, :]
        seen = in_rows[:, None] & (index < K)[None, :] & (h >= 0) & (h < H) & (across >= 0) & (across < W)
        at = (image * x_image)[:, None] + h * x_row + (channel * x_channel)[None, :] + across
        window = tl.load(x + at, mask=seen, other=0.0)
        kw = column[:, None] - (LEAD - PAD_W) - (place * STRIDE_W)[None, :]
        known = (index < K)[:, None] & in_cols[None, :] & (kw >= 0) & (kw < KW)
        filters = tl.load(
            w + ((kh[:, None] * KW + kw) * C + channel[:, None]) * N + which[None, :], mask=known, other=0.0
        )
        total = tl.dot(window, filters, total)
    out = group[:, None] * TOGETHER + place[None, :]
    to = (image * OH + line)[:, None] * OW + out
    result = activate(total + offset[None, :], ACTIVATION).to(y.dtype.element_ty)
    tl.store(y + to * N + which[None, :], result, mask=in_rows[:, None] & in_cols[None, :] & (out < OW))


@triton.jit
def pool_kernel(
    x, y, M, H, W, OH, OW, x_image, x_row, x_column,
    C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    PAD_H: tl.constexpr, PAD_W: tl.constexpr, GAP_H: tl.constexpr, GAP_W: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The largest of each window, channel by channel; not a number where the window has one."""
    wait_for_inputs(PDL)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    in_rows, in_cols = rows < M, cols < C
    image = rows // (OH * OW)
    top = (rows // OW) % OH * STRIDE_H - PAD_H
    left = rows % OW * STRIDE_W - PAD_W
    best = tl.full((BM, BN), float("-inf"), x.dtype.element_ty)
    for spot in tl.static_range(KH * KW):
        h, across = top + spot // KW * GAP_H, left + spot % KW * GAP_W
        seen = in_rows & (h >= 0) & (h < H) & (across >= 0) & (across < W)
        at = (image * x_image + h * x_row + across * x_column)[:, None] + cols[None, :]
        here = tl.load(x + at, mask=seen[:, None] & in_cols[None, :], other=float("-inf"))
        best = tl.maximum(best, here, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y + rows[:, None] * C + cols[None, :], best, mask=in_rows[:, None] & in_cols[None, :])
