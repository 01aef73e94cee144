"""Matrix products and convolutions: blocks of K as tt-metal's kernels run them, the bias after."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from proveout.kernels.activations import fused_in
from proveout.kernels.arithmetic import formats, products
from proveout.kernels.arithmetic.products import matmul as chain
from proveout.kernels.blockfloat import FORMATS, quantise
from proveout.kernels.faithful.functions import unary
from proveout.kernels.faithful.settings import ALIGNED, Compute
from proveout.program import Construct
from proveout.types import TILE

Tensor = torch.Tensor


def product(
    name: str,
    compute: Compute,
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    bias: Tensor | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: torch.dtype | None = None,
    activation: str | None = None,
    program_config: Construct | None = None,
) -> Tensor:
    a = input_tensor_a.transpose(-1, -2) if transpose_a else input_tensor_a
    b = input_tensor_b.transpose(-1, -2) if transpose_b else input_tensor_b
    row, column = a.dim() == 1, b.dim() == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    out = stored(a, b, compute, bias, dtype or input_tensor_a.dtype)
    out = out.squeeze(-2) if row else out
    out = out.squeeze(-1) if column else out
    for name in filter(None, (fused_in(program_config), activation)):
        out = unary(f"ttnn.{name}", compute, out)
    return out


def stored(a: Tensor, b: Tensor, compute: Compute, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """`a @ b + bias` as it lies in L1 afterwards, batches broadcast."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if math.prod(b.shape[:-2]) == 1:  # one matrix of weights for all
        in0, in1 = a.reshape(1, -1, depth), b.reshape(1, depth, columns)
    else:
        in0 = a.expand(*batch, rows, depth).reshape(-1, rows, depth)
        in1 = b.expand(*batch, depth, columns).reshape(-1, depth, columns)
    if bias is not None and bias.dim() > 1 and bias.shape[-2] == 1:
        bias = bias.reshape(-1) if bias.numel() == bias.shape[-1] else bias
    dest = in_blocks(in0, in1, compute, bias is not None).reshape(*batch, rows, columns)
    if bias is not None:
        dest = products.add(dest, bias, compute.unit)
    return compute.pack(dest, dtype)


def in_blocks(a: Tensor, b: Tensor, compute: Compute, bias: bool) -> Tensor:
    """The destination after the last block; with a bias, what the addition reads.

    Without `l1_acc`, or where there are too few blocks for it, each block starts from the partial result read back,
    which is stored as float32 or in the result's format: a block float is thus quantised at every block. With it,
    blocks are added up in L1 in float32 or bfloat16, and the last one starts from that sum unless a bias follows."""
    deep = (compute.block_tiles or 0) * TILE
    num_blocks = -(-a.shape[-1] // deep) if deep else 1
    if num_blocks == 1:
        return _partial(chain(a, b, compute.unit), compute, bias, l1_acc=False)
    pieces = [(a[..., i : i + deep], b[..., i : i + deep, :]) for i in range(0, a.shape[-1], deep)]
    l1_acc = compute.l1_acc and num_blocks > (1 if bias else 2)
    if not l1_acc:
        if compute.fp32_dest or compute.out not in FORMATS:
            return _partial(chain(a, b, compute.unit), compute, bias, l1_acc)  # read back unchanged
        dest = chain(*pieces[0], compute.unit)
        for piece in pieces[1:]:
            dest = chain(*piece, compute.unit, quantise(dest, compute.out, "device").float())
        return _partial(dest, compute, bias, l1_acc)
    held: Tensor | None = None
    for piece in pieces if bias else pieces[:-1]:
        packed = _partial(chain(*piece, compute.unit), compute, True, l1_acc)
        held = packed if held is None else formats.add_in_l1(held, packed, compute.fp32_dest)
    assert held is not None
    return held if bias else chain(*pieces[-1], compute.unit, held)


def _partial(dest: Tensor, compute: Compute, to_l1: bool, l1_acc: bool) -> Tensor:
    """A partial result as L1 holds it, if it goes there."""
    if not to_l1 or compute.fp32_dest:
        return dest
    if compute.out in FORMATS and not l1_acc:
        return quantise(dest, compute.out, "device").float()
    return formats.pack_bfloat16(dest, False)


def convolution(
    name: str,
    compute: Compute,
    input_tensor: Tensor,
    weight_tensor: Tensor,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    dtype: torch.dtype | None = None,
    bias_tensor: Tensor | None = None,
    conv_config: Construct | None = None,
) -> Tensor:
    """Each group is a product of its own; its window lies in the order height, width, channels: channels padded to
    whole eights, each row of the window to whole tiles."""
    x = input_tensor.reshape(batch_size, input_height, input_width, in_channels).permute(0, 3, 1, 2)
    top, bottom, left, right = padding if len(padding) == 4 else [p for p in padding for _ in range(2)]
    x = F.pad(x.float(), (left, right, top, bottom))
    kh, kw = kernel_size
    windows = F.unfold(x, (kh, kw), tuple(dilation), 0, tuple(stride))  # [batch, channels * kh * kw, positions]
    rows = windows.reshape(batch_size, groups, in_channels // groups, kh, kw, -1).permute(1, 0, 5, 3, 4, 2)
    rows = _padded_window(rows.reshape(groups, -1, kh, kw, in_channels // groups)).to(input_tensor.dtype)
    filters = weight_tensor.reshape(groups, out_channels // groups, -1, kh, kw).permute(0, 1, 3, 4, 2)
    columns = _padded_window(filters).transpose(-1, -2).contiguous()
    dest = in_blocks(rows, columns, compute, bias_tensor is not None)
    dest = dest.transpose(0, 1).reshape(1, 1, -1, out_channels)
    if bias_tensor is not None:
        dest = products.add(dest, bias_tensor.reshape(-1), compute.unit)
    out = compute.pack(dest, dtype or input_tensor.dtype)
    inside = fused_in(conv_config)
    return unary(f"ttnn.{inside}", compute, out) if inside else out


def _padded_window(x: Tensor) -> Tensor:
    """[..., height, width, channels] as one row of K."""
    x = F.pad(x, (0, -x.shape[-1] % ALIGNED)).flatten(-2)
    return F.pad(x, (0, -x.shape[-1] % TILE)).flatten(-2)


def transposed_convolution(
    name: str,
    compute: Compute,
    input_tensor: Tensor,
    weight_tensor: Tensor,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    output_padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    dtype: torch.dtype | None = None,
    bias_tensor: Tensor | None = None,
) -> Tensor:
    """ttnn's is a convolution by steps of one: of the input with zeros between its pixels, and the filter turned."""
    x = input_tensor.reshape(batch_size, input_height, input_width, in_channels)
    height, width = ((n - 1) * step + 1 for n, step in zip((input_height, input_width), stride))
    wide = torch.zeros(batch_size, height, width, in_channels, dtype=x.dtype)
    wide[:, :: stride[0], :: stride[1]] = x
    sides = padding if len(padding) == 4 else [p for p in padding for _ in range(2)]
    reach = [gap * (k - 1) for gap, k in zip(dilation, kernel_size) for _ in range(2)]
    more = (0, output_padding[0], 0, output_padding[1])
    edges = [far - side + extra for far, side, extra in zip(reach, sides, more)]
    kernel = weight_tensor.reshape(groups, in_channels // groups, out_channels // groups, *kernel_size)
    kernel = kernel.transpose(1, 2).reshape(out_channels, in_channels // groups, *kernel_size).flip(-1, -2)
    return convolution(
        name, compute, wide, kernel, in_channels, out_channels, batch_size, height, width, kernel_size,
        (1, 1), edges, dilation, groups, dtype, bias_tensor,
    )  # fmt: skip
