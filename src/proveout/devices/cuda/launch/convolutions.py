"""Convolutions on a GPU: candidates and their launches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from proveout.devices.cuda import ops
from proveout.devices.cuda.choose import Candidate, all_of, by_promise, fastest, is_half
from proveout.devices.cuda.launcher import launch, scratch
from proveout.devices.cuda.triton_conv import conv_kernel, pool_kernel, stem_kernel, window_kernel

Tensor = torch.Tensor


CONV_TILES = (
    (128, 128, 64, 8, 3), (128, 64, 64, 4, 4), (64, 64, 64, 4, 5), (64, 32, 64, 4, 6), (32, 64, 64, 4, 6), (32, 32, 64, 4, 6), (64, 64, 32, 4, 5),  # noqa: E501
    (64, 32, 128, 4, 5), (32, 32, 128, 4, 5), (16, 64, 64, 4, 6), (16, 32, 128, 4, 5), (16, 64, 128, 4, 4), (128, 32, 64, 4, 6),  # noqa: E501
    (64, 32, 64, 4, 4), (64, 64, 64, 8, 4), (64, 64, 128, 4, 3), (32, 64, 128, 4, 3), (64, 128, 64, 4, 3),
)  # fmt: skip
STEM_TILES = (
    (64, 64, 256, 8, 1), (32, 128, 256, 8, 1), (64, 64, 256, 4, 1), (32, 64, 256, 4, 1), (64, 64, 64, 4, 3), (32, 64, 64, 4, 3),  # noqa: E501
    (32, 128, 64, 4, 3), (64, 128, 64, 4, 3), (128, 64, 64, 4, 3), (128, 128, 64, 8, 3),
)  # fmt: skip
TOGETHER = 2
"""Neighbouring outputs of an image with few channels that are one row of a product."""
FEW_CHANNELS = 4


def conv_candidates(m: int, n: int, k: int, channels: int, beside: int = 0) -> list[Candidate]:
    """As for products; where even the smallest tiles are few, all of them, and of large convolutions only large. With
    channels `beside`, a step takes a slice of either image's."""
    rows: list[tuple[int, Candidate]] = []
    large = m * n >= 1 << 20
    for bm, bn, bk, warps, stages in CONV_TILES:
        if bn > max(n, 16) or (bk > 64 and channels % bk) or (bm > 16 and bm >= 2 * m) or (large and bm * bn < 4096):
            continue
        if beside and (channels % bk or beside % bk):
            continue
        for split in (1,) if large else (1, 2, 3, 4, 5, 6, 8, 9, 12, 18):
            blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn) * split
            if (split > 1 and k // split < 2 * bk) or (blocks > (900 if split == 1 else 300) and not large):
                continue
            for tma in (0, 1) if n % 8 == 0 else (0,):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": warps, "stages": stages}
                rows.append((blocks, ("conv", numbers)))
    enough = min(60, max((blocks for blocks, _ in rows), default=0) // 2)
    return by_promise([row for row in rows if row[0] >= enough])


def stem_candidates() -> list[Candidate]:
    names = ("BM", "BN", "BK", "warps", "stages")
    return [("stem", dict(zip(names, tile)) | {"TOGETHER": TOGETHER}) for tile in STEM_TILES]


def conv(*operands: Any) -> Tensor:
    x, w, _, residual, activation, image, window, stride, padding, dilation, beside, _ = operands
    where = " ".join("x".join(map(str, part)) for part in (image, window, stride, padding, dilation))
    key = f"conv {x.dtype} {where} {w.shape[1]} {activation} {'r' if residual is not None else ''}"
    more, by_channel = 0 if beside is None else beside.shape[3], x.dim() == 4 and x.stride(3) != 1
    key += f" beside {more}" if more else ""
    key += " by channel" if by_channel else ""

    def candidates() -> list[Candidate]:
        sizes = [ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation)]
        m = image[0] * sizes[0] * sizes[1]
        if not is_half(x, w, residual, beside):
            return []
        lines = by_channel and image[3] <= FEW_CHANNELS and x.stride(2) == 1 and list(dilation) == [1, 1]
        rows = conv_candidates(m, w.shape[1], w.shape[0], image[3], more)
        return [*stem_candidates(), *rows] if lines and residual is None else rows

    return fastest(key, candidates, ops.conv_meaning, launch_conv, operands, weight=1)


def launch_conv(
    numbers: dict[str, int],
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    activation: str,
    image: list[int],
    window: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    beside: Tensor | None = None,
    steps: Sequence[int] = (1, 1),
) -> Tensor:
    if "TOGETHER" in numbers:
        return launch_stem(numbers, x, w, bias, activation, image, window, stride, padding)
    batch, height, width, channels = image
    picture = x.reshape(batch, height, width, channels)
    out_h, out_w = (ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation))
    m, n = batch * out_h * out_w, w.shape[1]
    y = x.new_empty(1, 1, m, n)
    sums, arrived = scratch(x.device)
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(n, numbers["BN"])
    rest = y if residual is None else residual.reshape(m, n).contiguous()
    tma, split, slice_ = bool(numbers.get("TMA")), numbers["SPLIT"], numbers["BK"]
    w_map = TensorDescriptor(w, list(w.shape), list(w.stride()), [slice_, numbers["BN"]]) if tma else w
    constants: dict[str, Any] = {"KH": window[0], "KW": window[1], "ACTIVATION": activation, "TMA": tma}
    if channels % slice_ == 0 and picture.stride(3) == 1 and window[0] * window[1] <= ops.MOST_SPOTS:
        other = picture if beside is None else beside[:, :: steps[0], :: steps[1]]
        other = other if other.stride(3) == 1 else other.contiguous()
        own = window[0] * window[1] * channels // slice_
        arguments = (
            picture, other, w, w_map, y, bias, rest, sums, arrived,
            m, n, channels, height, width, out_h, out_w, *picture.stride()[:3], *other.stride()[:3],
            *stride, *padding, *dilation, own, w.shape[0] // slice_, split, int(residual is not None),
        )  # fmt: skip
        launch(conv_kernel, (tiles * split,), arguments, constants, numbers, ("BM", "BN", "BK"))
        return y
    assert beside is None
    arguments = (picture, w, w_map, y, bias, rest, sums, arrived, m, n, height, width, out_h, out_w, *picture.stride())
    constants |= {
        "C": channels, "STRIDE_H": stride[0], "STRIDE_W": stride[1], "PAD_H": padding[0], "PAD_W": padding[1],
        "GAP_H": dilation[0], "GAP_W": dilation[1], "RESIDUAL": residual is not None,
    }  # fmt: skip
    launch(window_kernel, (tiles * split,), arguments, constants, numbers, ("SPLIT", "BM", "BN", "BK"))
    return y


def launch_stem(
    numbers: dict[str, int],
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    activation: str,
    image: list[int],
    window: list[int],
    stride: list[int],
    padding: list[int],
) -> Tensor:
    batch, height, width, channels = image
    picture = x.reshape(batch, height, width, channels)
    out_h, out_w = (ops.conv_size(*one, 1) for one in zip(image[1:3], window, stride, padding))
    together, n = numbers["TOGETHER"], w.shape[1]
    groups = triton.cdiv(out_w, together)
    m = batch * out_h * groups
    y = x.new_empty(1, 1, batch * out_h * out_w, n)
    lead = triton.cdiv(padding[1], 4) * 4
    span = triton.cdiv(lead - padding[1] + (together - 1) * stride[1] + window[1], 4) * 4
    x_image, x_row, _, x_channel = picture.stride()
    arguments = (picture, w, y, bias, m, height, width, out_h, out_w, groups, x_image, x_row, x_channel)
    constants = {
        "C": channels, "N": n, "KH": window[0], "KW": window[1], "STRIDE_H": stride[0], "STRIDE_W": stride[1],
        "PAD_H": padding[0], "PAD_W": padding[1], "ACTIVATION": activation, "LEAD": lead, "SPAN": span,
    }  # fmt: skip
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(together * n, numbers["BN"])
    launch(stem_kernel, (tiles,), arguments, constants, numbers, ("TOGETHER", "BM", "BN", "BK"))
    return y


def pool(*operands: Any) -> Tensor:
    x, image, window, stride, padding, dilation = operands
    where = " ".join("x".join(map(str, part)) for part in (image, window, stride, padding, dilation))
    serves = is_half(x) and x.reshape(image).stride(3) == 1
    candidates = partial(all_of, "pool", BM=(8, 16, 32, 64), BN=(32, 64), warps=(2, 4, 8), stages=(1,))
    key = f"pool {x.dtype} {where}"
    return fastest(key, candidates if serves else list, ops.pool_meaning, launch_pool, operands)


def launch_pool(
    numbers: dict[str, int],
    x: Tensor,
    image: list[int],
    window: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> Tensor:
    batch, height, width, channels = image
    picture = x.reshape(batch, height, width, channels)
    out_h, out_w = (ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation))
    m = batch * out_h * out_w
    y = x.new_empty(1, 1, m, channels)
    arguments = (picture, y, m, height, width, out_h, out_w, *picture.stride()[:3])
    constants = {
        "C": channels, "KH": window[0], "KW": window[1], "STRIDE_H": stride[0], "STRIDE_W": stride[1],
        "PAD_H": padding[0], "PAD_W": padding[1], "GAP_H": dilation[0], "GAP_W": dilation[1],
    }  # fmt: skip
    grid = (triton.cdiv(m, numbers["BM"]), triton.cdiv(channels, numbers["BN"]))
    launch(pool_kernel, grid, arguments, constants, numbers, ("BM", "BN"))
    return y
