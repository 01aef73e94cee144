"""How the matrix unit runs one Step: what its configs say, and what ttnn chooses where they say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proveout.chip.fidelity import PHASES, default_fidelity
from proveout.chip.matmul import Product
from proveout.chip.program_config import program_config
from proveout.kernels.arithmetic import formats
from proveout.kernels.arithmetic.bits import Arch
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.blockfloat import FORMATS, quantise
from proveout.program import Construct
from proveout.types import TILE, DeviceSpec, Fidelity, TensorSpec

Tensor = torch.Tensor

CONFIGS = ("compute_kernel_config", "compute_config")


@dataclass(frozen=True)
class Compute:
    """How the matrix unit runs one Step."""

    fidelity: str
    fp32_dest: bool = False
    arch: Arch = "wormhole"
    out: str = "bfloat16"
    """The format that the result is stored in."""
    block_tiles: int | None = None
    """Tiles of K between two visits to L1; None: all of K stays in the destination."""
    l1_acc: bool = False
    """Whether the packer adds blocks up in L1; else each block starts from the one before, read back."""

    @property
    def unit(self) -> Unit:
        return Unit(self.arch, PHASES[self.fidelity], self.fp32_dest)

    def pack(self, dest: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """A destination as L1 holds it. Block floats are packed once more by `storing`, which changes nothing."""
        if self.out in FORMATS:
            return quantise(dest, self.out, "device")
        if dtype == torch.float32 or (dtype is None and self.out == "float32"):
            return dest
        return formats.pack_bfloat16(dest, self.fp32_dest).to(torch.bfloat16)


def arch_of(chip: DeviceSpec) -> Arch:
    return "wormhole" if chip.arch.startswith("wormhole") else "blackhole"


def keywords(config: Any) -> dict[str, Any]:
    """The keyword arguments of a config, such as `ttnn.WormholeComputeKernelConfig(fp32_dest_acc_en=True)`."""
    return config.by_name if isinstance(config, Construct) else {}


def given_config(specs: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a call's compute config says; None where it has none."""
    return next((keywords(specs[c]) for c in CONFIGS if specs.get(c) is not None), None)


def told_fidelity(specs: Mapping[str, Any]) -> Fidelity | None:
    """The fidelity that a call's compute config names, if it has one and names one."""
    said = str((given_config(specs) or {}).get("math_fidelity", "")).rpartition(".")[2]
    return said if said in PHASES else None  # type: ignore[return-value]


def for_product(specs: Mapping[str, Any], out: TensorSpec, chip: DeviceSpec, chosen: str | None) -> Compute:
    """A matrix product's: without a config ttnn takes the operands' fidelity, a float32 destination for a float32
    result, and adds blocks of K in L1 otherwise; with one, LoFi and neither unless it says so."""
    a, b = specs["input_tensor_a"], specs["input_tensor_b"]
    config = given_config(specs)
    if config is None:
        fidelity = chosen or default_fidelity([a.dtype, b.dtype], chip)
        wide = out.dtype == "float32" or a.dtype == "float32"
        l1_acc = not wide
    else:
        fidelity = told_fidelity(specs) or chosen or "LoFi"
        wide, l1_acc = bool(config.get("fp32_dest_acc_en")), bool(config.get("packer_l1_acc"))
    block = keywords(specs.get("program_config")).get("in0_block_w")
    if block is None and specs.get("program_config") is None:
        block = _block(a, b, specs, out, chip)
    return Compute(fidelity, wide, arch_of(chip), out.dtype, block, l1_acc)


ALIGNED = 8
"""Channels of a convolution's input are padded to so many."""


def for_convolution(specs: Mapping[str, Any], out: TensorSpec, chip: DeviceSpec, chosen: str | None) -> Compute:
    """A convolution's in height shards: a row of the window at a time. Without a config HiFi4, a float32 destination
    for two float32 operands, and each block starts from the one before."""
    config = given_config(specs) or {}
    factors = (specs["input_tensor"].dtype, specs["weight_tensor"].dtype)
    wide = bool(config["fp32_dest_acc_en"]) if "fp32_dest_acc_en" in config else factors == ("float32", "float32")
    channels = specs["in_channels"] // specs.get("groups", 1)
    row = specs["kernel_size"][1] * -(-channels // ALIGNED) * ALIGNED
    fidelity = told_fidelity(specs) or chosen or "HiFi4"
    return Compute(fidelity, wide, arch_of(chip), out.dtype, -(-row // TILE), bool(config.get("packer_l1_acc")))


def _block(a: TensorSpec, b: TensorSpec, specs: Mapping[str, Any], out: TensorSpec, chip: DeviceSpec) -> int | None:
    """Tiles of K in a block of the program config that ttnn builds when it is given none."""
    if len(a.shape) < 2 or len(b.shape) < 2 or not out.numel or not a.numel:
        return None
    deep = a.padded_shape[-2 if specs.get("transpose_a") else -1]
    rows, columns = (max(1, -(-n // TILE)) for n in out.padded_shape[-2:])
    product = Product(
        m=rows,
        k=deep // TILE,
        n=columns,
        in0=a.dtype,
        in1=b.dtype,
        out=out.dtype,
        in0_l1=a.memory.buffer == "l1",
        in1_l1=b.memory.buffer == "l1",
        out_l1=out.memory.buffer == "l1",
    )
    bias = specs.get("bias")
    config = program_config(product, chip, bias.dtype if isinstance(bias, TensorSpec) else None)
    return None if config.kind == "tiles" else config.k


def plain(wide: bool = False) -> Any:
    """A kernel's that is no product: HiFi4 unless something is said, and a 16-bit destination unless `wide`, its
    result or its config is."""

    def compute(specs: Mapping[str, Any], out: TensorSpec, chip: DeviceSpec, chosen: str | None) -> Compute:
        config = given_config(specs)
        if config is None:
            return Compute(chosen or "HiFi4", wide or out.dtype == "float32", arch_of(chip), out.dtype)
        fidelity = told_fidelity(specs) or chosen or "HiFi4"
        return Compute(fidelity, bool(config.get("fp32_dest_acc_en")), arch_of(chip), out.dtype)

    return compute


def on_vector_unit(specs: Mapping[str, Any]) -> bool:
    """That the matrix unit reads the operands of a kernel that the vector unit computes: never."""
    return False


def dtypes_of(tensors: Sequence[Tensor]) -> torch.dtype:
    """The widest of them."""
    out = tensors[0].dtype
    for t in tensors[1:]:
        out = torch.promote_types(out, t.dtype)
    return out
