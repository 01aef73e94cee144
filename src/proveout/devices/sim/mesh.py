"""Several embedded chips under ttnn's own names: a mesh, and how tensors are spread over it and joined again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Literal, NamedTuple

from proveout.chip.specs import CHIPS
from proveout.devices.sim import Sim
from proveout.kernels.pieces import REPLICATE, concat_along, shard_along
from proveout.program import Name

FabricConfig = SimpleNamespace(FABRIC_1D=Name("ttnn.FabricConfig.FABRIC_1D"))


class MeshShape(NamedTuple):
    """How many chips a mesh has in each direction."""

    rows: int
    columns: int


class MeshDevice(Sim):
    """Several chips that all run the same calls, each on its own piece of every tensor."""


def open_mesh_device(
    mesh_shape: MeshShape | None = None,
    *,
    chip: str = "n300",
    numerics: Literal["fast", "faithful"] = "fast",
    **reserved: int,
) -> MeshDevice:
    """Open all chips of an embedded board that has several."""
    chips = CHIPS[chip].chips if chip in CHIPS else 0
    asked = math.prod(mesh_shape or (1, chips))
    if chips < 2 or asked != chips:
        boards = ", ".join(f"{name} ({spec.chips})" for name, spec in CHIPS.items() if spec.chips > 1)
        raise RuntimeError(f"a mesh of {asked} chips is not there on {chip!r}; boards with several: {boards}.")
    return MeshDevice(chip, numerics)


def close_mesh_device(device: MeshDevice) -> None:
    device.close()


def set_fabric_config(config: Name) -> None:
    """The embedded chips are always connected; real ones need this before a mesh is opened."""


@dataclass(frozen=True)
class MeshName(Name):
    """How a tensor is spread over a mesh or joined from it."""

    mesh_device: MeshDevice


def ShardTensorToMesh(mesh_device: MeshDevice, dim: int) -> MeshName:
    return MeshName(shard_along(dim).text, mesh_device)


def ReplicateTensorToMesh(mesh_device: MeshDevice) -> MeshName:
    return MeshName(REPLICATE.text, mesh_device)


def ConcatMeshToTensor(mesh_device: MeshDevice, dim: int) -> MeshName:
    return MeshName(concat_along(dim).text, mesh_device)


def mesh_chips(arguments: Iterable[object]) -> int:
    """How many chips a call with these arguments runs on."""
    meshes = [a.mesh_device if isinstance(a, MeshName) else a for a in arguments]
    return next((m.spec.chips for m in meshes if isinstance(m, MeshDevice)), 1)
