"""Traces: calls captured once and replayed at the addresses that they were captured with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from proveout.program import Arg
from proveout.ttnn import recording
from proveout.ttnn.buffers import Buffer, Slot
from proveout.ttnn.queues import GAP_NS, Event
from proveout.types import TensorSpec

BYTES_PER_COMMAND = 4096
"""What one device operation takes of the trace region: about what published models reserve for each of theirs."""

Compute = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]


@dataclass(frozen=True)
class CapturedCall:
    """One captured call."""

    kernel: str
    attrs: tuple[tuple[str, Arg], ...]
    """Operands are Refs to positions in `reads`."""
    reads: tuple[Slot, ...]
    writes: tuple[Slot, ...]
    compute: Compute
    ns: int
    source: str


@dataclass
class CapturedTrace:
    """What was captured: calls, and the slots freed between them."""

    id: int
    queue: int
    commands: list[CapturedCall | Slot] = field(default_factory=list)

    @property
    def calls(self) -> list[CapturedCall]:
        return [c for c in self.commands if isinstance(c, CapturedCall)]

    @property
    def num_bytes(self) -> int:
        return BYTES_PER_COMMAND * sum(c.ns > 0 for c in self.calls)

    @property
    def modelled_ns(self) -> int:
        """Kernels and the gaps between them, one replay."""
        return sum(c.ns + GAP_NS for c in self.calls if c.ns)

    def given(self) -> list[Slot]:
        """Slots that the trace reads before it writes them: its inputs and weights."""
        written: set[Slot] = set()
        out: dict[Slot, None] = {}
        for command in self.calls:
            out.update(dict.fromkeys(s for s in command.reads if s not in written))
            written.update(command.writes)
        return list(out)


_ids = itertools.count()


def begin_trace_capture(mesh_device: Any, *, cq_id: int | None = None) -> int:
    """From here on calls are captured and not run; `execute_trace` runs them."""
    device = mesh_device
    queue = device.queues.number(cq_id)
    device.refuse_in_capture("begin_trace_capture: a trace is being captured already")
    device.capture = CapturedTrace(next(_ids), queue)
    return device.capture.id  # type: ignore[no-any-return]


def end_trace_capture(mesh_device: Any, trace_id: int, *, cq_id: int | None = None) -> None:
    device = mesh_device
    device.queues.number(cq_id)
    trace: CapturedTrace | None = device.capture
    if trace is None or trace.id != trace_id:
        raise RuntimeError(f"TT_FATAL: trace {trace_id} is not being captured")
    device.capture = None
    if trace.num_bytes > device.trace_region_size:
        raise RuntimeError(
            f"TT_FATAL: Creating trace buffers of size {trace.num_bytes}B on device 0, but only "
            f"{device.trace_region_size}B is allocated for trace region. Open the device with "
            f"trace_region_size={trace.num_bytes} or more (the size is modelled: {BYTES_PER_COMMAND} B an operation)."
        )
    device.traces[trace_id] = trace


def execute_trace(mesh_device: Any, trace_id: int, *, cq_id: int | None = None, blocking: bool = True) -> None:
    """Run what was captured, on whatever lies at the captured addresses now."""
    device = mesh_device
    device.refuse_in_capture("execute_trace is not supported during trace capture")
    trace = _trace(device, trace_id)
    values: dict[Slot, torch.Tensor] = {}
    keys: dict[Slot, tuple[recording.Key, TensorSpec]] = {}
    read: list[Buffer] = []
    slots = trace.given()
    for slot in slots:
        buffer = device.memories.at(slot)
        if buffer is None:
            raise RuntimeError(
                f"TT_FATAL: trace {trace_id} reads {slot.spec} at {slot.kind} address {slot.address}, where no such "
                "tensor lies any more. Addresses are frozen in a trace: keep its inputs and weights allocated."
            )
        values[slot], keys[slot] = buffer.value(), buffer.alias or (buffer.slot, slot.spec)
        read.append(buffer)
    written: dict[Slot, Buffer] = {}
    for command in trace.calls:
        for slot in command.writes:
            target = device.memories.at(slot)
            if target is not None and (target.slot is slot or slot in slots):
                written[slot] = target
    device.queues.trace(cq_id, trace.modelled_ns, read, list(dict.fromkeys(written.values())), blocking)
    for entry in trace.commands:
        if isinstance(entry, Slot):
            if entry not in written:
                recording.freed(entry)
                values.pop(entry, None)
            continue
        results = entry.compute([values[s] for s in entry.reads])
        values.update(zip(entry.writes, results))
        recording.called(
            entry.kernel, entry.attrs, [(*keys[s], values[s]) for s in entry.reads],
            [(s, s.spec) for s in entry.writes], entry.source,
        )  # fmt: skip
        keys.update((s, (s, s.spec)) for s in entry.writes)
        for slot, data in zip(entry.writes, results):
            if slot in written:
                written[slot].write(data)
                recording.same(slot, written[slot].slot)
    recording.traced(trace.queue)
    _overwrite(device, trace, set(written.values()))
    device.last_ns = trace.modelled_ns


def release_trace(mesh_device: Any, trace_id: int) -> None:
    _trace(mesh_device, trace_id)
    del mesh_device.traces[trace_id]


def is_trace_capture_active(device: Any) -> bool:
    return device.capture is not None


def record_event(
    mesh_device: Any, cq_id: int | None = None, sub_device_ids: Sequence[Any] = (), device_range: Any = None
) -> Event:
    """A mark after all that was given to a queue so far."""
    mesh_device.refuse_in_capture("Event Synchronization is not supported during trace capture.")
    event: Event = mesh_device.queues.record(mesh_device, cq_id)
    return event


def wait_for_event(cq_id: int | None = None, mesh_event: Event | None = None) -> None:
    """Let a queue wait until another has reached an event."""
    device = _device_of(mesh_event)
    device.refuse_in_capture("Event Synchronization is not supported during trace capture.")
    device.queues.wait_for(cq_id, mesh_event)


def event_synchronize(mesh_event: Event) -> None:
    """Let the host wait for an event."""
    device = _device_of(mesh_event)
    device.refuse_in_capture("Event Synchronization is not supported during trace capture.")
    device.queues.host_waits_for(mesh_event)


def synchronize_device(device: Any, cq_id: int | None = None, sub_device_ids: Sequence[Any] = ()) -> None:
    """Let the host wait until a queue, or each, has done its work."""
    device.refuse_in_capture("Event Synchronization is not supported during trace capture.")
    device.queues.wait(cq_id)


def _device_of(event: Event | None) -> Any:
    if not isinstance(event, Event):
        raise TypeError("ttnn.wait_for_event(): incompatible function arguments: mesh_event is ttnn.record_event's")
    return event.device


def _trace(device: Any, trace_id: int) -> CapturedTrace:
    trace: CapturedTrace | None = device.traces.get(trace_id)
    if trace is None:
        raise RuntimeError(f"TT_FATAL: Trace instance with ID {trace_id} not found on device 0")
    return trace


def _overwrite(device: Any, trace: CapturedTrace, own: set[Buffer]) -> None:
    """A tensor allocated since the capture may lie where the trace keeps its own: its numbers are gone."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    for written in (slot for command in trace.calls for slot in command.writes):
        ranges.setdefault(written.kind, []).append((written.address, written.end))
    for buffer in device.memories.live():
        slot = buffer.slot
        if buffer not in own and any(a < slot.end and slot.address < b for a, b in ranges.get(slot.kind, ())):
            buffer.problem = (
                f"trace {trace.id} has overwritten this tensor: it was allocated after the capture, where the trace "
                "keeps an intermediate. Allocate what must outlive a replay before begin_trace_capture."
            )
