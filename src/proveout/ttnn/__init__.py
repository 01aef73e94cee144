"""The eager face of the kernel table: hand-written ttnn code runs on the embedded chip, with ttnn's own names.

    from proveout import ttnn

    device = ttnn.open_device(device_id=0)
    x = ttnn.from_torch(torch.randn(32, 64), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    y = ttnn.to_torch(ttnn.gelu(x))

Calls bind to ttnn 0.81.1's signatures; what ttnn refuses is refused here, as a RuntimeError. `ttnn.record` is ours.
"""

from __future__ import annotations

import functools
from typing import Any

from proveout.kernels import signatures
from proveout.kernels.table import kernels
from proveout.ttnn import ambient, graph
from proveout.ttnn.calls import SERVED, call
from proveout.ttnn.composed import ALIASES
from proveout.ttnn.configs import UnaryWithParam, WormholeComputeKernelConfig, config, init_device_compute_kernel_config
from proveout.ttnn.conv import prepare_conv_bias, prepare_conv_weights
from proveout.ttnn.device import (
    Device,
    DispatchCoreAxis,
    DispatchCoreConfig,
    DispatchCoreType,
    GetDefaultDevice,
    SetDefaultDevice,
    close_device,
    command_queue,
    disable_and_clear_program_cache,
    enable_program_cache,
    get_arch_name,
    manage_device,
    open_device,
)
from proveout.ttnn.enums import (
    ROW_MAJOR_LAYOUT,
    TILE_LAYOUT,
    BufferType,
    DataType,
    Layout,
    ShardOrientation,
    ShardStrategy,
    StorageType,
    TensorMemoryLayout,
    bfloat4_b,
    bfloat8_b,
    bfloat16,
    enum,
    float32,
    int32,
    uint8,
    uint16,
    uint32,
)
from proveout.ttnn.functions import tensor_spec
from proveout.ttnn.golden import get_golden_function
from proveout.ttnn.memory import (
    DRAM_MEMORY_CONFIG,
    L1_BLOCK_SHARDED_MEMORY_CONFIG,
    L1_HEIGHT_SHARDED_MEMORY_CONFIG,
    L1_MEMORY_CONFIG,
    L1_WIDTH_SHARDED_MEMORY_CONFIG,
    CoreCoord,
    CoreGrid,
    CoreRange,
    CoreRangeSet,
    MemoryConfig,
    ShardSpec,
    create_sharded_memory_config,
    create_sharded_memory_config_,
    num_cores_to_corerangeset,
)
from proveout.ttnn.mesh import (
    ConcatMeshToTensor,
    FabricConfig,
    MeshDevice,
    MeshShape,
    ReplicateTensorToMesh,
    ShardTensorToMesh,
    close_mesh_device,
    open_mesh_device,
    set_fabric_config,
)
from proveout.ttnn.recording import Recording, record
from proveout.ttnn.tensor import Shape, Tensor
from proveout.ttnn.trace import (
    begin_trace_capture,
    end_trace_capture,
    event_synchronize,
    execute_trace,
    is_trace_capture_active,
    record_event,
    release_trace,
    synchronize_device,
    wait_for_event,
)
from proveout.types import HOST, TILE

ambient.start()
TILE_SIZE = TILE
DRAM_BUFFER_TYPE, L1_BUFFER_TYPE = BufferType("ttnn.BufferType.DRAM"), BufferType("ttnn.BufferType.L1")
TensorSpec, QueueId = tensor_spec, int
BlackholeComputeKernelConfig = WormholeComputeKernelConfig


def get_memory_config(tensor: Tensor) -> MemoryConfig:
    return tensor.memory_config()


def is_sharded(tensor: Tensor) -> bool:
    return tensor.is_sharded()


def is_tensor_storage_on_device(tensor: Tensor) -> bool:
    return tensor.spec.memory != HOST


def has_storage_type_of(tensor: Tensor, storage_type: StorageType) -> bool:
    return tensor.storage_type() == storage_type


class _Namespace:
    """A part of ttnn: `ttnn.transformer`, `ttnn.experimental`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return _function(f"{self._name}.{name}")

    def __dir__(self) -> list[str]:
        return [n.removeprefix(f"{self._name}.") for n in (*SERVED, *kernels()) if n.startswith(f"{self._name}.")]


transformer, experimental = _Namespace("ttnn.transformer"), _Namespace("ttnn.experimental")


def __getattr__(name: str) -> Any:
    """Every kernel of the table, config class and enumeration by its ttnn name."""
    if name in signatures.enums():
        return enum(name)
    if name in signatures.constructors():
        return config(name)
    return _function(f"ttnn.{ALIASES.get(name, name)}")


def __dir__() -> list[str]:
    functions = (n.removeprefix("ttnn.") for n in (*SERVED, *kernels()) if n.count(".") == 1)
    return sorted({*globals(), *functions, *ALIASES, *signatures.enums(), *signatures.constructors()})


@functools.cache
def _function(name: str) -> Any:
    """One object a function, so that graphs and scripts can compare them."""
    if name not in SERVED and name not in kernels():
        if name in signatures.names():
            raise AttributeError(f"{name} is ttnn's and is not served yet; `proveout ops` lists what is")
        raise AttributeError(f"ttnn 0.81.1 has no {name}")

    def function(*args: Any, **kwargs: Any) -> Any:
        return call(name, *args, **kwargs)

    function.__module__, _, function.__name__ = name.rpartition(".")
    function.__qualname__ = function.__name__
    return function


__all__ = [
    "set_fabric_config",
    "open_mesh_device",
    "close_mesh_device",
    "ShardTensorToMesh",
    "ReplicateTensorToMesh",
    "MeshShape",
    "FabricConfig",
    "ConcatMeshToTensor",
    "BlackholeComputeKernelConfig",
    "BufferType",
    "CoreCoord",
    "CoreGrid",
    "CoreRange",
    "CoreRangeSet",
    "DRAM_BUFFER_TYPE",
    "DRAM_MEMORY_CONFIG",
    "DataType",
    "Device",
    "DispatchCoreAxis",
    "DispatchCoreConfig",
    "DispatchCoreType",
    "GetDefaultDevice",
    "SetDefaultDevice",
    "disable_and_clear_program_cache",
    "enable_program_cache",
    "L1_BLOCK_SHARDED_MEMORY_CONFIG",
    "L1_BUFFER_TYPE",
    "L1_HEIGHT_SHARDED_MEMORY_CONFIG",
    "L1_MEMORY_CONFIG",
    "L1_WIDTH_SHARDED_MEMORY_CONFIG",
    "Layout",
    "MemoryConfig",
    "MeshDevice",
    "QueueId",
    "ROW_MAJOR_LAYOUT",
    "Recording",
    "Shape",
    "ShardOrientation",
    "ShardSpec",
    "ShardStrategy",
    "StorageType",
    "TILE_LAYOUT",
    "TILE_SIZE",
    "Tensor",
    "TensorMemoryLayout",
    "TensorSpec",
    "UnaryWithParam",
    "WormholeComputeKernelConfig",
    "begin_trace_capture",
    "bfloat16",
    "bfloat4_b",
    "bfloat8_b",
    "close_device",
    "command_queue",
    "create_sharded_memory_config",
    "create_sharded_memory_config_",
    "end_trace_capture",
    "event_synchronize",
    "execute_trace",
    "experimental",
    "float32",
    "get_arch_name",
    "get_golden_function",
    "get_memory_config",
    "graph",
    "has_storage_type_of",
    "init_device_compute_kernel_config",
    "int32",
    "is_sharded",
    "is_tensor_storage_on_device",
    "is_trace_capture_active",
    "manage_device",
    "num_cores_to_corerangeset",
    "open_device",
    "prepare_conv_bias",
    "prepare_conv_weights",
    "record",
    "record_event",
    "release_trace",
    "synchronize_device",
    "transformer",
    "uint16",
    "uint32",
    "uint8",
    "wait_for_event",
]
