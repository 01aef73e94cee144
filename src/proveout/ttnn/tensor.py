"""ttnn's Tensor: a spec, a buffer on the host or the device, and ttnn's methods and operators."""

from __future__ import annotations

import math
from typing import Any

import torch

from proveout.ttnn.buffers import Buffer, Slot
from proveout.ttnn.device import Device
from proveout.ttnn.enums import ROW_MAJOR_LAYOUT, TILE_LAYOUT, DataType, Layout, StorageType, member
from proveout.ttnn.memory import MemoryConfig, config_of
from proveout.types import DRAM, DTYPE_BYTES, HOST, TensorSpec


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """A ttnn function by its name; imported late, since calls give Tensors."""
    from proveout.ttnn.calls import call

    return call(name, *args, **kwargs)


class Shape(tuple[int, ...]):
    """A shape as ttnn prints and compares it."""

    @property
    def rank(self) -> int:
        return len(self)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, (list, tuple)) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Shape({list(self)})"


class Tensor:
    """A tensor of ttnn's. Its numbers are torch's; they round where the chip's would."""

    def __init__(
        self,
        spec: TensorSpec,
        buffer: Buffer,
        device: Device | None = None,
        config: MemoryConfig | None = None,
    ) -> None:
        self.spec, self.buffer, self._device = spec, buffer, device
        self._config = config

    @property
    def key(self) -> Slot | Buffer:
        return self.buffer.slot or self.buffer

    @property
    def data(self) -> torch.Tensor:
        return self.buffer.value()

    @property
    def shape(self) -> Shape:
        return Shape(self.spec.shape)

    @property
    def padded_shape(self) -> Shape:
        return Shape(self.spec.padded_shape)

    @property
    def dtype(self) -> DataType:
        return DataType(f"ttnn.{self.spec.dtype}")

    @property
    def layout(self) -> Layout:
        return TILE_LAYOUT if self.spec.layout == "tile" else ROW_MAJOR_LAYOUT

    def get_dtype(self) -> DataType:
        return self.dtype

    def get_layout(self) -> Layout:
        return self.layout

    def memory_config(self) -> MemoryConfig:
        """On the host, where it would go on the device."""
        return self._config or config_of(DRAM if self.spec.memory == HOST else self.spec.memory)

    def is_sharded(self) -> bool:
        return self.spec.memory.is_sharded

    def storage_type(self) -> StorageType:
        storage: StorageType = member(StorageType, "HOST" if self.spec.memory == HOST else "DEVICE")
        return storage

    def is_allocated(self) -> bool:
        return not self.buffer.freed

    def device(self) -> Device | None:
        return self._device

    def buffer_address(self) -> int:
        if self.buffer.slot is None or self.buffer.freed:
            raise RuntimeError("TT_FATAL: the tensor has no buffer on a device")
        return self.buffer.slot.address

    def volume(self) -> int:
        """Numbers as stored, padding included."""
        return math.prod(self.spec.padded_shape)

    def logical_volume(self) -> int:
        return self.spec.numel

    def element_size(self) -> int:
        return int(DTYPE_BYTES[self.spec.dtype])

    def cpu(self, blocking: bool = True, cq_id: int | None = None) -> Tensor:
        return self if self.spec.memory == HOST else call("ttnn.from_device", self, blocking, queue_id=cq_id)

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """To a device, or on the host to a layout."""
        target = next((a for a in (*args, *kwargs.values()) if isinstance(a, (Device, Layout))), None)
        name = "ttnn.to_layout" if isinstance(target, Layout) else "ttnn.to_device"
        return call(name, self, *args, **kwargs)

    def to_torch(self) -> torch.Tensor:
        return call("ttnn.to_torch", self)

    def to_list(self) -> list[Any]:
        return call("ttnn.to_torch", self).tolist()

    def item(self) -> float:
        return call("ttnn.to_torch", self).item()

    def reshape(self, *shape: Any) -> Tensor:
        return call("ttnn.reshape", self, shape[0] if len(shape) == 1 else shape)

    def deallocate(self, force: bool = True) -> None:
        call("ttnn.deallocate", self, force)

    def __getitem__(self, index: Any) -> Tensor:
        """ttnn.slice, and a reshape where an index is a number or None."""
        starts, ends, steps, shape = _slices(index if isinstance(index, tuple) else (index,), self.spec.shape)
        sliced = self
        if list(starts) != [0] * len(starts) or tuple(ends) != self.spec.shape or any(s != 1 for s in steps):
            sliced = call("ttnn.slice", self, starts, ends, steps)
        return sliced if tuple(sliced.shape) == shape else call("ttnn.reshape", sliced, shape)

    def __add__(self, other: Any) -> Tensor:
        return call("ttnn.add", self, other)

    def __sub__(self, other: Any) -> Tensor:
        return call("ttnn.subtract", self, other)

    def __mul__(self, other: Any) -> Tensor:
        return call("ttnn.multiply", self, other)

    def __truediv__(self, other: Any) -> Tensor:
        return call("ttnn.div", self, other)

    def __matmul__(self, other: Any) -> Tensor:
        return call("ttnn.matmul", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return call("ttnn.add", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return call("ttnn.multiply", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return call("ttnn.rsub", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return call("ttnn.multiply", call("ttnn.reciprocal", self), other)

    def __lt__(self, other: Any) -> Tensor:
        return call("ttnn.lt", self, other)

    def __le__(self, other: Any) -> Tensor:
        return call("ttnn.le", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return call("ttnn.gt", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return call("ttnn.ge", self, other)

    def __eq__(self, other: Any) -> Any:
        return call("ttnn.eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return call("ttnn.ne", self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        numbers = self.buffer.problem or self.buffer.data
        return f"ttnn.Tensor({numbers}, shape={list(self.shape)}, dtype={self.dtype}, layout={self.layout})"


def _slices(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[list[int], list[int], list[int], tuple[int, ...]]:
    """Starts, ends and steps of every dimension, and the shape that remains."""
    real = sum(i is not None and i is not Ellipsis for i in index)
    if real > len(shape):
        raise IndexError(f"{real} indices for {len(shape)} dimensions")
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    at = next(i for i, part in enumerate(index) if part is Ellipsis)
    index = (*index[:at], *[slice(None)] * (len(shape) - real), *index[at + 1 :])
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    left: list[int] = []
    dims = iter(shape)
    for part in index:
        if part is None:
            left.append(1)
            continue
        size = next(dims)
        if isinstance(part, slice):
            start, end, step = part.indices(size)
            if step <= 0:
                raise RuntimeError(f"TT_FATAL: ttnn.slice takes steps above 0, not {step}")
            left.append(len(range(start, end, step)))
        else:
            if not -size <= part < size:
                raise IndexError(f"index {part} is out of range for a dimension of {size}")
            start, end, step = part % size, part % size + 1, 1
        for bounds, value in ((starts, start), (ends, end), (steps, step)):
            bounds.append(value)
    return starts, ends, steps, tuple(left)
