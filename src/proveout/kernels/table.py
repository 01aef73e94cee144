"""The kernel table: ttnn name -> torch meaning, output rule, refusals and cost. One family a file."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from proveout.chip.time import Work
from proveout.kernels.blockfloat import FORMATS, Packer, quantise
from proveout.kernels.memory_config import CONSTRUCTOR, PLAIN, parse_memory
from proveout.kernels.pieces import Pieces, mesh_argument, on_each_chip
from proveout.program import FROM_TORCH, TO_TORCH, Arg, Constant, Name, Ref, Step
from proveout.types import DRAM, HOST, L1, Layout, Memory, TensorSpec

FAMILIES = (
    "transfer", "eltwise", "matmul", "reduce", "movement", "norm", "attention", "conv", "embedding", "indexing", "mesh",
)  # fmt: skip

Specs = Mapping[str, Any]
"""Attributes with every tensor replaced by its TensorSpec (tuples of them for lists)."""

PLACEMENT = frozenset(
    {
        "memory_config",
        "compute_kernel_config",
        "compute_config",
        "program_config",
        "conv_config",
        "device",
        "core_grid",
    }
)
"""Attributes that say where or how, never what: a meaning does not see them."""

STAYS_ON_HOST = frozenset({"ttnn.from_device", "ttnn.to_dtype"})
"""Kernels whose result is a tensor in the host's memory."""

GIVES_DRAM = frozenset({"ttnn.matmul", "ttnn.linear", "ttnn.concat", "ttnn.transformer.scaled_dot_product_attention"})
"""Kernels whose result goes to DRAM unless a memory config is given, wherever their operands lie; others follow."""

FLOAT = frozenset({"float32", "bfloat16", "bfloat8_b", "bfloat4_b"})
INT = frozenset({"int32", "uint32"})


def no_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work()


@dataclass(frozen=True)
class Kernel:
    """One row: what a ttnn function means and what it asks of its operands."""

    name: str
    meaning: Callable[..., Any]
    """A torch function with ttnn's own argument names; its dtypes are the device's."""
    work: Callable[[Specs, Sequence[TensorSpec]], Work] = no_work
    layout: Layout | None = "tile"
    """The layout that tensor operands must have; None takes any."""
    out_layout: Layout | None = None
    """The layout of the result where it is not the operands'."""
    out_memory: Memory | None = None
    """Where the result lies unless a memory_config says otherwise, where that is not the operands' place."""
    fixed_memory: Callable[[Specs], Memory | None] | None = None
    """Where ttnn puts the result whatever `memory_config` says; None leaves it to that."""
    dtypes: frozenset[str] | None = None
    """Device dtypes that tensor operands may have; None takes any."""
    refuse: Callable[[Specs], str | None] | None = None
    """ttnn's own refusals, told from specs; None means accepted."""
    host_operands: frozenset[str] = field(default_factory=frozenset)
    """Operands that stay host-side ttnn tensors in row-major layout (conv weights: ttnn prepares them)."""
    dram_operands: frozenset[str] = field(default_factory=frozenset)
    """Operands that ttnn takes from DRAM alone."""
    view: bool = False
    """Whether the meaning may return a view of its operand."""
    across: Callable[..., Any] | None = None
    """The meaning over all chips at once, for the few kernels that move numbers to, from or between them; any other
    runs on each chip by itself. `ttnn.from_torch`'s also takes the meaning on one chip and the number of chips."""


@functools.cache
def kernels() -> dict[str, Kernel]:
    """All rows by name; a duplicate is an error."""
    table: dict[str, Kernel] = {}
    for family in FAMILIES:
        for kernel in importlib.import_module(f"proveout.kernels.{family}").KERNELS:
            assert kernel.name not in table, f"two rows for {kernel.name}"
            table[kernel.name] = kernel
    return table


def refusal(kernel: Kernel, specs: Specs) -> str | None:
    """Why ttnn would refuse this call, or None."""
    for name, value in specs.items():
        for spec in flat_specs(value):
            if name in kernel.dram_operands and spec.memory.buffer == "l1":
                return f"{kernel.name} takes {name} from DRAM"
            if kernel.dtypes is not None and spec.dtype not in kernel.dtypes and name not in kernel.host_operands:
                return f"{kernel.name} takes {' or '.join(sorted(kernel.dtypes))}, not {spec.dtype}"
    return kernel.refuse(specs) if kernel.refuse else None


def flat_specs(value: Any) -> list[TensorSpec]:
    """The TensorSpecs inside one attribute."""
    if isinstance(value, TensorSpec):
        return [value]
    return [s for v in value for s in flat_specs(v)] if isinstance(value, (tuple, list)) else []


def infer(step: Step, specs: Mapping[str, TensorSpec], target: str = "ttnn", chips: int = 1) -> tuple[TensorSpec, ...]:
    """The rule: output specs of a ttnn Step from its operands'. Shape and dtype come from the meaning itself. On
    several chips the specs of what they hold are those of one chip's piece."""
    kernel = kernels()[step.kernel]
    attrs = tuple((k, _spec_of(v, specs)) for k, v in step.attrs)
    return _infer(kernel, attrs, target, chips)


@functools.lru_cache(maxsize=4096)
def _infer(kernel: Kernel, attrs: tuple[tuple[str, Any], ...], target: str, chips: int) -> tuple[TensorSpec, ...]:
    given = dict(attrs)
    metas = {k: _meta(v) for k, v in attrs if k not in PLACEMENT}
    if chips > 1 and kernel.across is not None:
        # A host tensor is whole, and so is the one chip's piece that a to_torch without composer takes.
        whole = kernel.name == FROM_TORCH or (kernel.name == TO_TORCH and "mesh_composer" not in given)
        spread = {k: Pieces([v] * chips) if _is_tensor(v) and not whole else v for k, v in metas.items()}
        out = meaning_on(kernel, chips)(**spread)
        out = out[0] if isinstance(out, Pieces) else out
    else:
        out = kernel.meaning(**metas)
    if out is None:
        return ()
    tensors = out if isinstance(out, (tuple, list)) else (out,)
    if target == "torch" or kernel.name == "ttnn.to_torch":
        return tuple(TensorSpec(tuple(t.shape), dtype_name(t.dtype)) for t in tensors)
    operands = [s for v in given.values() for s in flat_specs(v)]
    layout: Layout = operands[0].layout if operands else "row_major"
    if "layout" in given:
        layout = resolve(given["layout"])
    layout = kernel.out_layout or layout
    follows = operands and operands[0].memory != HOST and kernel.name not in GIVES_DRAM
    memory = kernel.out_memory or (operands[0].memory if follows else DRAM)
    if memory.shard is not None and tuple(tensors[0].shape) != operands[0].shape:
        memory = Memory(memory.buffer)  # a shard's shape is one tensor shape's own
    if "memory_config" in given:
        memory = resolve(given["memory_config"])
    elif kernel.name in STAYS_ON_HOST or (kernel.name == "ttnn.from_torch" and "device" not in given):
        memory = HOST
    if kernel.fixed_memory is not None:
        memory = kernel.fixed_memory(given) or memory
    narrow = _block_float(given, operands) if layout == "tile" else None
    dtypes = [narrow if narrow and t.dtype == torch.bfloat16 else dtype_name(t.dtype) for t in tensors]
    return tuple(TensorSpec(tuple(t.shape), dtype, layout, memory) for t, dtype in zip(tensors, dtypes))


def _block_float(given: Specs, operands: Sequence[TensorSpec]) -> str | None:
    """The block float that results are stored in: the one asked for, else the first operand's."""
    asked = given.get("dtype")
    if isinstance(asked, Name):
        name = asked.text.removeprefix("ttnn.")
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
    return (meaning or kernel.meaning)(**{k: _resolve_deep(v) for k, v in attrs.items() if k not in PLACEMENT})


PACKERS: dict[str, Packer] = {FROM_TORCH: "host", "ttnn.to_dtype": "host", "ttnn.typecast": "device"}
"""Kernels that pack their operand as it is; after all others the chip packs a bfloat16 result."""


@functools.cache
def storing(kernel: Kernel, dtypes: tuple[str, ...]) -> Callable[..., Any]:
    """The meaning with its results stored in these dtypes: a block float is packed and read back."""
    if FORMATS.keys().isdisjoint(dtypes):
        return kernel.meaning
    if kernel.name in PACKERS:
        packer = PACKERS[kernel.name]
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
    """A Name as the Python object it stands for in torch's world; anything else as it is."""
    if not isinstance(value, Name):
        return value
    if value.text in _NAMES:
        return _NAMES[value.text]
    across = mesh_argument(value.text)
    if across is not None:
        return across
    if value.text.startswith(CONSTRUCTOR):
        return parse_memory(value.text)
    kind, _, name = value.text.partition(".")
    if name in _STORED_AS:
        return _STORED_AS[name]
    return getattr(torch, name) if kind in ("ttnn", "torch") else value


def torch_dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = _STORED_AS.get(name) or getattr(torch, name)
    return dtype


def constant_tensor(constant: Constant, spec: TensorSpec) -> torch.Tensor:
    dtype = torch_dtype(spec.dtype)
    if not constant.data:
        return torch.empty(spec.shape, dtype=dtype)
    return torch.frombuffer(bytearray(constant.data), dtype=dtype).reshape(spec.shape)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
