"""Transfers, copies, layouts and shards: ttnn functions that move tensors or change how they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from proveout.kernels.blockfloat import FORMATS
from proveout.kernels.cost import step_time
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.pieces import Pieces, pieces_of
from proveout.kernels.table import resolve, torch_dtype
from proveout.kernels.transfer import to_torch_across
from proveout.program import TO_DEVICE, TO_TORCH, Name, Ref, Step
from proveout.ttnn import recording
from proveout.ttnn.buffers import Buffer
from proveout.ttnn.calls import run, serves
from proveout.ttnn.device import Device, current_queue
from proveout.ttnn.enums import (
    ROW_MAJOR_LAYOUT,
    TILE_LAYOUT,
    BufferType,
    DataType,
    Layout,
    TensorMemoryLayout,
    int32,
)
from proveout.ttnn.memory import (
    DRAM_MEMORY_CONFIG,
    L1,
    CoreCoord,
    CoreGrid,
    CoreRangeSet,
    MemoryConfig,
    ShardSpec,
    core_range_set,
)
from proveout.ttnn.mesh import MeshDevice, OnMesh, ReplicateTensorToMesh
from proveout.ttnn.tensor import Tensor
from proveout.types import DRAM, HOST, Settings, TensorSpec

# ---- between torch, the host and the device ----------------------------------------------------------------------


@serves("ttnn.from_torch")
def from_torch(
    tensor: torch.Tensor,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    spec: TensorSpec | None = None,
    cq_id: int | None = None,
    mesh_mapper: OnMesh | None = None,
    **rest: Any,
) -> Tensor:
    """A torch tensor as ttnn's: on the host, or on the device where one is given; on a mesh whole on every chip, unless
    a mapper says otherwise."""
    if isinstance(device, MeshDevice) and mesh_mapper is None:
        mesh_mapper = ReplicateTensorToMesh(device)
    _only_served("ttnn.from_torch", rest)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"ttnn.from_torch(): incompatible function arguments: a torch tensor, not {type(tensor)}")
    if spec is not None:
        dtype = dtype or DataType(f"ttnn.{spec.dtype}")
        layout = layout or (TILE_LAYOUT if spec.layout == "tile" else ROW_MAJOR_LAYOUT)
    if tensor.dtype in (torch.int64, torch.bool) and dtype is None:
        dtype = int32
    packed = dtype is not None and dtype.text.removeprefix("ttnn.") in FORMATS
    layout = layout or (TILE_LAYOUT if packed else ROW_MAJOR_LAYOUT)
    placed = {"device": device, "memory_config": memory_config, "mesh_mapper": mesh_mapper}
    arguments = {"tensor": tensor, "dtype": dtype, "layout": layout, **placed}
    return run("ttnn.from_torch", {k: v for k, v in arguments.items() if v is not None}, cq_id)  # type: ignore[no-any-return]


@serves("ttnn.as_tensor")
def as_tensor(
    tensor: torch.Tensor,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Device | None = None,
    memory_config: MemoryConfig | None = None,
    cache_file_name: str | Path | None = None,
    preprocess: Callable[[torch.Tensor], torch.Tensor] | None = None,
    mesh_mapper: OnMesh | None = None,
    cache_dump_mode: Any = None,
) -> Tensor:
    """As `from_torch`. The cache file, from which ttnn would read a prepared tensor, is neither read nor written: the
    numbers are the same."""
    if device is not None and memory_config is None:
        raise RuntimeError("memory_config must be specified when device is specified")
    prepared = preprocess(tensor) if preprocess is not None else tensor
    return from_torch(prepared, dtype, layout, device, memory_config, mesh_mapper=mesh_mapper)  # type: ignore[no-any-return]


@serves("ttnn.to_torch")
def to_torch(
    tensor: Tensor,
    dtype: torch.dtype | None = None,
    torch_rank: int | None = None,
    cq_id: int | None = None,
    device: Device | None = None,
    mesh_composer: OnMesh | None = None,
    **rest: Any,
) -> torch.Tensor:
    """A copy of a ttnn tensor as torch's, in its own or the given dtype; block floats come as float32. A composer joins
    a mesh's pieces."""
    _only_served("ttnn.to_torch", rest)
    dtype = dtype or (torch.float32 if tensor.spec.dtype in FORMATS else None)
    attrs = (("tensor", Ref("0")), *((("dtype", Name(str(dtype))),) if dtype else ()))
    device_of = tensor.device()
    if device_of is not None:
        device_of.refuse_in_capture("Reads are not supported during trace capture.")
    data = _whole(tensor.data, dtype, mesh_composer)
    if device_of is not None:
        step, queue = Step(TO_TORCH, attrs, ("1",)), current_queue(cq_id)
        ns = step_time(step, {"0": tensor.spec}, device_of.spec, Settings()).ns
        device_of.queues.transfer(queue, ns, [tensor.buffer], [], blocking=True)
        recording.used(device_of, device_of.queues.number(queue))
        device_of.last_ns = ns
    out = TensorSpec(tuple(data.shape), str(data.dtype).removeprefix("torch."))
    recording.called(TO_TORCH, attrs, [(tensor.key, tensor.spec, tensor.data)], [(object(), out)])
    recording.fetched(data)
    while torch_rank is not None and data.dim() > torch_rank:
        if data.shape[0] != 1:
            raise RuntimeError(f"TT_FATAL: a tensor of {tuple(data.shape)} has no rank of {torch_rank}")
        data = data.squeeze(0)
    return data


def _whole(data: torch.Tensor | Pieces, dtype: torch.dtype | None, composer: OnMesh | None) -> torch.Tensor:
    if isinstance(data, Pieces):
        if composer is None:
            raise RuntimeError(f"TT_FATAL: the tensor lies on {len(data)} chips; to_torch needs a mesh_composer")
        return to_torch_across(data, resolve(composer and composer.arg), dtype or pieces_of(data)[0].dtype)
    return data.to(dtype or data.dtype).clone(memory_format=torch.contiguous_format)


@serves("ttnn.to_device")
def to_device(
    tensor: Tensor, device: Device, memory_config: MemoryConfig | None = None, queue_id: int | None = None
) -> Tensor:
    if tensor.device() is not None:
        return tensor
    arguments = {"tensor": tensor, "device": device, "memory_config": memory_config}
    return run("ttnn.to_device", arguments, queue_id)  # type: ignore[no-any-return]


@serves("ttnn.from_device")
def from_device(tensor: Tensor, blocking: bool = True, queue_id: int | None = None) -> Tensor:
    if tensor.device() is None:
        return tensor
    return run("ttnn.from_device", {"tensor": tensor}, queue_id, blocking)  # type: ignore[no-any-return]


@serves("ttnn.copy_host_to_device_tensor")
def copy_host_to_device_tensor(host_tensor: Tensor, device_tensor: Tensor, cq_id: int | None = None) -> None:
    """Write a host tensor over one on the device, where it lies."""
    device = device_tensor.device()
    if device is None or host_tensor.device() is not None:
        raise RuntimeError("TT_FATAL: copy_host_to_device_tensor takes a tensor on the host and one on the device")
    device.refuse_in_capture("Writes are not supported during trace capture.")
    _same_kind(host_tensor, device_tensor)
    spec, queue = device_tensor.spec, current_queue(cq_id)
    attrs = (("tensor", Ref("0")), ("device", Name("device")), ("memory_config", memory_arg(spec.memory)))
    ns = step_time(Step(TO_DEVICE, attrs, ("1",)), {"1": spec}, device.spec, Settings()).ns
    device.queues.transfer(queue, ns, [], [device_tensor.buffer], blocking=False)
    recording.used(device, device.queues.number(queue))
    values = [(host_tensor.key, host_tensor.spec, host_tensor.data)]
    recording.called(TO_DEVICE, attrs, values, [(device_tensor.key, spec)])
    device_tensor.buffer.write(host_tensor.data.clone())
    device.last_ns = ns


@serves("ttnn.copy_device_to_host_tensor")
def copy_device_to_host_tensor(
    device_tensor: Tensor, host_tensor: Tensor, blocking: bool = True, cq_id: int | None = None
) -> None:
    _same_kind(host_tensor, device_tensor)
    fetched: Tensor = run("ttnn.from_device", {"tensor": device_tensor}, cq_id, blocking)
    host_tensor.buffer.write(fetched.data.clone())
    recording.same(fetched.key, host_tensor.key)


@serves("ttnn.allocate_tensor_on_device")
def allocate_tensor_on_device(mesh_device: Device, **described: Any) -> Tensor:
    """Room on the device, to be written before it is read."""
    mesh_device.check_open()
    spec = described_spec(described)
    spec = replace(spec, memory=DRAM) if spec.memory == HOST else spec
    return Tensor(spec, mesh_device.memories.allocate(spec, "the tensor was allocated and never written"), mesh_device)


@serves("ttnn.allocate_tensor_on_host")
def allocate_tensor_on_host(mesh_device: Device, **described: Any) -> Tensor:
    spec = replace(described_spec(described), memory=HOST)
    return Tensor(spec, Buffer(torch.zeros(spec.shape, dtype=torch_dtype(spec.dtype))))


@serves("ttnn.deallocate")
def deallocate(tensor: Tensor, force: bool = True) -> None:
    """Free a tensor's memory now; without `force` only where no other tensor shares it, and none does here."""
    device = tensor.device()
    if device is None:
        tensor.buffer.data, tensor.buffer.freed = None, True
    else:
        device.memories.free(tensor.buffer)


# ---- copies, layouts and shards ------------------------------------------------------------------------------------


@serves("ttnn.to_layout")
def to_layout(tensor: Tensor, layout: Layout, **rest: Any) -> Tensor:
    if tensor.layout == layout and not rest:
        return tensor
    rest.pop("pad_value", None)
    return run("ttnn.to_layout", {"tensor": tensor, "layout": layout, **rest})  # type: ignore[no-any-return]


@serves("ttnn.to_memory_config")
def to_memory_config(tensor: Tensor, memory_config: MemoryConfig, **rest: Any) -> Tensor:
    if tensor.spec.memory == memory_config.memory and not rest:
        return tensor
    if memory_config.is_sharded() and memory_config.shard_spec is None:
        raise RuntimeError(f"TT_FATAL: {memory_config} has no shard spec, which ttnn.to_memory_config needs")
    return run("ttnn.to_memory_config", {"tensor": tensor, "memory_config": memory_config, **rest})  # type: ignore[no-any-return]


@serves("ttnn.typecast")
def typecast(input_tensor: Tensor, **rest: Any) -> Tensor:
    if "output_dtype" in rest:
        rest.pop("input_dtype")
        rest["dtype"] = rest.pop("output_dtype")
    return run("ttnn.typecast", {"input_tensor": input_tensor, **rest})  # type: ignore[no-any-return]


@serves("ttnn.reallocate")
def reallocate(tensor: Tensor, memory_config: MemoryConfig | None = None) -> Tensor:
    """Move a tensor to where the allocator would put it now; its old place is free."""
    moved: Tensor = run("ttnn.reallocate", {"tensor": tensor, "memory_config": memory_config})
    deallocate(tensor)
    return moved


@serves("ttnn.move")
def move(input_tensor: Tensor, memory_config: MemoryConfig | None = None) -> Tensor:
    return reallocate(input_tensor, memory_config)


@serves("ttnn.copy")
def copy(input_a: Tensor, input_b: Tensor) -> Tensor:
    dtype = {"dtype": input_b.dtype} if input_a.spec.dtype != input_b.spec.dtype else {}
    return run("ttnn.clone", {"input": input_a, **dtype, "output_tensor": input_b})  # type: ignore[no-any-return]


@serves("ttnn.sharded_to_interleaved")
def sharded_to_interleaved(
    input_tensor: Tensor, memory_config: MemoryConfig = DRAM_MEMORY_CONFIG, output_dtype: DataType | None = None
) -> Tensor:
    return to_memory_config(input_tensor, memory_config, **({"dtype": output_dtype} if output_dtype else {}))


@serves("ttnn.interleaved_to_sharded")
def interleaved_to_sharded(
    input_tensor: Tensor,
    sharded_memory_config: MemoryConfig | None = None,
    grid: CoreCoord | CoreRangeSet | None = None,
    shard_shape: Sequence[int] = (),
    shard_scheme: TensorMemoryLayout | None = None,
    shard_orientation: Any = None,
    output_dtype: DataType | None = None,
    preallocated_output: Tensor | None = None,
    keep_l1_aligned: bool = False,
) -> Tensor:
    if input_tensor.is_sharded():
        raise RuntimeError("TT_FATAL: ttnn.interleaved_to_sharded: Input tensor must be Interleaved")
    if sharded_memory_config is None:
        assert grid is not None
        assert shard_scheme is not None
        cores = grid if isinstance(grid, CoreRangeSet) else core_range_set(CoreGrid(x=grid.x, y=grid.y))
        shard = ShardSpec(cores, shard_shape, shard_orientation)
        sharded_memory_config = MemoryConfig(shard_scheme, L1, shard)
    arguments = {"dtype": output_dtype, "output_tensor": preallocated_output}
    return to_memory_config(
        input_tensor, sharded_memory_config, **{k: v for k, v in arguments.items() if v is not None}
    )


@serves("ttnn.reshard")
def reshard(input_tensor: Tensor, output_memory_config: MemoryConfig, output_tensor: Tensor | None = None) -> Tensor:
    if not output_memory_config.is_sharded():
        raise RuntimeError("TT_FATAL: ttnn.reshard: output memory config must be sharded")
    arguments = {} if output_tensor is None else {"output_tensor": output_tensor}
    return to_memory_config(input_tensor, output_memory_config, **arguments)


def _to(layout: Layout) -> Callable[..., Tensor]:
    def change(input_tensor: Tensor, **rest: Any) -> Tensor:
        dtype = rest.get("dtype") or rest.get("output_dtype")
        more = {"dtype": dtype, "memory_config": rest.get("memory_config")}
        return to_layout(input_tensor, layout, **{k: v for k, v in more.items() if v is not None})

    return change


for _name, _layout in {
    "tilize": TILE_LAYOUT, "tilize_with_zero_padding": TILE_LAYOUT,
    "untilize": ROW_MAJOR_LAYOUT, "untilize_with_unpadding": ROW_MAJOR_LAYOUT,
}.items():  # fmt: skip
    serves(f"ttnn.{_name}")(_to(_layout))


def tensor_spec(
    shape: Sequence[int],
    dtype: DataType,
    layout: Layout,
    memory_layout: TensorMemoryLayout | None = None,
    shard_spec: ShardSpec | None = None,
    buffer_type: BufferType | None = None,
) -> TensorSpec:
    """ttnn.TensorSpec: all about a tensor on the device but its numbers."""
    fields = {"memory_layout": memory_layout, "buffer_type": buffer_type, "shard_spec": shard_spec}
    config = MemoryConfig(**{k: v for k, v in fields.items() if v is not None})  # type: ignore[arg-type]
    return described_spec({"shape": shape, "dtype": dtype, "layout": layout, "memory_config": config})


def described_spec(described: dict[str, Any]) -> TensorSpec:
    """A spec, from one or from its parts."""
    if "tensor_spec" in described:
        spec: TensorSpec = described["tensor_spec"]
        return spec
    config = described.get("memory_config")
    layout = "tile" if described["layout"] == TILE_LAYOUT else "row_major"
    dtype = described["dtype"].text.removeprefix("ttnn.")
    return TensorSpec(tuple(described["shape"]), dtype, layout, config.memory if config else DRAM)  # type: ignore[arg-type]


def _same_kind(host: Tensor, device: Tensor) -> None:
    for what in ("shape", "dtype", "layout"):
        ours, theirs = getattr(host.spec, what), getattr(device.spec, what)
        if ours != theirs:
            raise RuntimeError(f"TT_FATAL: Host tensor has different {what}: {ours}, where the device's is {theirs}")


def _only_served(name: str, rest: dict[str, Any]) -> None:
    for key, value in rest.items():
        if value not in (None, False):
            raise NotImplementedError(f"{name}: {key} is not served yet")
