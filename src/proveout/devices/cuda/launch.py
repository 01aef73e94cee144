"""The fused calls on a GPU: for each, candidates from the library and of our Triton kernels, and their launches."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from proveout.devices.cuda import ops
from proveout.devices.cuda.choose import Candidate, best, choices, copies
from proveout.devices.cuda.launcher import launch, scratch
from proveout.devices.cuda.triton_attention import attention_kernel
from proveout.devices.cuda.triton_conv import conv_kernel
from proveout.devices.cuda.triton_product import norm_kernel, product_kernel
from proveout.devices.cuda.triton_vector import append_kernel, float8_rows_kernel, vector_kernel

Tensor = torch.Tensor
LIBRARY: Candidate = ("library", {})
HALF = (torch.bfloat16, torch.float16)
FLOATS = (*HALF, torch.float32)
SHORTLIST, HURRIED = 16, 3
"""Candidates of a call that are measured when it is first made; `tests/bench/cuda_tune.py` measures all. A process that
has spent `PATIENCE_S` on measuring goes on with fewer."""
PATIENCE_S = 90.0
_spent_s = 0.0


def _numbers(**values: tuple[int, ...]) -> list[dict[str, int]]:
    return [dict(zip(values, row)) for row in itertools.product(*values.values())]


def _is_half(*tensors: Tensor | None) -> bool:
    return all(t is None or t.dtype in HALF for t in tensors)


_chosen: dict[str, Candidate] = {}


def _choice(
    key: str, candidates: Callable[[], list[Candidate]], call: Callable[[Candidate, int], Any], weight: Tensor | None
) -> Candidate:
    """The candidate for a call: remembered, else measured. `call(candidate, i)` makes it with `spare[i]`, the i-th copy
    of `weight`."""
    global _spent_s
    chosen = _chosen.get(key)
    if chosen is None:
        rows = candidates()
        chosen = choices().get(key, rows)
        if chosen is None and torch.cuda.is_current_stream_capturing():
            return rows[0]  # nothing can be measured now
        if chosen is None:
            if weight is not None:
                spare[:] = [weight, *(weight.clone() for _ in range(copies(weight.nbytes) - 1))]
            began = time.monotonic()
            few = rows[: SHORTLIST if _spent_s < PATIENCE_S else HURRIED]
            chosen = best(key, few, call, weight.nbytes if weight is not None else 1 << 30)
            spare.clear()
            _spent_s += time.monotonic() - began
        _chosen[key] = chosen
    return chosen


spare: list[Tensor] = []


# --- products -----------------------------------------------------------------------------------------------------


PRODUCT_TILES = (
    (128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 5), (64, 256, 64, 4, 4),
    (64, 64, 64, 4, 6), (64, 64, 128, 4, 3), (64, 64, 128, 4, 5), (64, 64, 256, 4, 3), (64, 32, 128, 4, 6),
    (16, 64, 128, 4, 5), (16, 64, 256, 4, 3), (128, 64, 64, 4, 5), (128, 64, 128, 4, 3), (64, 128, 128, 4, 3),
    (128, 256, 64, 8, 4), (64, 256, 64, 8, 4), (256, 128, 64, 8, 3),
)  # fmt: skip
"""Rows, columns and inner length of a tile, warps, and how many tiles are on their way at once."""


def product_candidates(m: int, n: int, k: int, stats: bool, maps: bool) -> list[Candidate]:
    """Tiles that give most multiprocessors something to do, from large to small. Of large products only large tiles."""
    large = m * n >= 1 << 21
    rows: list[tuple[int, Candidate]] = []
    for bm, bn, bk, warps, stages in PRODUCT_TILES:
        if (stats and bn < ops.STATS_WIDTH) or (bm > 64 and m <= 64) or bk > k or (bm < 64 and m > 256):
            continue
        if large and bm * bn < 64 * 128:
            continue
        for split in (1,) if large else (1, 2, 3, 4, 5, 6, 8):
            blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn) * split
            if k // split < 2 * bk or (blocks > 200 and split > 1) or (blocks < 66 and split < 8):
                continue
            for tma in (0, 1) if bm >= 64 and maps else (0,):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": warps, "stages": stages}
                rows.append((blocks, ("product", numbers)))
    return _by_promise(rows)


def _by_promise(rows: list[tuple[int, Candidate]]) -> list[Candidate]:
    """Candidates with their numbers of blocks, those first that come nearest to one block for each multiprocessor of
    the larger GPUs."""
    return [candidate for _, candidate in sorted(rows, key=lambda row: abs(math.log(row[0] / 140)))]


def product(*operands: Any) -> tuple[Tensor, Tensor]:
    a, w, bias, activation, residual, second, a_stats, _, _, r_stats, _, _, _, stats = operands
    (m, k), n = a.shape, w.shape[1]
    if not _is_half(a, w, residual, second) or a.stride(1) != 1 or 1 not in w.stride():
        return ops.product_meaning(*operands)
    order = "k" if w.stride(0) == 1 else "n"
    maps = all(t.data_ptr() % 16 == 0 and max(t.stride()) % 8 == 0 for t in (a, w))
    has = zip("brsnRSu", (bias, residual, second, a_stats, r_stats, stats or None, None if maps else "unaligned"))
    extras = "".join(letter for letter, value in has if value is not None)
    key = f"product {a.dtype} {m}x{k}x{n} {order} {activation} {extras}"

    def candidates() -> list[Candidate]:
        return [LIBRARY, *(product_candidates(m, n, k, stats, maps) if k % 8 == 0 else ())]

    chosen = _choice(key, candidates, lambda candidate, i: _product(candidate, a, spare[i], *operands[2:]), w)
    return _product(chosen, *operands)


def _product(candidate: Candidate, *operands: Any) -> tuple[Tensor, Tensor]:
    return _library_product(*operands) if candidate[0] == "library" else launch_product(candidate[1], *operands)


def _library_product(*operands: Any) -> tuple[Tensor, Tensor]:
    a, w, bias, activation, residual, second, a_stats = operands[:7]
    simple = residual is None and second is None and a_stats is None and not operands[13]
    if simple and activation == "" and (bias is None or bias.dtype == a.dtype):
        y = torch.mm(a, w) if bias is None else torch.addmm(bias, a, w)
        return y, y.new_empty(0, dtype=torch.float32)
    if simple and activation == "gelu_tanh" and bias is not None and bias.dtype == a.dtype:
        y = torch._addmm_activation(bias, a, w, use_gelu=True)  # cuBLASLt's GELU is the tanh form
        return y, y.new_empty(0, dtype=torch.float32)
    return ops.product_meaning(*operands)


def launch_product(
    numbers: dict[str, int],
    a: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    activation: str = "",
    residual: Tensor | None = None,
    second: Tensor | None = None,
    a_stats: Tensor | None = None,
    columns: Tensor | None = None,
    a_eps: float = 0.0,
    r_stats: Tensor | None = None,
    r_gamma: Tensor | None = None,
    r_beta: Tensor | None = None,
    r_eps: float = 0.0,
    stats: bool = False,
) -> tuple[Tensor, Tensor]:
    (m, k), n = a.shape, w.shape[1]
    y = a.new_empty(m, n)
    made = a.new_empty((m, n // ops.STATS_WIDTH, 2) if stats else (0,), dtype=torch.float32)
    partial, arrived = scratch(a.device)
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(n, numbers["BN"])
    assert tiles * numbers["SPLIT"] * numbers["BM"] * numbers["BN"] <= partial.numel() or numbers["SPLIT"] == 1
    tma = bool(numbers.get("TMA"))
    inner_major = w.stride(0) == 1 and w.stride(1) != 1
    a_map, w_map = _maps(numbers, a, w, inner_major) if tma else (a, w)
    a_blocks, r_blocks = (0 if t is None else t.shape[1] for t in (a_stats, r_stats))
    given = (bias, residual, second, a_stats, columns, r_stats, r_gamma, r_beta)
    arguments = (
        a, w, a_map, w_map, y, *(y if t is None else t for t in given), made, partial, arrived,
        m, n, k, a.stride(0), w.stride(0), w.stride(1), y.stride(0),
        0 if residual is None else residual.stride(0), 0 if second is None else second.stride(0), a_eps, r_eps,
    )  # fmt: skip
    constants = {
        "BIAS": bias is not None, "ACTIVATION": activation, "RESIDUAL": residual is not None,
        "SECOND": second is not None, "A_BLOCKS": a_blocks, "A_PADDED": triton.next_power_of_2(a_blocks),
        "R_BLOCKS": r_blocks, "R_PADDED": triton.next_power_of_2(r_blocks), "STATS": stats,
        "WHOLE_K": k % numbers["BK"] == 0, "WHOLE_N": n % numbers["BN"] == 0, "INNER_MAJOR": inner_major, "TMA": tma,
    }  # fmt: skip
    launch(product_kernel, (tiles * numbers["SPLIT"],), arguments, constants, numbers, ("SPLIT", "BM", "BN", "BK"))
    return y, made


def _maps(numbers: dict[str, int], a: Tensor, w: Tensor, inner_major: bool) -> tuple[Any, Any]:
    """Descriptions of both operands for Hopper's copy engine; rows must begin at multiples of 16 bytes."""
    matrix, block = (w.t(), [numbers["BN"], numbers["BK"]]) if inner_major else (w, [numbers["BK"], numbers["BN"]])
    blocks = [numbers["BM"], numbers["BK"]]
    a_map = TensorDescriptor(a, list(a.shape), list(a.stride()), blocks)
    return a_map, TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), block)


def vector_candidates(n: int, k: int) -> list[Candidate]:
    """Columns of a block, and how much of each is on its way at once: all of it where that fits in the registers."""
    whole = triton.next_power_of_2(k)
    rows = [
        (1, 2048, 4),
        (1, 4096, 8),
        (1, whole, 4),
        (2, whole, 4),
        (4, whole, 4),
        (4, whole, 8),
        (8, whole, 8),
        (4, 512, 4),
        (8, 512, 8),
        (8, 256, 4),
    ]
    return [
        ("vector", {"BN": bn, "BK": bk, "warps": warps, "stages": 1})
        for bn, bk, warps in dict.fromkeys(rows)
        if bk <= whole and bn * bk <= 16384 and (n >= 8192 or bn <= 4 or n // bn >= 64)
    ]


def vector(*operands: Any) -> Tensor:
    a, w, scale, bias, activation, residual, second, gamma = operands[:8]
    (m, k), n = a.shape, w.shape[1]
    if a.dtype not in FLOATS or a.stride(1) != 1 or w.stride(0) != 1 or k > 16384:
        return ops.vector_meaning(*operands)
    has = zip("cbrsn", (scale, bias, residual, second, gamma))
    key = f"vector {a.dtype} {w.dtype} {m}x{k}x{n} {activation} {''.join(x for x, value in has if value is not None)}"
    candidates = lambda: [LIBRARY, *vector_candidates(n, k)]  # noqa: E731
    chosen = _choice(key, candidates, lambda candidate, i: _vector(candidate, a, spare[i], *operands[2:]), w)
    return _vector(chosen, *operands)


def _vector(candidate: Candidate, *operands: Any) -> Tensor:
    return _library_vector(*operands) if candidate[0] == "library" else launch_vector(candidate[1], *operands)


def _library_vector(*operands: Any) -> Tensor:
    a, w, scale, bias, activation, residual, second, gamma, beta, eps = operands
    if scale is not None:
        return ops.vector_meaning(*operands)
    x = a if gamma is None else ops.norm_meaning(a, gamma, beta, eps)
    plain = activation == "" and residual is None and second is None and (bias is None or bias.dtype == a.dtype)
    if plain:
        return torch.mm(x, w) if bias is None else torch.addmm(bias, x, w)
    return ops.finished((x @ w).float(), bias, activation, residual, second).to(a.dtype)


def launch_vector(
    numbers: dict[str, int],
    a: Tensor,
    w: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    activation: str = "",
    residual: Tensor | None = None,
    second: Tensor | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    eps: float = 0.0,
) -> Tensor:
    (m, k), n = a.shape, w.shape[1]
    y = a.new_empty(m, n)
    arguments = (
        a, w, y, *(y if t is None else t for t in (scale, bias, residual, second, gamma, beta)),
        m, n, k, a.stride(0), w.stride(1), n, *(0 if t is None else t.stride(0) for t in (residual, second)), eps,
    )  # fmt: skip
    constants = {
        "SCALE": scale is not None, "BIAS": bias is not None, "ACTIVATION": activation,
        "RESIDUAL": residual is not None, "SECOND": second is not None, "NORM": gamma is not None,
        "PADDED": triton.next_power_of_2(k),
    }  # fmt: skip
    launch(vector_kernel, (triton.cdiv(n, numbers["BN"]), m), arguments, constants, numbers, ("BN", "BK"))
    return y


def scaled(
    a: Tensor,
    w: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    activation: str,
    residual: Tensor | None,
    second: Tensor | None,
) -> Tensor:
    """A product in float8: rows get their factors in one kernel, and the library multiplies."""
    rows, factors = launch_float8(a)
    alone = bias if bias is not None and bias.dtype == a.dtype else None
    total = torch._scaled_mm(
        rows, w, scale_a=factors, scale_b=scale[None, :], bias=alone, out_dtype=a.dtype, use_fast_accum=False
    )
    rest = None if alone is not None else bias
    if rest is None and activation == "" and residual is None and second is None:
        return total
    return ops.finished(total.float(), rest, activation, residual, second).to(a.dtype)


def launch_float8(a: Tensor) -> tuple[Tensor, Tensor]:
    m, k = a.shape
    y, factors = a.new_empty(m, k, dtype=ops.FLOAT8), a.new_empty(m, 1, dtype=torch.float32)
    constants = {"LARGEST": torch.finfo(ops.FLOAT8).max, "PADDED": triton.next_power_of_2(k)}
    launch(float8_rows_kernel, (m,), (a, y, factors, k, a.stride(0)), constants, {"warps": 4, "stages": 1})
    return y, factors


# --- norms --------------------------------------------------------------------------------------------------------


def norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    if not _is_half(x) or x.stride(1) != 1 or x.shape[1] > 8192:
        return ops.norm_meaning(x, gamma, beta, eps)
    key = f"norm {x.dtype} {x.shape[0]}x{x.shape[1]}"
    candidates = lambda: [LIBRARY, *(("norm", n) for n in _numbers(BM=(1, 2), warps=(1, 2, 4, 8), stages=(1,)))]  # noqa: E731
    chosen = _choice(key, candidates, lambda candidate, i: _norm(candidate, x, gamma, beta, eps), None)
    return _norm(chosen, x, gamma, beta, eps)


def _norm(candidate: Candidate, x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    if candidate[0] == "library":
        return ops.norm_meaning(x, gamma, beta, eps)
    return launch_norm(candidate[1], x, gamma, beta, eps)


def launch_norm(numbers: dict[str, int], x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    rows, columns = x.shape
    y = x.new_empty(rows, columns)
    constants = {"N": columns, "PADDED": triton.next_power_of_2(columns)}
    arguments = (x, y, gamma, beta, rows, x.stride(0), eps)
    launch(norm_kernel, (triton.cdiv(rows, numbers["BM"]),), arguments, constants, numbers, ("BM",))
    return y


# --- attention ----------------------------------------------------------------------------------------------------


def attention_candidates(queries: int, keys: int, depth: int) -> list[Candidate]:
    rows = _numbers(BM=(16, 32, 64, 128), BN=(32, 64, 128), warps=(4,), stages=(2, 3))
    return [
        ("attention", numbers | {"warps": 8 if numbers["BM"] == 128 else 4})
        for numbers in rows
        if numbers["BM"] <= max(queries, 16) and numbers["BN"] <= max(keys, 32) and depth <= 128
    ]


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    fits = _is_half(q, k, v) and q.shape[-1] == v.shape[-1] and all(t.stride(-1) == 1 for t in (q, k, v))
    if not fits:
        return ops.attention_meaning(q, k, v, mask, causal, scale)
    masked = "" if mask is None else f"{mask.dtype} {tuple(mask.shape)}"
    key = f"attention {q.dtype} {tuple(q.shape)} {k.shape[1]}x{k.shape[2]} {'causal' if causal else ''} {masked}"

    candidates = lambda: [LIBRARY, *attention_candidates(q.shape[2], k.shape[2], q.shape[3])]  # noqa: E731
    call = lambda candidate, i: _attention(candidate, q, k, v, mask, causal, scale)  # noqa: E731
    return _attention(_choice(key, candidates, call, None), q, k, v, mask, causal, scale)


def _attention(candidate: Candidate, *operands: Any) -> Tensor:
    return ops.attention_meaning(*operands) if candidate[0] == "library" else launch_attention(candidate[1], *operands)


def launch_attention(
    numbers: dict[str, int], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> Tensor:
    batch, heads, queries, depth = q.shape
    keys = k.shape[2]
    out = ops.heads_last(q)
    kind, mask = _spread(mask, batch, heads, queries, keys)
    padded = max(16, triton.next_power_of_2(depth))
    whole = queries % numbers["BM"] == 0 and keys % numbers["BN"] == 0 and padded == depth
    arguments = (
        q, k, v, q if mask is None else mask, out, scale, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        *((0, 0, 0, 0) if mask is None else mask.stride()), *out.stride()[:3], queries, keys, heads,
    )  # fmt: skip
    constants = {
        "GROUP": heads // k.shape[1], "DEPTH": depth, "PADDED": padded, "CAUSAL": causal, "MASK": kind, "WHOLE": whole
    }  # fmt: skip
    grid = (triton.cdiv(queries, numbers["BM"]), batch * heads)
    launch(attention_kernel, grid, arguments, constants, numbers, ("BM", "BN"))
    return out


def _spread(mask: Tensor | None, *shape: int) -> tuple[int, Tensor | None]:
    """The kind of a mask (none, numbers to add, booleans), and the mask over all heads and queries."""
    if mask is None:
        return 0, None
    return (2 if mask.dtype == torch.bool else 1), mask.expand(*shape)


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
    rows = _numbers(BN=(32, 64, 128), warps=(4, 8), stages=(1, 2))
    candidates = lambda: [LIBRARY, *(("append", n) for n in rows)]  # noqa: E731
    return _append(_choice(key, candidates, lambda candidate, i: _append(candidate, *operands), None), *operands)


def _append(candidate: Candidate, *operands: Any) -> Tensor:
    return ops.append_meaning(*operands) if candidate[0] == "library" else launch_append(candidate[1], *operands)


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


# --- convolutions -------------------------------------------------------------------------------------------------


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
    return _by_promise([row for row in rows if row[0] >= enough])


def conv(
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
    rest = bias, residual, activation, image, window, stride, padding, dilation
    where = " ".join("x".join(map(str, part)) for part in (image, window, stride, padding, dilation))
    key = f"conv {x.dtype} {where} {w.shape[1]} {activation} {'r' if residual is not None else ''}"

    def candidates() -> list[Candidate]:
        sizes = [ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation)]
        m = image[0] * sizes[0] * sizes[1]
        half = _is_half(x, w, residual)
        return [LIBRARY, *(conv_candidates(m, w.shape[1], w.shape[0], image[3]) if half else ())]

    chosen = _choice(key, candidates, lambda candidate, i: _conv(candidate, x, spare[i], *rest), w)
    return _conv(chosen, x, w, *rest)


def _conv(candidate: Candidate, x: Tensor, w: Tensor, *operands: Any) -> Tensor:
    return (
        ops.conv_meaning(x, w, *operands) if candidate[0] == "library" else launch_conv(candidate[1], x, w, *operands)
    )


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
