"""Normalisations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F

from proveout.chip.device_op import VECTOR, DeviceOp, Work
from proveout.kernels import circular, cuts
from proveout.kernels.device_ops import tilize_ops
from proveout.kernels.faithful import norms
from proveout.kernels.faithful.settings import plain
from proveout.kernels.row import FLOAT, Call, Faithful, Kernel, Specs, one_op
from proveout.reasons import RANK, Kind, Reason
from proveout.types import TILE, TensorSpec

SCALE_ALONE = Kind("softmax-scale", "ttnn.scale_mask_softmax takes no scale without a mask")
MASK_RANKS = Kind("softmax-ranks", "ttnn.scale_mask_softmax takes 4 dimensions, not {rank} and {mask}")
MASK_SHAPE = Kind("softmax-mask", "ttnn.scale_mask_softmax takes a mask of one row a batch, not {shape}")
MASKED_ROWS = Kind("softmax-rows", "ttnn.scale_mask_softmax takes rows of whole tiles, not {size}")

GROUP_SHAPE = Kind("group-norm-shape", "ttnn.group_norm takes [batch, 1, pixels, channels], not {shape}")
GROUPS = Kind("group-norm-groups", "ttnn.group_norm takes channels in whole groups, not {channels} in {groups}")
GROUP_IN_PLACE = Kind(
    "group-norm-in-place",
    "In-place operation not supported: Tile layout requires non-inplace tensors",
    "pass inplace=False",
)

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
    input_tensor: Tensor,
    epsilon: float = 1e-12,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    residual_input_tensor: Tensor | None = None,
) -> Tensor:
    if residual_input_tensor is not None:
        input_tensor = input_tensor + residual_input_tensor
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


def group_norm(
    input_tensor: Tensor,
    num_groups: int,
    epsilon: float = 1e-12,
    input_mask: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    dtype: torch.dtype | None = None,
    inplace: bool = True,
    num_out_blocks: int | None = None,
    negative_mask: Tensor | None = None,
    use_welford: bool = False,
) -> Tensor:
    """Channels last: [batch, 1, pixels, channels]. Weights come in rows of tiles, each core's channels filled up to
    whole tiles; masks say how ttnn's kernel tells groups apart and change no number."""
    channels = input_tensor.shape[-1]
    gain, shift = (_by_channel(t, channels) if t is not None else None for t in (weight, bias))
    flat = input_tensor.flatten(1, -2).transpose(1, 2)
    out = F.group_norm(flat, num_groups, gain, shift, epsilon).transpose(1, 2).reshape(input_tensor.shape)
    return out.to(dtype) if dtype is not None else out


def _by_channel(packed: Tensor, channels: int) -> Tensor:
    """One number a channel, out of rows that hold each core's channels and filling."""
    flat = packed.reshape(-1)
    cores = next(
        (
            n
            for n in range(1, channels + 1)
            if channels % n == 0 and -(-channels // n // TILE) * TILE * n == flat.numel()
        ),
        1,
    )
    return flat.reshape(cores, -1)[:, : channels // cores].reshape(-1)


def group_norm_refuses(specs: Specs) -> Reason | None:
    source = specs["input_tensor"]
    if len(source.shape) != 4 or source.shape[1] != 1:
        return GROUP_SHAPE(shape=source.shape)
    if source.shape[-1] % specs["num_groups"]:
        return GROUPS(channels=source.shape[-1], groups=specs["num_groups"])
    if source.layout == "tile" and specs.get("inplace", True):
        return GROUP_IN_PLACE()
    return None


def group_norm_ops(call: Call) -> list[DeviceOp]:
    """Rows are put into tiles first."""
    source: TensorSpec = call.specs["input_tensor"]
    tiled = replace(source, layout="tile")
    params = (("groups", call.specs["num_groups"]),)
    main = DeviceOp("group norm", (tiled,), call.outputs, call.work, call.fidelity, params=params)
    return [*tilize_ops(source, tiled), main]


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
        "ttnn.group_norm",
        group_norm,
        norm_work,
        "other",
        group_norm_ops,
        layout=None,
        refuse=group_norm_refuses,
    ),
    Kernel(
        "ttnn.batch_norm",
        batch_norm,
        norm_work,
        "batch norm",
        one_op("binary", "BatchNormOperation", buffers=circular.batch_norm),
        FLOAT,
        faithful=Faithful(norms.batch_norm, plain()),
        refuse=batch_norm_refuses,
        cut=cuts.rows_of("input", 1, 2, 3),
    ),
]
