"""The eager face of the kernel table: hand-written ttnn code runs on the embedded chip, with ttnn's own names.

    from proveout import ttnn

    device = ttnn.open_device(device_id=0)
    x = ttnn.from_torch(torch.randn(32, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    y = ttnn.to_torch(ttnn.gelu(x))

Calls bind to ttnn 0.81.1's signatures; what ttnn refuses is refused here, as a RuntimeError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import torch

from proveout.chip.fidelity import PHASES
from proveout.chip.specs import CHIPS
from proveout.devices.registry import ALIASES
from proveout.devices.sim import Sim
from proveout.devices.sim.mesh import ConcatMeshToTensor as ConcatMeshToTensor
from proveout.devices.sim.mesh import FabricConfig as FabricConfig
from proveout.devices.sim.mesh import MeshDevice, MeshName, ReplicateTensorToMesh, mesh_chips
from proveout.devices.sim.mesh import MeshShape as MeshShape
from proveout.devices.sim.mesh import ShardTensorToMesh as ShardTensorToMesh
from proveout.devices.sim.mesh import close_mesh_device as close_mesh_device
from proveout.devices.sim.mesh import open_mesh_device as open_mesh_device
from proveout.devices.sim.mesh import set_fabric_config as set_fabric_config
from proveout.kernels.blockfloat import FORMATS
from proveout.kernels.faithful import faithful
from proveout.kernels.pieces import Pieces, pieces_of
from proveout.kernels.signatures import Parameter, signatures
from proveout.kernels.table import (
    PLACEMENT,
    Kernel,
    call_meaning,
    flat_specs,
    infer,
    kernels,
    meaning_on,
    refusal,
    resolve,
    storing,
)
from proveout.kernels.transfer import to_torch_across
from proveout.program import Name, Ref, Step
from proveout.types import DRAM, HOST, L1, Memory, TensorSpec

Device = Sim


class DataType(Name):
    """A ttnn dtype; prints as ttnn's do."""

    def __str__(self) -> str:
        return f"DataType.{self.text.removeprefix('ttnn.').upper()}"


class Layout(Name):
    """A ttnn layout."""

    def __str__(self) -> str:
        return f"Layout.{self.text.removeprefix('ttnn.').removesuffix('_LAYOUT')}"


bfloat16, float32 = DataType("ttnn.bfloat16"), DataType("ttnn.float32")
bfloat8_b, bfloat4_b = DataType("ttnn.bfloat8_b"), DataType("ttnn.bfloat4_b")
int32, uint32, uint16, uint8 = (DataType(f"ttnn.{d}") for d in ("int32", "uint32", "uint16", "uint8"))
TILE_LAYOUT, ROW_MAJOR_LAYOUT = Layout("ttnn.TILE_LAYOUT"), Layout("ttnn.ROW_MAJOR_LAYOUT")
DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG = Name("ttnn.DRAM_MEMORY_CONFIG"), Name("ttnn.L1_MEMORY_CONFIG")
MathFidelity = SimpleNamespace(**{f: Name(f"ttnn.MathFidelity.{f}") for f in PHASES})
GeluVariant = SimpleNamespace(Accurate=Name("ttnn.GeluVariant.Accurate"), Tanh=Name("ttnn.GeluVariant.Tanh"))
TILE_SIZE = 32

_MEMORY = {DRAM: DRAM_MEMORY_CONFIG, L1: L1_MEMORY_CONFIG, HOST: None}


def _config(name: str) -> Callable[..., Name]:
    """One of ttnn's config classes: its call as text, which kernels and exported scripts read."""

    def make(**fields: Any) -> Name:
        told = (f"{k}={v.text if isinstance(v, Name) else repr(v)}" for k, v in fields.items())
        return Name(f"ttnn.{name}({', '.join(told)})")

    return make


Conv2dConfig, WormholeComputeKernelConfig = _config("Conv2dConfig"), _config("WormholeComputeKernelConfig")


def open_device(
    *,
    device_id: int = 0,
    chip: str = ALIASES["sim"].removeprefix("sim:"),
    numerics: Literal["fast", "faithful"] = "fast",
    **reserved: int,
) -> Device:
    """Open the embedded chip. Sizes that real ttnn takes (`l1_small_size`, `trace_region_size` …) are accepted."""
    if device_id != 0:
        raise RuntimeError(f"device {device_id} is not there: the embedded {chip} has device 0.")
    if chip not in CHIPS:
        raise RuntimeError(f"chip {chip!r} is not known; valid: {', '.join(CHIPS)}.")
    return Sim(chip, numerics)


def close_device(device: Device) -> None:
    device.close()


class Tensor:
    """A tensor of the chip: its spec, and its numbers as torch holds them; on a mesh, those of each chip."""

    def __init__(self, data: torch.Tensor | Pieces, spec: TensorSpec, device: Device | None) -> None:
        self.spec, self._device = spec, device
        self._data: torch.Tensor | Pieces | None = data

    @property
    def data(self) -> torch.Tensor | Pieces:
        if self._data is None:
            raise RuntimeError("TT_FATAL: the tensor was deallocated")
        return self._data

    def free(self) -> None:
        self._data = None

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self.spec.shape)

    @property
    def padded_shape(self) -> torch.Size:
        return torch.Size(self.spec.padded_shape)

    @property
    def dtype(self) -> DataType:
        return DataType(f"ttnn.{self.spec.dtype}")

    @property
    def layout(self) -> Layout:
        return TILE_LAYOUT if self.spec.layout == "tile" else ROW_MAJOR_LAYOUT

    def memory_config(self) -> Name | None:
        return _MEMORY.get(Memory(self.spec.memory.buffer))

    def device(self) -> Device | None:
        return self._device

    def __add__(self, other: Any) -> Tensor:
        return _call("ttnn.add", self, other)

    def __sub__(self, other: Any) -> Tensor:
        return _call("ttnn.subtract", self, other)

    def __mul__(self, other: Any) -> Tensor:
        return _call("ttnn.multiply", self, other)

    def __matmul__(self, other: Any) -> Tensor:
        return _call("ttnn.matmul", self, other)

    def __repr__(self) -> str:
        return f"ttnn.Tensor({self._data}, shape={list(self.shape)}, dtype={self.dtype}, layout={self.layout})"


def from_torch(
    tensor: torch.Tensor,
    dtype: DataType | None = None,
    *,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: Name | None = None,
    mesh_mapper: MeshName | None = None,
) -> Tensor:
    """A torch tensor as ttnn's: on the host, or on the device where one is given; on a mesh whole on every chip, unless
    a mapper says otherwise."""
    if isinstance(device, MeshDevice) and mesh_mapper is None:
        mesh_mapper = ReplicateTensorToMesh(device)
    if tensor.dtype in (torch.int64, torch.bool) and dtype is None:
        dtype = int32
    packed = dtype in (bfloat8_b, bfloat4_b)
    layout = layout or (TILE_LAYOUT if packed else ROW_MAJOR_LAYOUT)
    given = {"dtype": dtype, "layout": layout, "device": device, "memory_config": memory_config}
    given["mesh_mapper"] = mesh_mapper
    return _run("ttnn.from_torch", {"tensor": tensor.clone(), **{k: v for k, v in given.items() if v is not None}})


def to_torch(
    tensor: Tensor, dtype: torch.dtype | None = None, *, mesh_composer: MeshName | None = None
) -> torch.Tensor:
    """A copy of a ttnn tensor as torch's, in its own or the given dtype; block floats come as float32. A composer joins
    a mesh's pieces."""
    dtype = dtype or (torch.float32 if tensor.spec.dtype in FORMATS else pieces_of(tensor.data)[0].dtype)
    data = tensor.data
    if isinstance(data, Pieces):
        if mesh_composer is None:
            raise RuntimeError(f"TT_FATAL: the tensor lies on {len(data)} chips; to_torch needs a mesh_composer")
        return to_torch_across(data, resolve(mesh_composer), dtype)
    return data.to(dtype).clone()


def to_device(tensor: Tensor, device: Device, memory_config: Name | None = None) -> Tensor:
    memory = L1 if memory_config == L1_MEMORY_CONFIG else DRAM
    spec = TensorSpec(tensor.spec.shape, tensor.spec.dtype, tensor.spec.layout, memory)
    return Tensor(tensor.data, spec, device)


def from_device(tensor: Tensor) -> Tensor:
    spec = TensorSpec(tensor.spec.shape, tensor.spec.dtype, tensor.spec.layout, HOST)
    return Tensor(tensor.data, spec, None)


def synchronize_device(device: Device) -> None:
    """Nothing is asynchronous here."""


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return _run(name, _bind(name, args, kwargs))


def _bind(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, through the first of ttnn's overloads that takes them."""
    for overload in signatures()[name]:
        positional = [p.name for p in overload if not p.keyword_only]
        if len(args) > len(positional) or not all(_fits(p, v) for p, v in zip(overload, args)):
            continue
        bound = {**dict(zip(positional, args)), **kwargs}
        if len(bound) < len(args) + len(kwargs):
            continue
        known = {p.name: p for p in overload}
        required = [p.name for p in overload if p.required]
        if all(k in known and _fits(known[k], v) for k, v in bound.items()) and all(r in bound for r in required):
            return bound
    raise TypeError(f"{name}(): incompatible function arguments. See its signature: help(ttnn)")


def _fits(parameter: Parameter, value: Any) -> bool:
    tensor = isinstance(value, Tensor) or (
        isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value)
    )
    return parameter.may_take(tensor)


GIVES_LIST = ("ttnn.get_device_tensors",)
ON_HOST_TOO = ("ttnn.from_torch", "ttnn.to_layout", "ttnn.reshape", "ttnn.deallocate")
"""What takes tensors that are not on the device."""


def _run(name: str, bound: dict[str, Any]) -> Any:
    values: dict[str, torch.Tensor | Pieces] = {}
    specs: dict[str, TensorSpec] = {}
    devices: list[Device | None] = []

    def enter(value: Any) -> Any:
        key = str(len(values))
        if isinstance(value, torch.Tensor):
            values[key], specs[key] = value, TensorSpec(tuple(value.shape), str(value.dtype).removeprefix("torch."))
            return Ref(key)
        if isinstance(value, Tensor):
            values[key], specs[key] = value.data, value.spec
            devices.append(value.device())
            return Ref(key)
        if isinstance(value, (list, tuple)):
            return tuple(map(enter, value))
        return Name("device") if isinstance(value, Sim) else value

    kernel = kernels()[name]
    attrs = {k: enter(v) for k, v in bound.items() if v is not None}
    described = {k: _replace(v, specs) for k, v in attrs.items()}
    wrong = _misplaced(kernel, described) or refusal(kernel, described)
    if wrong:
        raise RuntimeError(f"TT_FATAL: {wrong}")
    chips = mesh_chips((*devices, *bound.values()))
    try:
        outputs = infer(Step(name, tuple(attrs.items()), ()), specs, chips=chips)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise RuntimeError(f"{name}: {str(error).split('() ')[-1]}: that is not served yet") from None
    device = bound.get("device") or next((d for d in devices if d is not None), None)
    meaning = storing(kernel, tuple(s.dtype for s in outputs))
    if device is not None and device.numerics == "faithful":
        made_of = {f"out {i}": spec for i, spec in enumerate(outputs)}
        meaning = faithful(Step(name, tuple(attrs.items()), tuple(made_of)), specs | made_of, device.spec, None)
    meaning = meaning_on(kernel, chips, meaning)
    data = call_meaning(kernel, {k: _replace(v, values) for k, v in attrs.items() if k not in PLACEMENT}, meaning)
    if name == "ttnn.deallocate":
        bound["tensor"].free()
    made = data if isinstance(data, (tuple, list)) and not isinstance(data, Pieces) else (data,)
    if name in GIVES_LIST:
        device = None  # each is one chip's piece: a mesh's calls do not take it
    tensors = [Tensor(d, s, device) for d, s in zip(made, outputs)]
    return tensors[0] if len(tensors) == 1 and name not in GIVES_LIST else tensors if tensors else None


def _misplaced(kernel: Kernel, described: dict[str, Any]) -> str | None:
    """ttnn wants operands on the device, in the kernel's layout."""
    for name, value in described.items():
        for spec in flat_specs(value):
            if name in kernel.host_operands:
                continue
            if kernel.layout and spec.layout != kernel.layout:
                return f"{name} must be in {kernel.layout} layout, not {spec.layout}"
            if spec.memory == HOST and kernel.name not in ON_HOST_TOO:
                return f"{name} must be on the device; use ttnn.to_device"
    return None


def _replace(value: Any, table: dict[str, Any]) -> Any:
    if isinstance(value, Ref):
        return table[value.name]
    return tuple(_replace(v, table) for v in value) if isinstance(value, tuple) else value


def _namespace(prefix: str) -> SimpleNamespace:
    names = [n for n in kernels() if n.startswith(prefix)]
    return SimpleNamespace(**{n.removeprefix(prefix): functools.partial(_call, n) for n in names})


transformer = _namespace("ttnn.transformer.")
experimental = _namespace("ttnn.experimental.")


def __getattr__(name: str) -> Callable[..., Any]:
    """Every kernel of the table by its ttnn name."""
    if f"ttnn.{name}" not in kernels():
        raise AttributeError(f"ttnn.{name} is not served yet; `proveout ops` lists what is")
    return functools.partial(_call, f"ttnn.{name}")
