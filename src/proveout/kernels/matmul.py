"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from proveout.chip.device_op import MATRIX, DeviceOp, Work
from proveout.chip.forms.products import grid_config, product_of
from proveout.chip.matmul import Product
from proveout.chip.profile_text import CONFIGS, ProductConfig
from proveout.kernels import cuts
from proveout.kernels.activations import ACTIVATIONS, after
from proveout.kernels.faithful.products import product
from proveout.kernels.faithful.settings import for_product
from proveout.kernels.row import FLOAT, Call, Faithful, Kernel, Params, Specs, Weight
from proveout.program import Construct
from proveout.reasons import Kind, Reason
from proveout.types import DRAM, TensorSpec

BESIDE_SHARDS = Kind(
    "activation-beside-shards",
    "ttnn takes the activation of a product whose left factor lies in shards ({activation}) inside its program config",
)

Tensor = torch.Tensor


def matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: torch.dtype | None = None,
    activation: str | None = None,
    program_config: Construct | None = None,
) -> Tensor:
    a = input_tensor_a.transpose(-1, -2) if transpose_a else input_tensor_a
    b = input_tensor_b.transpose(-1, -2) if transpose_b else input_tensor_b
    if dtype == torch.float32 and a.dtype != torch.float32:
        a = a.float()  # the accumulator as it is, not rounded to the operands' dtype first
    b = b if b.dtype == a.dtype else b.to(a.dtype)  # the result has the first operand's dtype
    out = after(program_config, torch.matmul(a, b))
    out = ACTIVATIONS[activation](out) if activation else out
    return out.to(dtype) if dtype is not None else out


def linear(
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
    if input_tensor_b.dtype != a.dtype:  # the result has the first operand's dtype
        input_tensor_b = input_tensor_b.to(a.dtype)
    if input_tensor_b.dim() == 2 and (bias is None or bias.dim() == 1):
        out = F.linear(a, input_tensor_b if transpose_b else input_tensor_b.t(), bias)
    else:
        out = matmul(a, input_tensor_b, transpose_b=transpose_b)
        out = out + bias if bias is not None else out
    out = after(program_config, out)
    out = ACTIVATIONS[activation](out) if activation else out
    return out.to(dtype) if dtype is not None else out


def matmul_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    a: TensorSpec = specs["input_tensor_a"]
    k = a.padded_shape[-2 if specs.get("transpose_a") else -1]
    return Work(2.0 * math.prod(outputs[0].padded_shape) * k, MATRIX, phased=True)


def product_ops(call: Call) -> list[DeviceOp]:
    """ttnn runs the activation as an operation of its own unless a `core_grid` is given, and without a program config
    the bias too where a factor or the product lies in L1."""
    factors = tuple(call.specs[f"input_tensor_{side}"] for side in "ab")
    bias = call.specs.get("bias")
    configured = call.specs.get("program_config") is not None
    fixed = configured or call.specs.get("core_grid") is not None
    apart = bias is not None and not fixed and any(t.memory.buffer == "l1" for t in (*factors, call.out))
    params: Params = (("bias", bias.dtype),) if bias is not None and not apart else ()
    gridded = _on_grid(call, factors) if not configured else ()
    params += told_config(call.specs.get("program_config")) or gridded
    activated = call.specs.get("activation") and not gridded
    product = (replace(call.out),) if apart or activated else call.outputs
    ops = [DeviceOp("matmul", factors, product, call.work, call.fidelity, params=params)]
    if apart:
        assert bias is not None
        added = (replace(call.out),) if activated else call.outputs
        ops.append(DeviceOp("binary", (*product, bias), added))
        product = added
    if activated:
        called = (("called", str(call.specs["activation"])),)
        ops.append(DeviceOp("unary", product, call.outputs, params=called))
    return ops


def told_config(config: Any) -> Params:
    """How a program config cuts a product, and the activation that runs inside it, as the time model reads them."""
    kind = CONFIGS.get(config.name.removeprefix("ttnn.")) if isinstance(config, Construct) else None
    if kind is None:
        return ()
    fields = config.by_name
    sizes = {field: _whole(fields.get(name)) for field, name in SIZES.items()}
    grid: tuple[Any, ...] = next((g.by_place for g in config.inside("ttnn.CoreCoord")), ())
    columns, rows = grid[:2] if len(grid) > 1 else (0, 0)
    cut = ProductConfig(
        kind,
        **sizes,
        grid=(_whole(columns), _whole(rows)),
        mcast_in0=bool(fields.get("mcast_in0", True)),
        fuse_batch=bool(fields.get("fuse_batch", True)),
    )
    inside = str(fields.get("fused_activation") or "")
    activations = tuple(("fused", name) for name in FUSED if name in inside.upper())[:1]
    return (("config", cut), ("fused", activations)) if activations else (("config", cut),)


def _whole(value: Any) -> int:
    """A number of a config; what a forged Program may have in its place counts as not told."""
    return value if isinstance(value, int) else 0


def _on_grid(call: Call, factors: tuple[TensorSpec, ...]) -> Params:
    """Without a program config a `core_grid` says over which cores ttnn cuts the product."""
    grid = call.specs.get("core_grid")
    if not isinstance(grid, Construct) or not grid.by_name:
        return ()
    columns, rows = (_whole(grid.by_name.get(side)) for side in "xy")
    if not (columns and rows):
        return ()
    config = grid_config(product_in_tiles(call, factors), columns, rows)
    activation = str(call.specs.get("activation") or "").upper().removesuffix("_TANH")
    return (("config", config), *((("fused", (("fused", activation),)),) if activation else ()))


def product_in_tiles(call: Call, factors: tuple[TensorSpec, ...]) -> Product:
    """The product of a call as the time model counts it."""
    return product_of(DeviceOp("matmul", factors, call.outputs, call.work, call.fidelity))


SIZES = {
    "per_core_m": "per_core_M",
    "per_core_n": "per_core_N",
    "block_w": "in0_block_w",
    "out_h": "out_block_h",
    "out_w": "out_block_w",
    "sub_h": "out_subblock_h",
    "sub_w": "out_subblock_w",
}
"""ttnn's names for the sides of a product's blocks, in tiles."""
FUSED = ("SILU", "SIGMOID", "GELU", "RELU")


def product_refuses(specs: Specs) -> Reason | None:
    left, activation = specs["input_tensor_a"], specs.get("activation")
    return BESIDE_SHARDS(activation=str(activation)) if activation and left.memory.is_sharded else None


def _product(name: str, meaning: Callable[..., Tensor]) -> Kernel:
    return Kernel(
        name,
        meaning,
        matmul_work,
        "product",
        product_ops,
        FLOAT,
        out_memory=DRAM,
        weight=Weight("input_tensor_b"),
        cut=cuts.product,
        faithful=Faithful(product, for_product),
        refuse=product_refuses,
    )


KERNELS = [_product("ttnn.matmul", matmul), _product("ttnn.linear", linear)]
