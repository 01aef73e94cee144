"""The fused calls on a GPU: for each, candidates from the library and of our Triton kernels, and their launches."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from proveout.devices.cuda import ops
from proveout.devices.cuda.choose import Candidate, best, copies
from proveout.devices.cuda.triton_attention import attention_kernel
from proveout.devices.cuda.triton_conv import conv_kernel
from proveout.devices.cuda.triton_product import norm_kernel, product_kernel, vector_kernel

Tensor = torch.Tensor
PDL = True
"""Programmatic dependent launch: a kernel is started while the one before it still runs, and waits where it reads."""
LIBRARY: Candidate = ("library", {})
HALF = (torch.bfloat16, torch.float16)
FEW_ROWS = 4


def interpreted() -> bool:
    """Whether Triton runs kernels in Python, on the CPU: then there is nothing to wait for."""
    return bool(triton.knobs.runtime.interpret)


def _options(numbers: dict[str, int]) -> dict[str, Any]:
    if interpreted():
        return {}
    return {"num_warps": numbers["warps"], "num_stages": numbers["stages"], "launch_pdl": PDL}


def _blocks(numbers: dict[str, int], *names: str) -> dict[str, Any]:
    return {name: numbers[name] for name in names} | {"PDL": PDL and not interpreted()}


@functools.cache
def _scratch(device: torch.device) -> tuple[Tensor, Tensor]:
    """Where parts of sums wait for the last one, and how many came; kernels follow each other, so one is enough."""
    return torch.empty(1 << 23, dtype=torch.float32, device=device), torch.zeros(
        1 << 14, dtype=torch.int32, device=device
    )


def _numbers(**values: tuple[int, ...]) -> list[dict[str, int]]:
    return [dict(zip(values, row)) for row in itertools.product(*values.values())]


def _is_half(*tensors: Tensor | None) -> bool:
    return all(t is None or t.dtype in HALF for t in tensors)


# --- products -----------------------------------------------------------------------------------------------------


PRODUCT_TILES = (
    (128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 5), (64, 256, 64, 4, 4),
    (64, 64, 64, 4, 6), (64, 64, 128, 4, 3), (64, 64, 128, 4, 5), (64, 64, 256, 4, 3), (64, 32, 128, 4, 6),
    (16, 64, 128, 4, 5), (16, 64, 256, 4, 3),
)  # fmt: skip
"""Rows, columns and inner length of a tile, warps, and how many tiles are on their way at once."""


def product_candidates(m: int, n: int, k: int, stats: bool, maps: bool) -> list[Candidate]:
    """Tiles that give most multiprocessors something to do, from large to small."""
    found: list[Candidate] = []
    for bm, bn, bk, warps, stages in PRODUCT_TILES:
        if (stats and bn < ops.STATS_WIDTH) or (bm > 64 and m <= 64) or bk > k or (bm < 64 and m > 256):
            continue
        for split in (1, 2, 3, 4, 6, 8):
            blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn) * split
            if k // split < 2 * bk or (blocks > 200 and split > 1) or blocks > 4000 or (blocks < 66 and split < 8):
                continue
            for tma in (0, 1) if bm >= 64 and maps else (0,):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": warps, "stages": stages}
                found.append(("product", numbers))
    return found


def vector_candidates() -> list[Candidate]:
    return [
        ("vector", {"BN": bn, "BK": bk, "warps": 4, "stages": 1})
        for bn, bk in ((1, 2048), (1, 1024), (4, 512), (8, 256))
    ]


def product(*operands: Any) -> tuple[Tensor, Tensor]:
    a, w, bias, activation, residual, second, a_stats, _, _, r_stats, _, _, _, stats = operands
    (m, k), n = a.shape, w.shape[1]
    if not _is_half(a, w, residual, second) or a.stride(1) != 1 or 1 not in w.stride():
        return ops.product_meaning(*operands)
    plain = residual is None and second is None and a_stats is None and not stats
    candidates = [LIBRARY]
    if m <= FEW_ROWS and plain:
        candidates += vector_candidates()
    elif k % 8 == 0:
        maps = all(t.data_ptr() % 16 == 0 and max(t.stride()) % 8 == 0 for t in (a, w))
        candidates += product_candidates(m, n, k, stats, maps)
    order = "k" if w.stride(0) == 1 else "n"
    extras = "".join(
        letter
        for letter, has in zip("brsnRS", (bias, residual, second, a_stats, r_stats, stats or None))
        if has is not None
    )
    key = f"product {a.dtype} {m}x{k}x{n} {order} {activation} {extras}"
    chosen = _known(key, candidates)
    if chosen is None:
        spare = [w, *(w.clone() for _ in range(copies(w.nbytes) - 1))]
        call = lambda candidate, i: _product(candidate, a, spare[i], *operands[2:])  # noqa: E731
        chosen = _choose(key, candidates, call, w.nbytes)
    return _product(chosen, *operands)


_chosen: dict[str, Candidate] = {}


def _known(key: str, candidates: list[Candidate]) -> Candidate | None:
    if key in _chosen:
        return _chosen[key]
    from proveout.devices.cuda.choose import choices

    known = choices().get(key, candidates)
    if known is not None:
        _chosen[key] = known
    return known


def _choose(key: str, candidates: list[Candidate], call: Any, weight_bytes: int) -> Candidate:
    _chosen[key] = best(key, candidates, call, weight_bytes)
    return _chosen[key]


def _product(candidate: Candidate, *operands: Any) -> tuple[Tensor, Tensor]:
    name, numbers = candidate
    if name == "library":
        return _library_product(*operands)
    if name == "vector":
        return launch_vector(numbers, *operands[:4]), operands[0].new_empty(0, dtype=torch.float32)
    return launch_product(numbers, *operands)


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
    partial, arrived = _scratch(a.device)
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(n, numbers["BN"])
    assert tiles * numbers["SPLIT"] * numbers["BM"] * numbers["BN"] <= partial.numel() or numbers["SPLIT"] == 1
    tma = bool(numbers.get("TMA"))
    inner_major = w.stride(0) == 1 and w.stride(1) != 1
    a_map, w_map = _maps(numbers, a, w, inner_major) if tma else (a, w)
    a_blocks, r_blocks = (0 if t is None else t.shape[1] for t in (a_stats, r_stats))
    blank = y
    product_kernel[(tiles * numbers["SPLIT"],)](
        a, w, a_map, w_map, y, *(blank if t is None else t for t in (bias, residual, second, a_stats, columns)),
        *(blank if t is None else t for t in (r_stats, r_gamma, r_beta)), made, partial, arrived,
        m, n, k, a.stride(0), w.stride(0), w.stride(1), y.stride(0),
        0 if residual is None else residual.stride(0), 0 if second is None else second.stride(0), a_eps, r_eps,
        BIAS=bias is not None, ACTIVATION=activation, RESIDUAL=residual is not None, SECOND=second is not None,
        A_BLOCKS=a_blocks, A_PADDED=triton.next_power_of_2(a_blocks),
        R_BLOCKS=r_blocks, R_PADDED=triton.next_power_of_2(r_blocks),
        STATS=stats, WHOLE_K=k % numbers["BK"] == 0, WHOLE_N=n % numbers["BN"] == 0, INNER_MAJOR=inner_major,
        TMA=tma, **_blocks(numbers, "SPLIT", "BM", "BN", "BK"), **_options(numbers),
    )  # fmt: skip
    return y, made


def _maps(numbers: dict[str, int], a: Tensor, w: Tensor, inner_major: bool) -> tuple[Any, Any]:
    """Descriptions of both operands for Hopper's copy engine; rows must begin at multiples of 16 bytes."""
    matrix, block = (w.t(), [numbers["BN"], numbers["BK"]]) if inner_major else (w, [numbers["BK"], numbers["BN"]])
    blocks = [numbers["BM"], numbers["BK"]]
    a_map = TensorDescriptor(a, list(a.shape), list(a.stride()), blocks)
    return a_map, TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), block)


def launch_vector(numbers: dict[str, int], a: Tensor, w: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    (m, k), n = a.shape, w.shape[1]
    y = a.new_empty(m, n)
    vector_kernel[(triton.cdiv(n, numbers["BN"]), m)](
        a, w, y, y if bias is None else bias, m, n, k, a.stride(0), w.stride(0), w.stride(1), y.stride(0),
        BIAS=bias is not None, ACTIVATION=activation, INNER_MAJOR=w.stride(0) == 1,
        **_blocks(numbers, "BN", "BK"), **_options(numbers),
    )  # fmt: skip
    return y


# --- norms --------------------------------------------------------------------------------------------------------


def norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    if not _is_half(x) or x.stride(1) != 1 or x.shape[1] > 8192:
        return ops.norm_meaning(x, gamma, beta, eps)
    numbers = _numbers(BM=(1, 2), warps=(1, 2, 4, 8), stages=(1,))
    candidates = [LIBRARY, *(("norm", n) for n in numbers)]
    key = f"norm {x.dtype} {x.shape[0]}x{x.shape[1]}"
    chosen = _known(key, candidates)
    if chosen is None:
        chosen = _choose(key, candidates, lambda candidate, i: _norm(candidate, x, gamma, beta, eps), 1 << 30)
    return _norm(chosen, x, gamma, beta, eps)


def _norm(candidate: Candidate, x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    if candidate[0] == "library":
        return ops.norm_meaning(x, gamma, beta, eps)
    return launch_norm(candidate[1], x, gamma, beta, eps)


def launch_norm(numbers: dict[str, int], x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    rows, columns = x.shape
    y = x.new_empty(rows, columns)
    norm_kernel[(triton.cdiv(rows, numbers["BM"]),)](
        x, y, gamma, beta, rows, x.stride(0), eps, N=columns, PADDED=triton.next_power_of_2(columns),
        **_blocks(numbers, "BM"), **_options(numbers),
    )  # fmt: skip
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
    candidates = [LIBRARY, *(attention_candidates(q.shape[2], k.shape[2], q.shape[3]) if fits else ())]
    masked = "" if mask is None else f"{mask.dtype} {tuple(mask.shape)}"
    key = f"attention {q.dtype} {tuple(q.shape)} {k.shape[1]}x{k.shape[2]} {'causal' if causal else ''} {masked}"
    chosen = _known(key, candidates)
    if chosen is None:
        call = lambda candidate, i: _attention(candidate, q, k, v, mask, causal, scale)  # noqa: E731
        chosen = _choose(key, candidates, call, ops.STATS_WIDTH << 20)
    return _attention(chosen, q, k, v, mask, causal, scale)


def _attention(
    candidate: Candidate, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> Tensor:
    if candidate[0] == "library":
        made = ops.attention_meaning(q, k, v, mask, causal, scale)
        if made.transpose(1, 2).is_contiguous():
            return made
        return ops.heads_last(q).copy_(made)
    return launch_attention(candidate[1], q, k, v, mask, causal, scale)


def launch_attention(
    numbers: dict[str, int], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> Tensor:
    batch, heads, queries, depth = q.shape
    keys = k.shape[2]
    out = ops.heads_last(q)
    kind = 0
    spread: tuple[int, ...] = (0, 0, 0, 0)
    if mask is not None:
        kind = 2 if mask.dtype == torch.bool else 1
        mask = mask.expand(batch, heads, queries, keys)
        spread = mask.stride()
    padded = max(16, triton.next_power_of_2(depth))
    whole = queries % numbers["BM"] == 0 and keys % numbers["BN"] == 0 and padded == depth
    attention_kernel[(triton.cdiv(queries, numbers["BM"]), batch * heads)](
        q, k, v, q if mask is None else mask, out, scale,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *spread, *out.stride()[:3],
        queries, keys, heads, GROUP=heads // k.shape[1], DEPTH=depth, PADDED=padded, CAUSAL=causal, MASK=kind,
        WHOLE=whole, **_blocks(numbers, "BM", "BN"), **_options(numbers),
    )  # fmt: skip
    return out


# --- convolutions -------------------------------------------------------------------------------------------------


CONV_TILES = (
    (128, 64, 64, 4, 4), (64, 64, 64, 4, 5), (64, 32, 64, 4, 6), (32, 64, 64, 4, 6), (32, 32, 64, 4, 6), (64, 64, 32, 4, 5),  # noqa: E501
    (64, 32, 128, 4, 5), (32, 32, 128, 4, 5), (16, 64, 64, 4, 6), (16, 32, 128, 4, 5), (16, 64, 128, 4, 4), (128, 32, 64, 4, 6),  # noqa: E501
)  # fmt: skip


def conv_candidates(m: int, n: int, k: int, channels: int) -> list[Candidate]:
    """As for products; where even the smallest tiles are few, all of them."""
    found: list[tuple[int, Candidate]] = []
    for bm, bn, bk, warps, stages in CONV_TILES:
        if bn > max(n, 16) or (bk > 64 and channels % bk) or (bm > 16 and bm >= 2 * m):
            continue
        for split in (1, 2, 3, 4, 6, 9, 12, 18):
            blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn) * split
            if (split > 1 and k // split < 2 * bk) or blocks > (900 if split == 1 else 300):
                continue
            for tma in (0, 1) if n % 8 == 0 else (0,):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": warps, "stages": stages}
                found.append((blocks, ("conv", numbers)))
    enough = min(60, max((blocks for blocks, _ in found), default=0) // 2)
    return [candidate for blocks, candidate in found if blocks >= enough]


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
    given = bias, residual, activation, image, window, stride, padding, dilation
    sizes = [ops.conv_size(*one) for one in zip(image[1:3], window, stride, padding, dilation)]
    m, n, k = image[0] * sizes[0] * sizes[1], w.shape[1], w.shape[0]
    candidates = [LIBRARY, *(conv_candidates(m, n, k, image[3]) if _is_half(x, w, residual) else ())]
    where = " ".join("x".join(map(str, part)) for part in (image, window, stride, padding, dilation))
    key = f"conv {x.dtype} {where} {n} {activation} {'r' if residual is not None else ''}"
    chosen = _known(key, candidates)
    if chosen is None:
        spare = [w, *(w.clone() for _ in range(copies(w.nbytes) - 1))]
        chosen = _choose(key, candidates, lambda candidate, i: _conv(candidate, x, spare[i], *given), w.nbytes)
    return _conv(chosen, x, w, *given)


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
    partial, arrived = _scratch(x.device)
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(n, numbers["BN"])
    rest = y if residual is None else residual.reshape(m, n).contiguous()
    tma = bool(numbers.get("TMA"))
    w_map = TensorDescriptor(w, list(w.shape), list(w.stride()), [numbers["BK"], numbers["BN"]]) if tma else w
    conv_kernel[(tiles * numbers["SPLIT"],)](
        picture, w, w_map, y, bias, rest, partial, arrived, m, n, height, width, out_h, out_w, *picture.stride(),
        C=channels, KH=window[0], KW=window[1], STRIDE_H=stride[0], STRIDE_W=stride[1], PAD_H=padding[0],
        PAD_W=padding[1], GAP_H=dilation[0], GAP_W=dilation[1], BIAS=True, RESIDUAL=residual is not None,
        ACTIVATION=activation, TMA=tma, **_blocks(numbers, "SPLIT", "BM", "BN", "BK"), **_options(numbers),
    )  # fmt: skip
    return y
