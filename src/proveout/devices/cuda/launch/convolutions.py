"""Convolutions on a GPU: candidates and their launches."""

from __future__ import annotations

from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from proveout.devices.cuda import ops
from proveout.devices.cuda.choose import Candidate, by_promise, fastest, is_half
from proveout.devices.cuda.launcher import launch, scratch
from proveout.devices.cuda.triton_conv import conv_kernel

Tensor = torch.Tensor


CONV_TILES = (
    (128, 128, 64, 8, 3), (128, 64, 64, 4, 4), (64, 64, 64, 4, 5), (64, 32, 64, 4, 6), (32, 64, 64, 4, 6), (32, 32, 64, 4, 6), (64, 64, 32, 4, 5),  # noqa: E501
    (64, 32, 128, 4, 5), (32, 32, 128, 4, 5), (16, 64, 64, 4, 6), (16, 32, 128, 4, 5), (16, 64, 128, 4, 4), (128, 32, 64, 4, 6),  # noqa: E501
)  # fmt: skip


def conv_candidates(m: int, n: int, k: int, channels: int) -> list[Candidate]:
    """As for products; where even the smallest tiles are few, all of them, and of large convolutions only large."""
    rows: list[tuple[int, Candidate]] = []
    large = m * n >= 1 << 20
    for bm, bn, bk, warps, stages in CONV_TILES:
        if bn > max(n, 16) or (bk > 64 and channels % bk) or (bm > 16 and bm >= 2 * m) or (large and bm * bn < 4096):
            continue
        for split in (1,) if large else (1, 2, 3, 4, 6, 9, 12, 18):
            blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn) * split
            if (split > 1 and k // split < 2 * bk) or (blocks > (900 if split == 1 else 300) and not large):
                continue
            for tma in (0, 1) if n % 8 == 0 else (0,):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": warps, "stages": stages}
                rows.append((blocks, ("conv", numbers)))
    enough = min(60, max((blocks for blocks, _ in rows), default=0) // 2)
    return by_promise([row for row in rows if row[0] >= enough])


def conv(*operands: Any) -> Tensor:
    x, w, _, residual, activation, image, window, stride, padding, dilation = operands
    where = " ".join("x".join(map(str, part)) for part in (image, window, stride, padding, dilation))
    key = f"conv {x.dtype} {where} {w.shape[1]} {activation} {'r' if residual is not None else ''}"

    def candidates() -> list[Candidate]:
        sizes = [ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation)]
        m = image[0] * sizes[0] * sizes[1]
        return conv_candidates(m, w.shape[1], w.shape[0], image[3]) if is_half(x, w, residual) else []

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
) -> Tensor:
    batch, height, width, channels = image
    picture = x.reshape(batch, height, width, channels)
    out_h, out_w = (ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation))
    m, n = batch * out_h * out_w, w.shape[1]
    y = x.new_empty(1, 1, m, n)
    partial, arrived = scratch(x.device)
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(n, numbers["BN"])
    rest = y if residual is None else residual.reshape(m, n).contiguous()
    tma = bool(numbers.get("TMA"))
    w_map = TensorDescriptor(w, list(w.shape), list(w.stride()), [numbers["BK"], numbers["BN"]]) if tma else w
    arguments = (
        picture, w, w_map, y, bias, rest, partial, arrived, m, n, height, width, out_h, out_w, *picture.stride()
    )  # fmt: skip
    constants = {
        "C": channels, "KH": window[0], "KW": window[1], "STRIDE_H": stride[0], "STRIDE_W": stride[1],
        "PAD_H": padding[0], "PAD_W": padding[1], "GAP_H": dilation[0], "GAP_W": dilation[1], "BIAS": True,
        "RESIDUAL": residual is not None, "ACTIVATION": activation, "TMA": tma,
    }  # fmt: skip
    launch(conv_kernel, (tiles * numbers["SPLIT"],), arguments, constants, numbers, ("SPLIT", "BM", "BN", "BK"))
    return y
