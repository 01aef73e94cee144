"""Several embedded chips under ttnn's own names: a mesh, and how tensors are spread over it and joined again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

from proveout.chip.specs import CHIPS
from proveout.kernels.pieces import REPLICATE, concat_along, shard_along
from proveout.program import Construct, Name
from proveout.ttnn.device import Device

FabricConfig = SimpleNamespace(FABRIC_1D=Name("ttnn.FabricConfig.FABRIC_1D"))


class MeshShape(NamedTuple):
    """How many chips a mesh has in each direction."""

    rows: int
    columns: int


class MeshDevice(Device):
    """Several chips that all run the same calls, each on its own piece of every tensor."""

    def get_num_devices(self) -> int:
        return self.spec.chips

    def get_device_ids(self) -> list[int]:
        return list(range(self.spec.chips))


def open_mesh_device(
    mesh_shape: MeshShape | None = None,
    *,
    chip: str = "n300",
    numerics: Literal["fast", "faithful"] = "fast",
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: Any = None,
    physical_device_ids: Sequence[int] = (),
    offset: Any = None,
    worker_l1_size: int = 0,
) -> MeshDevice:
    """Open all chips of an embedded board that has several."""
    chips = CHIPS[chip].chips if chip in CHIPS else 0
    num_wanted = math.prod(mesh_shape or (1, chips))
    if chips < 2 or num_wanted != chips:
        boards = ", ".join(f"{name} ({spec.chips})" for name, spec in CHIPS.items() if spec.chips > 1)
        raise RuntimeError(f"a mesh of {num_wanted} chips is not there on {chip!r}; boards with several: {boards}.")
    return MeshDevice(chip, numerics, l1_small_size, trace_region_size, num_command_queues)


def close_mesh_device(device: MeshDevice) -> None:
    device.close()


def set_fabric_config(config: Name) -> None:
    """The embedded chips are always connected; real ones need this before a mesh is opened."""


@dataclass(frozen=True)
class OnMesh:
    """How a tensor is spread over a mesh or joined from it."""

    arg: Construct
    mesh_device: MeshDevice


def ShardTensorToMesh(mesh_device: MeshDevice, dim: int) -> OnMesh:
    return OnMesh(shard_along(dim), mesh_device)


def ReplicateTensorToMesh(mesh_device: MeshDevice) -> OnMesh:
    return OnMesh(REPLICATE, mesh_device)


def ConcatMeshToTensor(mesh_device: MeshDevice, dim: int) -> OnMesh:
    return OnMesh(concat_along(dim), mesh_device)
