"""Normalisations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from proveout.chip.time import VECTOR, Work
from proveout.kernels.table import FLOAT, Kernel, Specs
from proveout.types import TensorSpec

Tensor = torch.Tensor
PASSES = 5
"""A norm or a softmax walks over its tensor about this often: statistics, centring, scaling, affine."""


def norm_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(PASSES * math.prod(outputs[0].padded_shape), VECTOR)


def softmax(input_tensor: Tensor, dim: int = -1, numeric_stable: bool = True) -> Tensor:
    return torch.softmax(input_tensor, dim)


def layer_norm(
    input_tensor: Tensor, epsilon: float = 1e-12, weight: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    size = input_tensor.shape[-1:]
    weight = weight.reshape(size) if weight is not None else None
    bias = bias.reshape(size) if bias is not None else None
    return F.layer_norm(input_tensor, size, weight, bias, epsilon)


def rms_norm(input_tensor: Tensor, epsilon: float = 1e-12, weight: Tensor | None = None) -> Tensor:
    size = input_tensor.shape[-1:]
    return F.rms_norm(input_tensor, size, weight.reshape(size) if weight is not None else None, epsilon)


def batch_norm(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Inference only; statistics and affine parameters come as [1, C, 1, 1]."""
    parts = [t.reshape(-1) if t is not None else None for t in (running_mean, running_var, weight, bias)]
    mean, variance, weight, bias = parts
    return F.batch_norm(input, mean, variance, weight, bias, False, 0.0, eps)


def batch_norm_refuses(specs: Specs) -> str | None:
    rank = len(specs["input"].shape)
    return None if rank == 4 else f"ttnn.batch_norm takes 4 dimensions, not {rank}"


KERNELS = [
    Kernel("ttnn.softmax", softmax, norm_work, dtypes=FLOAT - {"bfloat4_b"}),
    Kernel("ttnn.layer_norm", layer_norm, norm_work, dtypes=FLOAT),
    Kernel("ttnn.rms_norm", rms_norm, norm_work, dtypes=FLOAT),
    Kernel("ttnn.batch_norm", batch_norm, norm_work, dtypes=FLOAT, refuse=batch_norm_refuses),
]
