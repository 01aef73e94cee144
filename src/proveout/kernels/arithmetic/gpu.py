"""Large products by the matrix unit's rules on an NVIDIA GPU, if there is one: the same bits in far less time."""

from __future__ import annotations

import functools
import importlib.util
import math

import torch

from proveout.kernels.arithmetic import errata
from proveout.kernels.arithmetic.bits import Tensor, bits, floats
from proveout.kernels.arithmetic.matrix import TILE, Unit
from proveout.kernels.arithmetic.operands import operand, padded, rules

LARGE = 1 << 26
"""Multiplications from which on a product goes to the GPU: a tenth of a second and more on a CPU core."""
MAX_BATCH = 65_535
"""What a grid's last dimension allows."""
BLOCK = {"BM": 16, "BN": 32}
WARPS = 4


def if_large(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None) -> Tensor | None:
    """`matmul` where the operands lie on a GPU or are large and one is there with room for them; None: the CPU's."""
    if in0.is_cuda:
        return matmul(in0, in1, unit, start)
    batch = max(in0.shape[0], in1.shape[0])
    if batch * math.prod(in0.shape[1:]) * in1.shape[2] < LARGE or batch > MAX_BATCH or not usable():
        return None
    try:
        return matmul(in0, in1, unit, start)
    except torch.cuda.OutOfMemoryError:
        return None


def usable() -> bool:
    """Whether this process can start kernels of Triton's on a GPU."""
    return _installed() and torch.cuda.is_available() and not torch.cuda._is_in_bad_fork()


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def matmul(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """`matrix.matmul` by one kernel, on whichever device the operands lie; the result lies where `in0` does."""
    from proveout.kernels.arithmetic.triton_matrix import matrix_kernel

    home = in0.device
    device = torch.device("cuda") if usable() else home
    batch, rows, columns = max(in0.shape[0], in1.shape[0]), in0.shape[1], in1.shape[2]
    src_a = operand(padded(in1.to(device), src_a=True), unit, src_a=True)
    src_b = operand(padded(in0.to(device), src_a=False), unit, src_a=False)
    dest = torch.zeros(batch, rows, columns, dtype=torch.int32, device=device)
    if start is not None:
        dest.copy_(bits(start.to(device)))
    hits = torch.zeros(1, dtype=torch.int64, device=device)
    grid = (-(-rows // BLOCK["BM"]), -(-columns // BLOCK["BN"]), batch)
    matrix_kernel[grid](
        src_a.exponents, src_a.parts, src_b.exponents, src_b.parts, dest, hits,
        rows, columns, src_a.parts.shape[1] // TILE, src_a.batch_stride, src_b.batch_stride,
        *rules(unit), PHASES=unit.phases, **BLOCK, num_warps=WARPS,
    )  # fmt: skip
    if errata.watched():
        errata.note(int(hits))
    return floats(dest).to(home)
