"""Attention on a GPU, whole or over a cache that grows: candidates and their launches."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton

from proveout.devices.cuda import ops
from proveout.devices.cuda.choose import Candidate, all_of, fastest, is_half
from proveout.devices.cuda.launch.products import Turn, product
from proveout.devices.cuda.launcher import launch
from proveout.devices.cuda.triton_attention import attention_kernel
from proveout.devices.cuda.triton_vector import append_kernel

Tensor = torch.Tensor


def attention_candidates(queries: int, keys: int, depth: int) -> list[Candidate]:
    rows = all_of("attention", BM=(16, 32, 64, 128), BN=(32, 64, 128), warps=(4,), stages=(2, 3))
    return [
        (name, numbers | {"warps": 8 if numbers["BM"] == 128 else 4})
        for name, numbers in rows
        if numbers["BM"] <= max(queries, 16) and numbers["BN"] <= max(keys, 32) and depth <= 128
    ]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    turn: str = "",
    out: Tensor | None = None,
) -> Tensor:
    """`out`: where the result is written, if not to memory of its own."""
    operands = q, k, v, mask, causal, scale, cos, sin, turn, out
    fits = is_half(q, k, v) and q.shape[-1] == v.shape[-1] and all(t.stride(-1) == 1 for t in (q, k, v))
    if not fits:
        return attention_meaning(*operands)
    masked = "" if mask is None else f"{mask.dtype} {tuple(mask.shape)}"
    key = f"attention {q.dtype} {tuple(q.shape)} {k.shape[1]}x{k.shape[2]} {'causal' if causal else ''} {masked}"
    if cos is not None:
        key += f" {turn} {cos.shape[1]}"
    candidates = partial(attention_candidates, q.shape[2], k.shape[2], q.shape[3])
    return fastest(key, candidates, attention_meaning, launch_attention, operands)


def attention_meaning(*operands: Any) -> Tensor:
    *plain, out = operands
    result = ops.attention_meaning(*plain)
    return result if out is None else out.copy_(result)


def launch_attention(
    numbers: dict[str, int],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    turn: str = "",
    out: Tensor | None = None,
) -> Tensor:
    batch, heads, queries, depth = q.shape
    keys = k.shape[2]
    out = ops.heads_last(q) if out is None else out
    kind, mask = _spread(mask, batch, heads, queries, keys)
    padded = max(16, triton.next_power_of_2(depth))
    whole = queries % numbers["BM"] == 0 and keys % numbers["BN"] == 0 and padded == depth
    tables = (q, q) if cos is None or sin is None else (cos.contiguous(), sin.contiguous())
    arguments = (
        q, k, v, q if mask is None else mask, *tables, out, scale, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        *((0, 0, 0, 0) if mask is None else mask.stride()), *out.stride()[:3], queries, keys, heads,
    )  # fmt: skip
    constants = {
        "GROUP": heads // k.shape[1], "DEPTH": depth, "PADDED": padded, "CAUSAL": causal, "MASK": kind, "WHOLE": whole,
        "ANGLES": 0 if cos is None else cos.shape[1], "PAIRS": turn == "pairs",
    }  # fmt: skip
    grid = (triton.cdiv(queries, numbers["BM"]), batch * heads)
    launch(attention_kernel, grid, arguments, constants, numbers, ("BM", "BN"))
    return out


def _spread(mask: Tensor | None, *shape: int) -> tuple[int, Tensor | None]:
    """The kind of a mask (none, numbers to add, booleans), and the mask over all heads and queries."""
    if mask is None:
        return 0, None
    return (2 if mask.dtype == torch.bool else 1), mask.expand(*shape)


def branches(*operands: Any) -> Tensor:
    """One product for both, then attention of some of its columns; each by its own fastest kernel."""
    a, w, bias, activation, a_stats, columns, a_eps, starts, sizes, mask, causal, scale, cos, sin, turn = operands
    parts = ops.Branches(a, w.shape[1], starts, sizes)
    turned: Turn | None = None
    _, heads, shared, depth = sizes
    if turn == "pairs" and starts[1] == starts[0] + heads * depth:
        turned = Turn(cos.contiguous(), sin.contiguous(), starts[0], starts[1] + shared * depth, depth)
        cos, sin, turn = None, None, ""
    rest = None, None, None, 0.0, False, parts.hidden, parts.product, turned
    product(a, w, bias, activation, None, None, a_stats, columns, a_eps, *rest)
    attention(parts.q, parts.k, parts.v, mask, causal, scale, cos, sin, turn, parts.attention)
    return parts.result


def append(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, position: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """One new row for each sequence in one kernel; several (a prompt) are written first."""
    operands = q, k, v, keys, values, position, mask, scale
    if q.shape[2] > 1:
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        return attention(q, keys, values, mask, False, scale)
    if q.shape[-1] != v.shape[-1] or any(t.stride(-1) != 1 for t in (q, k, v, keys, values)):
        return ops.append_meaning(*operands)
    key = f"append {q.dtype} {tuple(q.shape)} {keys.shape[1]}x{keys.shape[2]} {'' if mask is None else mask.dtype}"
    candidates = partial(all_of, "append", BN=(32, 64, 128), warps=(4, 8), stages=(1, 2))
    return fastest(key, candidates, ops.append_meaning, launch_append, operands)


def launch_append(
    numbers: dict[str, int],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    mask: Tensor | None,
    scale: float,
) -> Tensor:
    batch, heads, _, depth = q.shape
    length = keys.shape[2]
    out = ops.heads_last(q)
    kind, mask = _spread(mask, batch, heads, 1, length)
    columns = (0, 0, 0) if mask is None else (mask.stride(0), mask.stride(1), mask.stride(3))
    arguments = (
        q, k, v, keys, values, position, q if mask is None else mask, out, scale,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *keys.stride()[:3], *values.stride()[:3], *columns,
        *out.stride()[:2], length, heads,
    )  # fmt: skip
    constants = {
        "GROUP": heads // k.shape[1], "DEPTH": depth, "PADDED": max(16, triton.next_power_of_2(depth)), "MASK": kind
    }  # fmt: skip
    launch(append_kernel, (batch * heads,), arguments, constants, numbers, ("BN",))
    return out
