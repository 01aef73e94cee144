"""Normalisations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from proveout.chip.device_op import VECTOR, Work
from proveout.kernels import circular, cuts
from proveout.kernels.faithful import norms
from proveout.kernels.faithful.settings import plain
from proveout.kernels.row import FLOAT, Faithful, Kernel, Specs, one_op
from proveout.reasons import RANK, Kind, Reason
from proveout.types import TILE, TensorSpec

SCALE_ALONE = Kind("softmax-scale", "ttnn.scale_mask_softmax takes no scale without a mask")
MASK_RANKS = Kind("softmax-ranks", "ttnn.scale_mask_softmax takes 4 dimensions, not {rank} and {mask}")
MASK_SHAPE = Kind("softmax-mask", "ttnn.scale_mask_softmax takes a mask of one row a batch, not {shape}")
MASKED_ROWS = Kind("softmax-rows", "ttnn.scale_mask_softmax takes rows of whole tiles, not {size}")

Tensor = torch.Tensor
PASSES = 5
"""A norm or a softmax walks over its tensor about this often: statistics, centring, scaling, affine."""


def norm_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(PASSES * math.prod(outputs[0].padded_shape), VECTOR)


def softmax(input_tensor: Tensor, dim: int = -1, numeric_stable: bool = True) -> Tensor:
    return torch.softmax(input_tensor, dim)


def scale_mask_softmax(
    input_tensor: Tensor, scale: float | None = None, mask: Tensor | None = None, numeric_stable: bool = True
) -> Tensor:
    x = input_tensor if scale is None else input_tensor * scale
    return torch.softmax(x if mask is None else x + mask, -1)


def scale_mask_softmax_refuses(specs: Specs) -> Reason | None:
    """The mask is one row a batch. That a row needs whole tiles is our own caution: nothing says what is taken for the
    mask in the padding."""
    x, mask = specs["input_tensor"], specs.get("mask")
    if mask is None:
        return SCALE_ALONE() if specs.get("scale") is not None else None
    if len(x.shape) != 4 or len(mask.shape) != 4:
        return MASK_RANKS(rank=len(x.shape), mask=len(mask.shape))
    if mask.shape != (x.shape[0], 1, 1, x.shape[-1]):
        return MASK_SHAPE(shape=mask.shape)
    if x.shape[-1] % TILE:
        return MASKED_ROWS(size=x.shape[-1])
    return None


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


def batch_norm_refuses(specs: Specs) -> Reason | None:
    rank = len(specs["input"].shape)
    return None if rank == 4 else RANK(kernel="ttnn.batch_norm", rank=4, found=rank)


of_rows = cuts.rows_of("input_tensor", -1)

KERNELS = [
    Kernel(
        "ttnn.softmax",
        softmax,
        norm_work,
        "softmax",
        one_op("softmax", params=lambda call: (("dim", call.specs.get("dim", -1)),)),
        FLOAT - {"bfloat4_b"},
        cut=cuts.rows_of("input_tensor", "dim"),
        faithful=Faithful(norms.softmax, plain()),
    ),
    Kernel(
        "ttnn.scale_mask_softmax",
        scale_mask_softmax,
        norm_work,
        "softmax",
        one_op("other", "Softmax"),
        FLOAT,
        refuse=scale_mask_softmax_refuses,
        faithful=Faithful(norms.softmax, plain()),
    ),
    Kernel(
        "ttnn.layer_norm",
        layer_norm,
        norm_work,
        "norm",
        one_op("layer norm"),
        FLOAT,
        cut=of_rows,
        faithful=Faithful(norms.layer_norm, plain()),
    ),
    Kernel(
        "ttnn.rms_norm",
        rms_norm,
        norm_work,
        "norm",
        one_op("layer norm", params=lambda call: (("rms", True),)),
        FLOAT,
        cut=of_rows,
        faithful=Faithful(norms.layer_norm, plain()),
    ),
    Kernel(
        "ttnn.batch_norm",
        batch_norm,
        norm_work,
        "batch norm",
        one_op("binary", "BatchNorm", buffers=circular.batch_norm),
        FLOAT,
        faithful=Faithful(norms.batch_norm, plain()),
        refuse=batch_norm_refuses,
        cut=cuts.rows_of("input", 1, 2, 3),
    ),
]
