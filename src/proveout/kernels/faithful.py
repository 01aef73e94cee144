"""`faithful` numerics: kernels computed by the matrix unit's own rules, where those are known.

Matrix products, convolutions (products over the window, in the order height, width, channels), sums and means, and
element-wise addition, subtraction and multiplication follow `matrix_unit`. Every other kernel (transposed convolutions
among them) has its `fast` meaning, rounded to the value's dtype. Packing to block floats follows `blockfloat` in both.

Where a Step says nothing: a product of float32 accumulates in float32, others in bfloat16; a bias is added to the
stored product, as ttnn's fused kernel does; two float32 tensors are added and multiplied by the vector unit, in
float32; element-wise multiplication and sums run at HiFi4; sums accumulate in float32.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from proveout.chip.fidelity import PHASES, default_fidelity
from proveout.kernels import matrix_unit
from proveout.kernels.matmul import ACTIVATIONS
from proveout.kernels.table import Kernel, flat_specs, kernels, specs_of, storing
from proveout.program import Name, Step
from proveout.types import DeviceSpec, Fidelity, TensorSpec

Tensor = torch.Tensor
Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Compute:
    """How the matrix unit runs one Step."""

    fidelity: str
    fp32_dest: bool
    block_tiles: int | None = None
    """Tiles of K between two additions into L1 by the packer; None: all of K at once."""

    def pack(self, dest: Tensor, dtype: torch.dtype) -> Tensor:
        """The destination as it is stored."""
        if self.fp32_dest and dtype == torch.bfloat16:
            return matrix_unit.to_bfloat16(dest)
        return dest.to(dtype)


def faithful(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, fidelity: str | None) -> Meaning:
    """What one ttnn Step computes on a chip; `fidelity` is the user's choice for all Steps, None leaves it to ttnn."""
    kernel = kernels()[step.kernel]
    dtypes = tuple(specs[n].dtype for n in step.outputs)
    family = FAMILIES.get(step.kernel)
    operands = specs_of(step, specs)
    floats = all(s.dtype in FLOATS for v in operands.values() for s in flat_specs(v))
    if family is None or not floats:
        return storing(kernel, dtypes)
    return _bound(kernel, family, family.compute(operands, dtypes[0], chip, fidelity), dtypes)


@functools.cache
def _bound(kernel: Kernel, family: Family, compute: Compute, dtypes: tuple[str, ...]) -> Meaning:
    meaning = functools.partial(family.meaning, kernel.name, compute)
    return storing(Kernel(kernel.name, meaning), dtypes)


FLOATS = frozenset({"float32", "bfloat16", "bfloat8_b", "bfloat4_b"})
CONFIGS = ("compute_kernel_config", "compute_config")


@dataclass(frozen=True)
class Family:
    """Kernels with one kind of meaning: which operands decide the fidelity, and ttnn's choices without a config."""

    meaning: Callable[..., Tensor]
    operands: tuple[str, str] | None
    """The two factors of a product, whose dtypes decide the fidelity; None: HiFi4 whatever they are."""
    fp32_dest: bool = False
    """Whether the destination is float32 whatever the operands are."""

    def compute(self, specs: Mapping[str, Any], out: str, chip: DeviceSpec, chosen: str | None) -> Compute:
        given = next((keywords(specs[c]) for c in CONFIGS if c in specs), None)
        factors = [specs[o].dtype for o in self.operands] if self.operands else []
        usual = default_fidelity(factors, chip) if self.operands else "HiFi4"
        if given is None:
            wide = self.fp32_dest or out == "float32" or (bool(factors) and factors[0] == "float32")
            return Compute(chosen or usual, wide)
        said = str(given.get("math_fidelity", "")).rpartition(".")[2]
        fidelity = said if said in PHASES else chosen or ("LoFi" if self.operands else usual)
        blocks = keywords(specs.get("program_config")).get("in0_block_w") if given.get("packer_l1_acc") else None
        return Compute(fidelity, bool(given.get("fp32_dest_acc_en")), blocks)


def keywords(config: Any) -> dict[str, Any]:
    """The keyword arguments in a config's Name, such as `ttnn.WormholeComputeKernelConfig(fp32_dest_acc_en=True)`;
    values that are names themselves come as text."""
    if not isinstance(config, Name) or "(" not in config.text:
        return {}
    call = ast.parse(config.text, mode="eval").body
    assert isinstance(call, ast.Call)
    return {
        str(k.arg): k.value.value if isinstance(k.value, ast.Constant) else ast.unparse(k.value) for k in call.keywords
    }


def told_fidelity(specs: Mapping[str, Any]) -> Fidelity | None:
    """The fidelity that a call's compute config names, if it has one and names one."""
    config = next((keywords(specs[c]) for c in CONFIGS if c in specs), {})
    said = str(config.get("math_fidelity", "")).rpartition(".")[2]
    return said if said in PHASES else None  # type: ignore[return-value]


# ---- the families -------------------------------------------------------------------------------------------------


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
) -> Tensor:
    a = input_tensor_a.transpose(-1, -2) if transpose_a else input_tensor_a
    b = input_tensor_b.transpose(-1, -2) if transpose_b else input_tensor_b
    row, column = a.dim() == 1, b.dim() == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    out = _with_bias(matrix_unit.matmul(a, b, compute.fidelity, compute.fp32_dest, compute.block_tiles), bias, compute)
    out = out.squeeze(-2) if row else out
    out = compute.pack(out.squeeze(-1) if column else out, dtype or a.dtype)
    return ACTIVATIONS[activation](out) if activation else out


def _with_bias(dest: Tensor, bias: Tensor | None, compute: Compute) -> Tensor:
    return dest if bias is None else matrix_unit.add(dest, bias, compute.fp32_dest)


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
) -> Tensor:
    """Each group is a product of its own; its window lies in the order height, width, channels."""
    x = input_tensor.reshape(batch_size, input_height, input_width, in_channels).permute(0, 3, 1, 2)
    top, bottom, left, right = padding if len(padding) == 4 else [p for p in padding for _ in range(2)]
    x = F.pad(x.float(), (left, right, top, bottom))
    kh, kw = kernel_size
    windows = F.unfold(x, (kh, kw), tuple(dilation), 0, tuple(stride))  # [batch, channels * kh * kw, positions]
    rows = windows.reshape(batch_size, groups, in_channels // groups, kh * kw, -1).permute(1, 0, 4, 3, 2)
    rows = rows.reshape(groups, -1, kh * kw * in_channels // groups)
    columns = weight_tensor.reshape(groups, out_channels // groups, -1, kh * kw).permute(0, 3, 2, 1)
    columns = columns.reshape(groups, -1, out_channels // groups)
    dest = matrix_unit.matmul(rows, columns, compute.fidelity, compute.fp32_dest, compute.block_tiles)
    dest = dest.transpose(0, 1).reshape(1, 1, -1, out_channels)
    bias = bias_tensor.reshape(-1) if bias_tensor is not None else None
    return compute.pack(_with_bias(dest, bias, compute), dtype or input_tensor.dtype)


def elementwise(
    name: str, compute: Compute, input_tensor_a: Any, dtype: torch.dtype | None = None, **other: Any
) -> Tensor:
    b = next(iter(other.values()))
    tensors = [t for t in (input_tensor_a, b) if isinstance(t, Tensor)]
    stored = functools.reduce(torch.promote_types, (t.dtype for t in tensors))
    a, b = (t if isinstance(t, Tensor) else torch.tensor(t, dtype=stored) for t in (input_tensor_a, b))
    if name == "ttnn.rsub":
        a, b = b, a
    if a.dtype == b.dtype == torch.float32:
        return matrix_unit.flush(VECTOR_UNIT[name](matrix_unit.flush(a), matrix_unit.flush(b))).to(dtype or stored)
    if name == "ttnn.multiply":
        dest = matrix_unit.multiply(a, b, compute.fidelity, compute.fp32_dest)
    else:
        dest = matrix_unit.add(a, b if name == "ttnn.add" else -b, compute.fp32_dest)
    return compute.pack(dest, dtype or stored)


VECTOR_UNIT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ttnn.add": torch.add,
    "ttnn.subtract": torch.sub,
    "ttnn.rsub": torch.sub,
    "ttnn.multiply": torch.mul,
}


def summing(name: str, compute: Compute, input_tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """One dimension after another, the last first, each result stored; a mean's scale goes with the first."""
    rank = input_tensor.dim()
    dims = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    order = sorted({d % max(rank, 1) for d in dims}, reverse=True)
    out = input_tensor
    if not rank:
        return out
    scale = 1.0
    if name == "ttnn.mean":
        count = torch.tensor([input_tensor.shape[d] for d in order]).prod()
        scale = float((1.0 / count).to(input_tensor.dtype))
    for d in order:
        out = compute.pack(matrix_unit.total(out, d, scale, compute.fidelity, compute.fp32_dest), input_tensor.dtype)
        scale = 1.0
    return out if keepdim else out.squeeze(order)


_PRODUCT = Family(product, ("input_tensor_a", "input_tensor_b"))
_ELEMENTWISE = Family(elementwise, None)
_SUM = Family(summing, None, fp32_dest=True)
FAMILIES: dict[str, Family] = {
    "ttnn.matmul": _PRODUCT,
    "ttnn.linear": _PRODUCT,
    "ttnn.conv2d": Family(convolution, ("input_tensor", "weight_tensor")),
    **dict.fromkeys(VECTOR_UNIT, _ELEMENTWISE),
    "ttnn.sum": _SUM,
    "ttnn.mean": _SUM,
}
