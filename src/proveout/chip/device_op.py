"""One device operation as the time model sees it: its family, its tensors, its arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proveout.chip.fidelity import PHASES
from proveout.types import TILE, DeviceSpec, TensorSpec

MATRIX, POOL, REDUCE, VECTOR = 4096, 2048, 256, 128
"""Operations per core and cycle of each engine (a matrix multiply-add counts two)."""


@dataclass(frozen=True)
class Work:
    """What one kernel call computes: `ops` at `rate` per core and cycle; phased engines repeat per fidelity phase."""

    ops: float = 0.0
    rate: int = VECTOR
    phased: bool = False


@dataclass(frozen=True)
class L1Use:
    """L1 bytes per core while one device operation runs: circular buffers, and tensors that only it sees."""

    circular: int
    tensors: int = 0
    each: tuple[int, ...] = ()
    """These tensors one by one, in the order in which they are made; empty where they are not told apart."""


Buffers = Callable[["DeviceOp", DeviceSpec], "int | L1Use"]


@dataclass(frozen=True)
class DeviceOp:
    """One device operation. `cores` is how many cores ran it, where a table says so; None leaves it to the model.
    `code` is ttnn's name for it where its family has several; `params` are what else its buffers depend on; `buffers`
    says what L1 it holds where that is not what its family holds."""

    family: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    work: Work = Work()
    fidelity: str = "HiFi2"
    cores: int | None = None
    code: str = ""
    params: tuple[tuple[str, Any], ...] = ()
    buffers: Buffers | None = None

    def param(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self.params if key == name), default)

    @property
    def out(self) -> TensorSpec:
        return self.outputs[0]

    @property
    def first(self) -> TensorSpec:
        return self.inputs[0] if self.inputs else self.outputs[0]

    @property
    def dram_bytes(self) -> int:
        return sum(t.nbytes for t in (*self.inputs, *self.outputs) if t.memory.buffer == "dram")

    @property
    def phases(self) -> int:
        return PHASES[self.fidelity] if self.work.phased else 1

    def engine_cycles(self, chip: DeviceSpec) -> float:
        """Cycles of its arithmetic with every core of the chip at the engine's rate: ttnn's ideal."""
        return self.work.ops / (self.work.rate * chip.cores) * self.phases


def tiles(spec: TensorSpec) -> int:
    """Tiles of a tensor; of a row-major one, as many as its elements would fill."""
    return -(-math.prod(spec.padded_shape) // (TILE * TILE))


def tile_rows(spec: TensorSpec) -> int:
    """Rows of tiles, over all leading dimensions."""
    shape = spec.padded_shape
    return math.prod(shape[:-2]) * -(-shape[-2] // TILE) if len(shape) > 1 else 1


def rows(spec: TensorSpec) -> int:
    """Rows of elements: all dimensions but the last."""
    return math.prod(spec.padded_shape[:-1])
