"""Functions of one operand, as the vector unit computes them."""

from __future__ import annotations

import functools
from typing import Any

import torch

from proveout.kernels.activations import ACTIVATIONS
from proveout.kernels.arithmetic.bits import Arch, floats
from proveout.kernels.arithmetic.formats import pack_bfloat16
from proveout.kernels.arithmetic.functions import Sfpu
from proveout.kernels.arithmetic.table import FUNCTIONS
from proveout.kernels.faithful.settings import Compute

Tensor = torch.Tensor
CHUNK = 1 << 16
"""float32 values computed at a time."""


def unary(name: str, compute: Compute, input_tensor: Tensor, **parameters: Any) -> Tensor:
    """A kernel, or the activation of a product. relu and its kind are exact, so torch's serve."""
    short = name.removeprefix("ttnn.")
    if parameters.pop("variant", None) == "Tanh":
        short += "_tanh"
    if short not in FUNCTIONS:
        return ACTIVATIONS[short](input_tensor)
    return apply(short, compute.arch, input_tensor, compute.fp32_dest, **parameters)


def apply(name: str, arch: Arch, x: Tensor, wide: bool = False, **parameters: Any) -> Tensor:
    """bfloat16 by a table of all its values; float32 step by step."""
    if x.dtype != torch.float32:
        table = _table(name, arch, wide, tuple(sorted(parameters.items())))
        return table[x.contiguous().view(torch.int16).to(torch.int64) & 0xFFFF]
    sfpu = Sfpu(arch, wide=True)
    flat = x.reshape(-1)
    pieces = [FUNCTIONS[name](sfpu, piece, **parameters) for piece in flat.split(CHUNK)]
    return torch.cat(pieces).reshape(x.shape) if pieces else x.clone()


@functools.cache
def _table(name: str, arch: Arch, wide: bool, parameters: tuple[tuple[str, Any], ...]) -> Tensor:
    """The packed result for every bfloat16, by its pattern."""
    every = floats(torch.arange(1 << 16, dtype=torch.int32) << 16)
    dest = FUNCTIONS[name](Sfpu(arch, wide), every, **dict(parameters))
    return pack_bfloat16(dest, fp32_dest=wide).to(torch.bfloat16)
