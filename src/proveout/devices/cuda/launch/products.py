"""Products and norms on a GPU: candidates from the library and of our Triton kernels, and their launches."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from proveout.devices.cuda import ops
from proveout.devices.cuda.choose import HALF, Candidate, all_of, fastest, is_half
from proveout.devices.cuda.launcher import launch, multiprocessors, scratch
from proveout.devices.cuda.triton_product import norm_kernel, product_kernel
from proveout.devices.cuda.triton_stream import stream_kernel
from proveout.devices.cuda.triton_vector import float8_rows_kernel, vector_kernel

Tensor = torch.Tensor
FLOATS = (*HALF, torch.float32)


class Turn(NamedTuple):
    """Columns of a product that are heads to be turned in pairs, and the tables to turn them by, [rows, angles]."""

    cos: Tensor
    sin: Tensor
    begin: int
    end: int
    depth: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """As the kernel has them: `TURNS`."""
        return self.cos.shape[1], self.depth, self.cos.shape[0], self.begin, self.end


TURNS = ("ANGLES", "DEPTH", "LENGTH", "TURN_FROM", "TURN_TO")
PRODUCT_TILES = (
    (128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 4), (64, 128, 64, 4, 5), (64, 256, 64, 4, 4),
    (64, 64, 64, 4, 6), (64, 64, 128, 4, 3), (64, 64, 128, 4, 5), (64, 64, 256, 4, 3), (64, 32, 128, 4, 6),
    (16, 64, 128, 4, 5), (16, 64, 256, 4, 3), (128, 64, 64, 4, 5), (128, 64, 128, 4, 3), (64, 128, 128, 4, 3),
    (128, 256, 64, 8, 4), (64, 256, 64, 8, 4), (256, 128, 64, 8, 3),
)  # fmt: skip
"""Rows, columns and inner length of a tile, warps, and how many tiles are on their way at once."""
STREAM_TILES = (
    (128, 64, 128, 4, 4, 1), (128, 64, 64, 4, 4, 2), (128, 128, 64, 8, 6, 1), (128, 128, 128, 8, 3, 1),
    (64, 128, 64, 4, 4, 2), (128, 256, 64, 8, 4, 1),
)  # fmt: skip
"""The same, and how many blocks a multiprocessor takes."""
TILE = ("BM", "BN", "BK")


MULTIPROCESSORS = 132
PART_COST = 6
"""What a byte of a sum's parts costs, which are written, waited for and read by one block, against one of an operand:
with it, the fastest of all candidates was among the first ten for each of 28 shapes that were measured on an H200."""


def product_candidates(m: int, n: int, k: int, stats: bool, maps: bool) -> list[Candidate]:
    """Tiles that give most multiprocessors something to do, those first of which one has least to read and write. Of
    large products only large tiles."""
    large = m * n >= 1 << 21
    rows: list[tuple[int, Candidate]] = []
    if large and maps and m <= 1024:
        for bm, bn, bk, warps, stages, per in STREAM_TILES:
            if bk <= k and not (bm > 64 and m <= 64):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "PER": per, "warps": warps, "stages": stages}
                rows.append((0, ("stream", numbers)))
    for bm, bn, bk, warps, stages in PRODUCT_TILES:
        if (stats and bn < ops.STATS_WIDTH) or (bm > 64 and m <= 64) or bk > k or (bm < 64 and m > 256):
            continue
        if large and bm * bn < 64 * 128:
            continue
        for split in (1,) if large else (1, 2, 3, 4, 5, 6, 8):
            blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn) * split
            if k // split < 2 * bk or (blocks > 200 and split > 1) or (blocks < 66 and split < 8):
                continue
            parts = PART_COST * (split + 1) * bm * bn * 4 if split > 1 else 0
            traffic = triton.cdiv(blocks, MULTIPROCESSORS) * ((bm + bn) * k * 2 // split + parts)
            for tma in (0, 1) if bm >= 64 and maps else (0,):
                numbers = {"BM": bm, "BN": bn, "BK": bk, "SPLIT": split, "TMA": tma, "warps": warps, "stages": stages}
                rows.append((traffic, ("product", numbers)))
    return [candidate for _, candidate in sorted(rows, key=lambda row: row[0])]


def product(*operands: Any) -> tuple[Tensor, Tensor]:
    """Beyond the op's operands: how many columns the activation is for, if not all, where the result is written, and
    which columns are turned."""
    a, w, bias, activation, residual, second, a_stats, _, _, r_stats, _, _, _, stats, *more = operands
    (m, k), n = a.shape, w.shape[1]
    if not is_half(a, w, residual, second) or a.stride(1) != 1 or 1 not in w.stride():
        return product_meaning(*operands)
    order = "k" if w.stride(0) == 1 else "n"
    maps = all(t.data_ptr() % 16 == 0 and max(t.stride()) % 8 == 0 for t in (a, w))
    has = zip("brsnRSu", (bias, residual, second, a_stats, r_stats, stats or None, None if maps else "unaligned"))
    extras = "".join(letter for letter, value in has if value is not None)
    key = f"product {a.dtype} {m}x{k}x{n} {order} {activation} {extras}"
    if more:
        key += f" {more[0]}" + ("" if more[2] is None else f" turned {more[2].numbers}")
    candidates = partial(product_candidates, m, n, k, stats, maps) if k % 8 == 0 else list
    return fastest(key, candidates, _library_product, launch_product, operands, weight=1)


def product_meaning(*operands: Any) -> tuple[Tensor, Tensor]:
    if len(operands) == 14:
        return ops.product_meaning(*operands)
    a, w, bias, activation, *others, active, out, turn = operands
    y, stats = ops.product_meaning(a, w, bias, "", *others)
    out.copy_(y)
    out[:, :active] = ops.ACTIVATIONS[activation](out[:, :active])
    if turn is not None:
        heads = out[:, turn.begin : turn.end].unflatten(1, (-1, turn.depth)).unflatten(0, (-1, turn.cos.shape[0]))
        heads.copy_(ops.turned(heads.transpose(1, 2), turn.cos, turn.sin, "pairs").transpose(1, 2))
    return out, stats


def _library_product(*operands: Any) -> tuple[Tensor, Tensor]:
    a, w, bias, activation, residual, second, a_stats = operands[:7]
    if len(operands) > 14:
        return product_meaning(*operands)
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
    active: int = 0,
    out: Tensor | None = None,
    turn: Turn | None = None,
) -> tuple[Tensor, Tensor]:
    (m, k), n = a.shape, w.shape[1]
    y = a.new_empty(m, n) if out is None else out
    moments = a.new_empty((m, n // ops.STATS_WIDTH, 2) if stats else (0,), dtype=torch.float32)
    partial, arrived = scratch(a.device)
    tiles = triton.cdiv(m, numbers["BM"]) * triton.cdiv(n, numbers["BN"])
    split = numbers.get("SPLIT", 1)
    assert split == 1 or tiles * split * numbers["BM"] * numbers["BN"] <= partial.numel()
    streamed = "PER" in numbers
    tma = bool(numbers.get("TMA"))
    inner_major = w.stride(0) == 1 and w.stride(1) != 1
    a_map, w_map = _maps(numbers, a, w, inner_major) if tma or streamed else (a, w)
    a_blocks, r_blocks = (0 if t is None else t.shape[1] for t in (a_stats, r_stats))
    tables = (None, None) if turn is None else (turn.cos, turn.sin)
    optional = (bias, residual, second, a_stats, columns, r_stats, r_gamma, r_beta, *tables)
    filled = *(y if t is None else t for t in optional), moments
    ends = (
        y.stride(0), 0 if residual is None else residual.stride(0), 0 if second is None else second.stride(0),
        a_eps, r_eps,
    )  # fmt: skip
    constants = {
        "BIAS": bias is not None, "ACTIVATION": activation, "ACTIVE": active, "RESIDUAL": residual is not None,
        "SECOND": second is not None, "A_BLOCKS": a_blocks, "A_PADDED": triton.next_power_of_2(a_blocks),
        "R_BLOCKS": r_blocks, "R_PADDED": triton.next_power_of_2(r_blocks), "STATS": stats, "INNER_MAJOR": inner_major,
        **dict(zip(TURNS, (0, 0, 0, 0, 0) if turn is None else turn.numbers)),
    }  # fmt: skip
    if streamed:
        tiles_m = triton.cdiv(m, numbers["BM"])
        blocks = min(tiles, max(1, multiprocessors(a.device) * numbers["PER"] // tiles_m) * tiles_m)
        constants["STEPS"] = triton.cdiv(k, numbers["BK"])
        launch(stream_kernel, (blocks,), (a_map, w_map, y, *filled, m, n, *ends), constants, numbers, TILE)
        return y, moments
    arguments = (a, w, a_map, w_map, y, *filled, partial, arrived, m, n, k, a.stride(0), *w.stride(), *ends)
    constants |= {"WHOLE_K": k % numbers["BK"] == 0, "WHOLE_N": n % numbers["BN"] == 0, "TMA": tma}
    launch(product_kernel, (tiles * numbers["SPLIT"],), arguments, constants, numbers, ("SPLIT", *TILE))
    return y, moments


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
        (8, whole, 4),
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
    (m, k), n, positions = a.shape, w.shape[1], operands[10]
    if a.dtype not in FLOATS or a.stride(1) != 1 or w.stride(0) != 1 or k > 16384:
        return ops.vector_meaning(*operands)
    has = zip("cbrsn", (scale, bias, residual, second, gamma))
    key = f"vector {a.dtype} {w.dtype} {m}x{k}x{n} {activation} {''.join(x for x, value in has if value is not None)}"
    key += f" mean of {positions}" if positions > 1 else ""
    candidates = partial(vector_candidates, n, k)
    return fastest(key, candidates, _library_vector, launch_vector, operands, weight=1)


def _library_vector(*operands: Any) -> Tensor:
    a, w, scale, bias, activation, residual, second, gamma, beta, eps, positions = operands
    if scale is not None or positions > 1:
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
    positions: int = 1,
) -> Tensor:
    (m, k), n = a.shape, w.shape[1]
    m //= positions
    y = a.new_empty(m, n)
    arguments = (
        a, w, y, *(y if t is None else t for t in (scale, bias, residual, second, gamma, beta)),
        m, n, k, positions * a.stride(0), w.stride(1), n,
        *(0 if t is None else t.stride(0) for t in (residual, second)), eps,
    )  # fmt: skip
    constants = {
        "SCALE": scale is not None, "BIAS": bias is not None, "ACTIVATION": activation,
        "RESIDUAL": residual is not None, "SECOND": second is not None, "NORM": gamma is not None,
        "POSITIONS": positions, "PADDED": triton.next_power_of_2(k),
    }  # fmt: skip
    launch(vector_kernel, (triton.cdiv(n, numbers["BN"]), m), arguments, constants, numbers, ("BN", "BK"))
    return y


def scaled(*operands: Any) -> Tensor:
    """A product in float8: rows get their factors in one kernel, and the library multiplies."""
    a, w, scale, bias, activation, residual, second = operands
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
    if not is_half(x) or x.stride(1) != 1 or x.shape[1] > 8192:
        return ops.norm_meaning(x, gamma, beta, eps)
    key = f"norm {x.dtype} {x.shape[0]}x{x.shape[1]}"
    candidates = partial(all_of, "norm", BM=(1, 2), warps=(1, 2, 4, 8), stages=(1,))
    return fastest(key, candidates, ops.norm_meaning, launch_norm, (x, gamma, beta, eps))


def launch_norm(numbers: dict[str, int], x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    rows, columns = x.shape
    y = x.new_empty(rows, columns)
    constants = {"N": columns, "PADDED": triton.next_power_of_2(columns)}
    arguments = (x, y, gamma, beta, rows, x.stride(0), eps)
    launch(norm_kernel, (triton.cdiv(rows, numbers["BM"]),), arguments, constants, numbers, ("BM",))
    return y
