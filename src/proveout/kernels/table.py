"""The kernel table: ttnn name -> its row, and what follows from one: output specs, refusals, calls. A family a file."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from proveout.kernels.blockfloat import FORMATS, quantise
from proveout.kernels.memory_config import CONSTRUCTOR, PLAIN, memory_of
from proveout.kernels.pieces import Pieces, mesh_argument, on_each_chip
from proveout.kernels.row import Cut, Kernel, Kind, Specs, flat_specs
from proveout.program import FROM_TORCH, TO_TORCH, Arg, Constant, Construct, Name, Ref, Step
from proveout.reasons import FROM_DRAM, KERNEL_DTYPE, Reason
from proveout.types import DRAM, HOST, L1, Layout, Memory, TensorSpec

FAMILIES = (
    "transfer", "eltwise", "matmul", "reduce", "movement", "norm", "attention", "decode", "paged", "conv", "embedding",
    "indexing", "mesh",
)  # fmt: skip

PLACEMENT = frozenset(
    {
        "memory_config",
        "compute_kernel_config",
        "compute_config",
        "program_config",
        "conv_config",
        "device",
        "core_grid",
        "sub_core_grids",
        "applied_shard_scheme",
    }
)
"""Attributes that say where or how: a meaning does not see them unless it asks."""


@functools.cache
def kernels() -> dict[str, Kernel]:
    """All rows by name; a duplicate is an error."""
    table: dict[str, Kernel] = {}
    for family in FAMILIES:
        for kernel in importlib.import_module(f"proveout.kernels.{family}").KERNELS:
            assert kernel.name not in table, f"two rows for {kernel.name}"
            table[kernel.name] = kernel
    return table


def kind_of(step: Step) -> Kind | None:
    """The kind of a Step's kernel; None for a host op."""
    return None if step.on_host else kernels()[step.kernel].kind


def refusal(kernel: Kernel, specs: Specs) -> Reason | None:
    """Why ttnn would refuse this call, or None."""
    for name, value in specs.items():
        for spec in flat_specs(value):
            if name in kernel.dram_operands and spec.memory == L1:
                return FROM_DRAM(kernel=kernel.name, operand=name)
            if kernel.dtypes is not None and spec.dtype not in kernel.dtypes and name not in kernel.host_operands:
                return KERNEL_DTYPE(kernel=kernel.name, wanted=tuple(sorted(kernel.dtypes)), dtype=spec.dtype)
    return kernel.refuse(specs) if kernel.refuse else None


def infer(step: Step, specs: Mapping[str, TensorSpec], target: str = "ttnn", chips: int = 1) -> tuple[TensorSpec, ...]:
    """The rule: output specs of a ttnn Step from its operands'. Shape and dtype come from the meaning itself. On
    several chips the specs of what they hold are those of one chip's piece."""
    kernel = kernels()[step.kernel]
    attrs = tuple((k, _spec_of(v, specs)) for k, v in step.attrs)
    return _infer(kernel, attrs, target, chips)


@functools.lru_cache(maxsize=4096)
def _infer(kernel: Kernel, attrs: tuple[tuple[str, Any], ...], target: str, chips: int) -> tuple[TensorSpec, ...]:
    arguments = dict(attrs)
    metas = {k: _meta(v) for k, v in attrs if sees(kernel, k)}
    if chips > 1 and kernel.across is not None:
        # A host tensor is whole, and so is the one chip's piece that a to_torch without composer takes.
        whole = kernel.name == FROM_TORCH or (kernel.name == TO_TORCH and "mesh_composer" not in arguments)
        spread = {k: Pieces([v] * chips) if _is_tensor(v) and not whole else v for k, v in metas.items()}
        out = meaning_on(kernel, chips)(**spread)
        out = out[0] if isinstance(out, Pieces) else out
    else:
        out = kernel.meaning(**metas)
    if out is None:
        return ()
    tensors = out if isinstance(out, (tuple, list)) else (out,)
    if target == "torch" or kernel.name == TO_TORCH:
        return tuple(TensorSpec(tuple(t.shape), dtype_name(t.dtype)) for t in tensors)
    operands = [s for v in arguments.values() for s in flat_specs(v)]
    layout: Layout = operands[0].layout if operands else "row_major"
    if "layout" in arguments:
        layout = resolve(arguments["layout"])
    layout = kernel.out_layout or layout
    follows = operands and operands[0].memory != HOST
    memory = kernel.out_memory or (operands[0].memory if follows else DRAM)
    if memory.shard is not None and tuple(tensors[0].shape) != operands[0].shape:
        memory = Memory(memory.buffer)  # a shard's shape is one tensor shape's own
    if "memory_config" in arguments:
        memory = resolve(arguments["memory_config"])
    if kernel.fixed_memory is not None:
        memory = kernel.fixed_memory(arguments) or memory
    narrow = _block_float(arguments, operands) if layout == "tile" else None
    dtypes = [narrow if narrow and t.dtype == torch.bfloat16 else dtype_name(t.dtype) for t in tensors]
    return tuple(TensorSpec(tuple(t.shape), dtype, layout, memory) for t, dtype in zip(tensors, dtypes))


def _block_float(specs: Specs, operands: Sequence[TensorSpec]) -> str | None:
    """The block float that results are stored in: the one asked for, else the first operand's."""
    dtype = specs.get("dtype")
    if isinstance(dtype, Name):
        name = dtype.text.removeprefix("ttnn.")
    else:
        name = operands[0].dtype if operands else ""
    return name if name in FORMATS else None


def _spec_of(arg: Arg, specs: Mapping[str, TensorSpec]) -> Any:
    if isinstance(arg, Ref):
        return specs[arg.name]
    return tuple(_spec_of(a, specs) for a in arg) if isinstance(arg, tuple) else arg


def specs_of(step: Step, specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    """A Step's attributes with values replaced by their specs: what rules, refusals and costs look at."""
    return {k: _spec_of(v, specs) for k, v in step.attrs}


def cuts(step: Step, specs: Mapping[str, TensorSpec]) -> list[Cut]:
    """The ways to divide a Step into smaller ones, outermost dimension first; empty for none."""
    return [cut for cut in all_cuts(step, specs) if cut.extent > cut.granule]


def all_cuts(step: Step, specs: Mapping[str, TensorSpec]) -> list[Cut]:
    """The same, with dimensions that have nothing to divide."""
    rule = kernels()[step.kernel].cut
    return rule(specs_of(step, specs), [specs[n] for n in step.outputs]) if rule and step.outputs else []


@functools.cache
def meaning_on(kernel: Kernel, chips: int, meaning: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The meaning for values that lie on this many chips, given that on one; without it, the kernel's own."""
    meaning = meaning or kernel.meaning
    if chips == 1:
        return meaning
    if kernel.name == FROM_TORCH:
        assert kernel.across is not None
        return functools.partial(kernel.across, meaning, chips)
    return kernel.across or on_each_chip(meaning, chips)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _meta(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        return torch.empty(value.shape, dtype=torch_dtype(value.dtype), device="meta")
    if isinstance(value, tuple):
        return tuple(_meta(v) for v in value)
    return resolve(value)


def call_meaning(kernel: Kernel, attrs: Mapping[str, Any], meaning: Callable[..., Any] | None = None) -> Any:
    """Run a kernel's meaning, or another with the same arguments, on torch tensors; names (`ttnn.bfloat16`) are
    resolved, placement is dropped."""
    return (meaning or kernel.meaning)(**{k: _resolve_deep(v) for k, v in attrs.items() if sees(kernel, k)})


def sees(kernel: Kernel, name: str) -> bool:
    """Whether a meaning is given an attribute: placement only where it asks for it, since a config may hold an
    activation."""
    return name not in PLACEMENT or name in kernel.parameters


@functools.cache
def storing(kernel: Kernel, dtypes: tuple[str, ...]) -> Callable[..., Any]:
    """The meaning with its results stored in these dtypes: a block float is packed and read back."""
    if FORMATS.keys().isdisjoint(dtypes):
        return kernel.meaning
    packer = kernel.packs
    if packer is not None:
        return lambda dtype=None, layout=None, **operand: quantise(next(iter(operand.values())), dtypes[0], packer)

    def meaning(**attrs: Any) -> Any:
        out = kernel.meaning(**attrs)
        results = out if isinstance(out, (tuple, list)) else (out,)
        packed = [quantise(r, d, "device") if d in FORMATS else r for r, d in zip(results, dtypes, strict=True)]
        return packed if isinstance(out, (tuple, list)) else packed[0]

    return meaning


def _resolve_deep(value: Any) -> Any:
    deep = isinstance(value, tuple) and not isinstance(value, Pieces)
    return tuple(_resolve_deep(v) for v in value) if deep else resolve(value)


_STORED_AS = {"bfloat8_b": torch.bfloat16, "bfloat4_b": torch.bfloat16}
_NAMES: dict[str, Any] = {
    "ttnn.TILE_LAYOUT": "tile",
    "ttnn.ROW_MAJOR_LAYOUT": "row_major",
    **PLAIN,
    "ttnn.GeluVariant.Accurate": "Accurate",
    "ttnn.GeluVariant.Tanh": "Tanh",
    "device": None,
}
LAYOUT_NAMES = {"tile": Name("ttnn.TILE_LAYOUT"), "row_major": Name("ttnn.ROW_MAJOR_LAYOUT")}
MEMORY_NAMES: dict[Memory, Name] = {DRAM: Name("ttnn.DRAM_MEMORY_CONFIG"), L1: Name("ttnn.L1_MEMORY_CONFIG")}


def resolve(value: Any) -> Any:
    """A Name or Construct as the Python object it stands for in torch's world; anything else as it is."""
    if isinstance(value, Construct):
        return memory_of(value) if value.name == CONSTRUCTOR else mesh_argument(value) or value
    if not isinstance(value, Name):
        return value
    if value.text in _NAMES:
        return _NAMES[value.text]
    kind, _, name = value.text.partition(".")
    if name in _STORED_AS:
        return _STORED_AS[name]
    return getattr(torch, name) if kind in ("ttnn", "torch") else value


def torch_dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = _STORED_AS.get(name) or getattr(torch, name)
    return dtype


def constant_bytes(spec: TensorSpec) -> int:
    """How many bytes a constant of this spec has."""
    return spec.numel * torch_dtype(spec.dtype).itemsize


def constant_tensor(constant: Constant, spec: TensorSpec) -> torch.Tensor:
    dtype = torch_dtype(spec.dtype)
    if not constant.data:
        return torch.empty(spec.shape, dtype=dtype)
    return torch.frombuffer(bytearray(constant.data), dtype=dtype).reshape(spec.shape)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
