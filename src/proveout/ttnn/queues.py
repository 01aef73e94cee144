"""Command queues: which command has to wait for which, and when each ends on the modelled clock.

Commands compute at once and in the order of the calls, so numbers never depend on a race; a race that silicon would
have is found by vector clocks and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proveout.chip.time import HOST_NS, TRACED_GAP_NS
from proveout.ttnn.buffers import Buffer

MAX_QUEUES = 2
USUAL = 1
GAP_NS, DISPATCH_NS = TRACED_GAP_NS[USUAL], HOST_NS[USUAL]


@dataclass(frozen=True, eq=False)
class Event:
    """A mark in a queue that another queue, or the host, can wait for."""

    device: Any
    queue: int
    clock: tuple[int, ...]
    ns: int


class Queues:
    """The queues of one device. `clocks[q][p]` says up to which of p's commands q has waited."""

    def __init__(self, count: int) -> None:
        if count not in range(1, MAX_QUEUES + 1):
            raise RuntimeError(f"TT_FATAL: a device has 1 or {MAX_QUEUES} command queues, not {count}")
        self.count = count
        self.current = 0
        self._issued = [0] * count
        self._clocks = [[0] * count for _ in range(count)]
        self._host = [0] * count
        self._ends_ns = [0] * count
        self._host_ns = 0
        self._cores_ns = 0

    @property
    def ns(self) -> int:
        """When all that was asked for so far is done, on the modelled clock."""
        return max(self._host_ns, *self._ends_ns)

    def number(self, cq_id: int | None) -> int:
        queue = self.current if cq_id is None else int(cq_id)
        if queue not in range(self.count):
            raise RuntimeError(
                f"TT_FATAL: cq_id {queue} is out of range: the device was opened with num_command_queues={self.count}"
            )
        return queue

    def kernel(self, cq_id: int | None, ns: int, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        """One op dispatched from Python: the host prepares it while the device works."""
        queue = self._order(cq_id, reads, writes)
        self._host_ns += DISPATCH_NS if ns else 0
        self._run(queue, ns + GAP_NS if ns else 0)

    def trace(
        self, cq_id: int | None, ns: int, reads: Sequence[Buffer], writes: Sequence[Buffer], blocking: bool
    ) -> None:
        queue = self._order(cq_id, reads, writes)
        self._run(queue, ns)
        if blocking:
            self.wait(queue)

    def transfer(
        self, cq_id: int | None, ns: int, reads: Sequence[Buffer], writes: Sequence[Buffer], blocking: bool
    ) -> None:
        queue = self._order(cq_id, reads, writes)
        self._ends_ns[queue] = max(self._ends_ns[queue], self._host_ns) + ns
        if blocking:
            self.wait(queue)

    def pending(self, cq_id: int | None) -> Callable[[], bool]:
        """Whether the host has not yet waited for a queue's last command."""
        queue = self.number(cq_id)
        number = self._issued[queue]
        return lambda: self._host[queue] < number

    def wait(self, cq_id: int | None = None) -> None:
        """The host waits until a queue, or each, has done its work."""
        for queue in range(self.count) if cq_id is None else (self.number(cq_id),):
            self._host = _later(self._host, self._reached(queue))
            self._host_ns = max(self._host_ns, self._ends_ns[queue])

    def record(self, device: Any, cq_id: int | None) -> Event:
        queue = self.number(cq_id)
        return Event(device, queue, tuple(self._reached(queue)), max(self._ends_ns[queue], self._host_ns))

    def wait_for(self, cq_id: int | None, event: Event) -> None:
        queue = self.number(cq_id)
        self._clocks[queue] = _later(self._clocks[queue], event.clock)
        self._ends_ns[queue] = max(self._ends_ns[queue], event.ns)

    def host_waits_for(self, event: Event) -> None:
        self._host = _later(self._host, event.clock)
        self._host_ns = max(self._host_ns, event.ns)

    def _run(self, queue: int, ns: int) -> None:
        """Kernels of both queues share the cores."""
        self._ends_ns[queue] = max(self._ends_ns[queue], self._host_ns, self._cores_ns) + ns
        self._cores_ns = self._ends_ns[queue]

    def _reached(self, queue: int) -> list[int]:
        own = [0] * self.count
        own[queue] = self._issued[queue]
        return _later(self._clocks[queue], own)

    def _order(self, cq_id: int | None, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> int:
        """Number a command, after checking that nothing it touches is still in the other queue's hands."""
        queue = self.number(cq_id)
        seen = self._clocks[queue] = _later(self._clocks[queue], self._host)
        for buffer in (*reads, *writes):
            if buffer.written and buffer.written[0] != queue and seen[buffer.written[0]] < buffer.written[1]:
                doing = "writes" if any(buffer is b for b in writes) else "reads"
                raise RuntimeError(_race(queue, doing, buffer.written[0], "writing"))
        for buffer in writes:
            for other, number in buffer.read.items():
                if other != queue and seen[other] < number:
                    raise RuntimeError(_race(queue, "writes", other, "reading"))
        self._issued[queue] += 1
        for buffer in reads:
            buffer.read[queue] = self._issued[queue]
        for buffer in writes:
            buffer.written, buffer.read = (queue, self._issued[queue]), {}
        return queue


def _later(one: Sequence[int], two: Sequence[int]) -> list[int]:
    return [max(a, b) for a, b in zip(one, two)]


def _race(queue: int, doing: str, other: int, busy: str) -> str:
    return (
        f"command queue {queue} {doing} a tensor that command queue {other} may still be {busy}: on silicon the result "
        f"depends on which is faster. Put `event = ttnn.record_event(device, {other})` after the call on queue {other} "
        f"and `ttnn.wait_for_event({queue}, event)` before this one."
    )
