"""A value on several chips: one tensor for each, and the objects by which ttnn cuts, copies and joins them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from proveout.program import Construct, Name


class Pieces(tuple[torch.Tensor, ...]):
    """One tensor for each chip. What is the same on every chip is one tensor, held several times."""

    def to(self, dtype: torch.dtype) -> Pieces:
        return Pieces(piece.to(dtype) for piece in self)

    def float(self) -> Pieces:
        return self.to(torch.float32)


@dataclass(frozen=True)
class MeshArgument:
    """A `mesh_mapper` or `mesh_composer`: cut or join along `dim`; None gives every chip the whole."""

    dim: int | None


WHOLE = MeshArgument(None)
SHARD, WHOLE_ON_EACH, CONCAT = "ttnn.ShardTensorToMesh", "ttnn.ReplicateTensorToMesh", "ttnn.ConcatMeshToTensor"
REPLICATE = Construct.of(WHOLE_ON_EACH, Name("device"))


def shard_along(dim: int) -> Construct:
    return Construct.of(SHARD, Name("device"), dim=dim)


def concat_along(dim: int) -> Construct:
    return Construct.of(CONCAT, Name("device"), dim=dim)


def mesh_argument(construct: Construct) -> MeshArgument | None:
    """What such an object says, or None for any other."""
    dim = construct.by_name.get("dim")
    known = construct.name in (SHARD, WHOLE_ON_EACH, CONCAT)
    return MeshArgument(dim if isinstance(dim, int) else None) if known else None


def on_each_chip(meaning: Callable[..., Any], chips: int) -> Callable[..., Any]:
    """A kernel's meaning on every chip by itself, each on its own pieces."""

    def call(**attrs: Any) -> Any:
        results = [meaning(**piece_of(attrs, chip)) for chip in range(chips)]
        if isinstance(results[0], (tuple, list)):
            return tuple(Pieces(pieces) for pieces in zip(*results))
        return Pieces(results) if results[0] is not None else None

    return call


def piece_of(attrs: Mapping[str, Any], chip: int) -> dict[str, Any]:
    return {name: _piece(value, chip) for name, value in attrs.items()}


def _piece(value: Any, chip: int) -> Any:
    if isinstance(value, Pieces):
        return value[chip]
    return [_piece(v, chip) for v in value] if isinstance(value, (list, tuple)) else value


def pieces_of(value: Any) -> tuple[torch.Tensor, ...]:
    """The tensors behind a value, however many chips hold it."""
    return value if isinstance(value, Pieces) else (value,)
