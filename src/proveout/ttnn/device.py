"""One opened chip: its memories, queues, program cache and traces."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any, Literal

from proveout.chip.specs import CHIPS
from proveout.devices.registry import DEFAULT_CHIP
from proveout.devices.sim import Sim
from proveout.ttnn import ambient, graph, recording
from proveout.ttnn.buffers import Memories, Slot
from proveout.ttnn.enums import Member, enum, member
from proveout.ttnn.memory import CoreCoord, CoreGrid
from proveout.ttnn.queues import Queues
from proveout.ttnn.trace import CapturedTrace


class Device(Sim):
    """What `open_device` gives; `torch.compile` takes it as a device too."""

    def __init__(
        self,
        chip: str = "n150",
        numerics: Literal["fast", "faithful"] = "fast",
        l1_small_size: int = 0,
        trace_region_size: int = 0,
        num_command_queues: int = 1,
    ) -> None:
        super().__init__(chip, numerics)
        self.l1_small_size, self.trace_region_size = l1_small_size, trace_region_size
        self.memories = Memories(self.spec, l1_small_size, trace_region_size)
        self.memories.on_free.append(self._freed)
        self.queues = Queues(num_command_queues)
        self.capture: CapturedTrace | None = None
        self.traces: dict[int, CapturedTrace] = {}
        self.last_ns = 0
        """Modelled time of the last call, transfer or trace."""
        self._programs: set[Hashable] = set()
        self._caches = True
        self._open = True

    @property
    def modelled_ns(self) -> int:
        """The modelled clock: when all that was asked for since the device was opened is done."""
        return self.queues.ns

    # ---- ttnn's own ----------------------------------------------------------------------------------------------

    def id(self) -> int:
        return 0

    def arch(self) -> Member:
        arch: Member = member(enum("Arch"), self.spec.arch.upper())
        return arch

    @property
    def core_grid(self) -> CoreGrid:
        return CoreGrid(x=self.spec.grid[0], y=self.spec.grid[1])

    def compute_with_storage_grid_size(self) -> CoreCoord:
        return CoreCoord(*self.spec.grid)

    def dram_grid_size(self) -> CoreCoord:
        return CoreCoord(self.spec.dram_banks, 1)

    def get_num_devices(self) -> int:
        return 1

    def get_device_ids(self) -> list[int]:
        return [0]

    def enable_program_cache(self) -> None:
        self._caches = True

    def disable_and_clear_program_cache(self) -> None:
        self._caches = False
        self._programs.clear()

    def clear_program_cache(self) -> None:
        self._programs.clear()

    def num_program_cache_entries(self) -> int:
        return len(self._programs)

    def close(self) -> None:
        self._open = False
        self.traces.clear()

    # ---- rules ---------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if not self._open:
            raise RuntimeError("TT_FATAL: the device was closed")

    def refuse_in_capture(self, why: str) -> None:
        self.check_open()
        if self.capture is not None:
            raise RuntimeError(f"TT_FATAL: {why}")

    def compile(self, kernel: str, key: Hashable) -> None:
        """A call's program comes from the cache, or is built and sent to the device, which a capture cannot hold."""
        self.check_open()
        if key not in self._programs and self.capture is not None:
            raise RuntimeError(
                f"TT_FATAL: Writes are not supported during trace capture: the program of {kernel} is not in the "
                "program cache and would have to be sent to the device. Run the same calls once before "
                "begin_trace_capture, with the program cache enabled."
            )
        if self._caches:
            self._programs.add(key)

    def _freed(self, slot: Slot) -> None:
        graph.freed(slot.spec, self.spec)
        if self.capture is not None:
            self.capture.commands.append(slot)
        else:
            recording.freed(slot)


def open_device(
    *,
    device_id: int = 0,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    dispatch_core_config: Any = None,
    num_command_queues: int = 1,
    worker_l1_size: int = 0,
    chip: str = DEFAULT_CHIP,
    numerics: Literal["fast", "faithful"] = "fast",
) -> Device:
    """Open the embedded chip. `chip` and `numerics` are ours; real ttnn knows what it runs on."""
    if device_id != 0:
        raise RuntimeError(f"device {device_id} is not there: the embedded {chip} has device 0.")
    if chip not in CHIPS:
        raise RuntimeError(f"chip {chip!r} is not known; valid: {', '.join(CHIPS)}.")
    return Device(chip, numerics, l1_small_size, trace_region_size, num_command_queues)


def close_device(device: Device) -> None:
    ambient.save()
    device.close()


@contextlib.contextmanager
def manage_device(device_id: int) -> Iterator[Device]:
    """A device for a `with` block."""
    device = open_device(device_id=device_id)
    try:
        yield device
    finally:
        close_device(device)


@contextlib.contextmanager
def command_queue(cq_id: int) -> Iterator[None]:
    """The queue that calls inside the block go to."""
    _current.append(cq_id)
    try:
        yield
    finally:
        _current.pop()


_current: list[int] = []


def current_queue(cq_id: int | None) -> int | None:
    return cq_id if cq_id is not None or not _current else _current[-1]


def get_arch_name() -> str:
    return CHIPS[DEFAULT_CHIP].arch


class DispatchCoreConfig:
    """Which cores dispatch commands; taken and not modelled."""

    def __init__(self, type: Any = None, axis: Any = None, **rest: Any) -> None:
        self.type, self.axis = type, axis


DispatchCoreType, DispatchCoreAxis = enum("DispatchCoreType"), enum("DispatchCoreAxis")


def is_wormhole_b0(device: Device | None = None) -> bool:
    return _arch(device) == "wormhole_b0"


def is_blackhole(device: Device | None = None) -> bool:
    return _arch(device) == "blackhole"


def is_grayskull(device: Device | None = None) -> bool:
    """ttnn 0.81.1 serves no Grayskull any more; scripts of its time still ask."""
    return False


def _arch(device: Device | None) -> str:
    return get_arch_name() if device is None else device.spec.arch


def enable_program_cache(device: Device) -> None:
    device.enable_program_cache()


def disable_and_clear_program_cache(device: Device) -> None:
    device.disable_and_clear_program_cache()


def SetDefaultDevice(device: Device | None) -> None:
    """Which device functions use that are given none; `None` takes it back."""
    _default[:] = [] if device is None else [device]


def GetDefaultDevice() -> Device | None:
    return _default[0] if _default else None


_default: list[Device] = []
