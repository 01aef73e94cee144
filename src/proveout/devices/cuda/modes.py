"""How calls follow each other on a GPU: kernel by kernel or as one CUDA graph (`trace`), and with transfers before and
after the kernels or beside them (`queues=2`: streams of their own, pinned buffers, two calls in flight)."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor
Kernels = Callable[[Sequence[Any]], list[Any]]
"""The body on inputs that lie on the GPU."""
IN_FLIGHT = 2
WARM_UP = 2
COPIED_BY_ONE_THREAD = 16 << 20
"""Bytes on the host that one thread copies. PyTorch's threads wait for the slowest of them, which takes milliseconds
where something else has a core (ResNet-18 with 2.4 MB of images: 8 ms a call); one takes about 0.1 ms a megabyte."""

LARGE = 1 << 20
"""Bytes of an input from which on a graph that reads it where it lies is worth a second capture."""


class Places:
    """Where a Program's large inputs lie, call after call: a decoder's caches never move."""

    def __init__(self) -> None:
        self._last: list[int] | None = None
        self.lasting: frozenset[int] | None = None
        """Inputs that lay at the same place in the first two calls; None before the second."""

    def saw(self, inputs: Sequence[Any]) -> bool:
        """Whether it is known only now that some last."""
        if self.lasting is not None:
            return False
        now = [t.data_ptr() if isinstance(t, Tensor) and t.nbytes >= LARGE else 0 for t in inputs]
        if self._last is not None:
            self.lasting = frozenset(i for i, (a, b) in enumerate(zip(self._last, now)) if a and a == b)
        self._last = now
        return bool(self.lasting)


class Captured:
    """One CUDA graph with buffers of its own: inputs are copied into them, outputs stay until the next replay. Inputs
    that are `lasting` are read, and written to, where they lie."""

    def __init__(
        self,
        kernels: Kernels,
        example: Sequence[Any],
        stream: torch.cuda.Stream,
        lasting: frozenset[int] = frozenset(),
    ) -> None:
        self.lasting = lasting
        self.inputs = [t.clone() if isinstance(t, Tensor) and i not in lasting else t for i, t in enumerate(example)]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):  # choices are measured and kernels compiled outside the capture
                kernels(self.inputs)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.outputs = kernels(self.inputs)

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Whether the lasting ones are still where they were; they are kept here, so nothing else can lie there."""
        return all(inputs[i].data_ptr() == self.inputs[i].data_ptr() for i in self.lasting)

    def fill(self, inputs: Sequence[Any]) -> None:
        for buffer, value in zip(self.inputs, inputs):
            if isinstance(buffer, Tensor) and buffer.data_ptr() != value.data_ptr():
                buffer.copy_(value, non_blocking=True)

    def replay(self) -> list[Any]:
        self.graph.replay()
        return self.outputs


class Slot:
    """What one call in flight needs: buffers on both sides, and events that say when they are free."""

    def __init__(self) -> None:
        self.captured: Captured | None = None
        self.places = Places()
        self.inputs: list[Any] = []
        self.pinned: list[Any] = []
        self.ready, self.done, self.left = (torch.cuda.Event() for _ in range(3))
        self.pending: Pending | None = None


class Pending:
    """A call on its way; `result` waits for it."""

    def __init__(self, finish: Callable[[], list[Any]]) -> None:
        self._finish: Callable[[], list[Any]] | None = finish
        self._outputs: list[Any] = []

    def result(self) -> list[Any]:
        if self._finish is not None:
            self._outputs, self._finish = self._finish(), None
        return self._outputs


class Runner:
    """One Program's body in one mode."""

    def __init__(self, kernels: Kernels, device: torch.device, trace: bool, queues: int) -> None:
        self.kernels, self.device, self.trace, self.queues = kernels, device, trace, queues
        self.compute = torch.cuda.Stream(device)
        self._up = torch.cuda.Stream(device) if queues == 2 else None
        self._down = torch.cuda.Stream(device) if queues == 2 else None
        self._slots = [Slot() for _ in range(IN_FLIGHT if queues == 2 else 1)]
        self._next = 0

    def captured(self, inputs: Sequence[Any]) -> Captured | None:
        """The CUDA graph that serves the next call; None where the calls cannot be captured."""
        return self._captured(self._slots[self._next], self._on_gpu(inputs))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        return self.submit(inputs).result()

    def submit(self, inputs: Sequence[Any]) -> Pending:
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        if slot.pending is not None:
            slot.pending.result()  # its buffers are needed
        at_home = all(t.is_cuda for t in inputs if isinstance(t, Tensor) and t.dim())
        with torch.cuda.device(self.device):
            if self.queues == 2 and not at_home:
                slot.pending = self._beside(slot, inputs)
            else:
                slot.pending = self._in_order(slot, inputs, at_home)
        return slot.pending

    def _in_order(self, slot: Slot, inputs: Sequence[Any], at_home: bool) -> Pending:
        if self.trace and at_home:
            self._settle(slot, inputs)
        graph = self._captured(slot, self._on_gpu(inputs)) if self.trace else None
        if graph is None:
            outputs = self.kernels(self._on_gpu(inputs))
        else:
            graph.fill(inputs)
            outputs = [t.clone() if isinstance(t, Tensor) and at_home else t for t in graph.replay()]
        if not at_home:
            outputs = brought_home(outputs)
            torch.cuda.current_stream().synchronize()
        return Pending(lambda: outputs)

    def _beside(self, slot: Slot, inputs: Sequence[Any]) -> Pending:
        """Upload on one stream, compute on another, download on a third, each waiting for no more than it must."""
        assert self._up is not None
        assert self._down is not None
        if not slot.inputs:
            slot.inputs = self._on_gpu(inputs)
            slot.pinned = [t.pin_memory() if isinstance(t, Tensor) else t for t in inputs]
            torch.cuda.synchronize()
        graph = self._captured(slot, slot.inputs) if self.trace else None
        targets = graph.inputs if graph is not None else slot.inputs
        for buffer, value in zip(slot.pinned, inputs):
            if isinstance(buffer, Tensor):
                copy_on_host(buffer, value)
        with torch.cuda.stream(self._up):
            for target, buffer in zip(targets, slot.pinned):
                if isinstance(target, Tensor):
                    target.copy_(buffer, non_blocking=True)
            slot.ready.record()
        with torch.cuda.stream(self.compute):
            slot.ready.wait()
            outputs = graph.replay() if graph is not None else self.kernels(slot.inputs)
            slot.done.record()
        with torch.cuda.stream(self._down):
            slot.done.wait()
            leaving = brought_home(outputs)
            for value in outputs:
                if isinstance(value, Tensor) and value.is_cuda:
                    value.record_stream(self._down)
            slot.left.record()

        def finish() -> list[Any]:
            slot.left.synchronize()
            return leaving

        return Pending(finish)

    def _settle(self, slot: Slot, inputs: Sequence[Any]) -> None:
        """Let a graph go that copies what need not be copied, or reads where an input no longer lies."""
        if slot.places.saw(inputs):
            slot.captured = None
        elif slot.captured is not None and not slot.captured.fits(inputs):
            slot.captured, slot.places.lasting = None, frozenset()

    def _captured(self, slot: Slot, inputs: Sequence[Any]) -> Captured | None:
        if self.trace and slot.captured is None:
            try:
                slot.captured = Captured(self.kernels, inputs, self.compute, slot.places.lasting or frozenset())
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                warnings.warn(f"no CUDA graph of this Program, it runs kernel by kernel: {reason}", stacklevel=2)
                self.trace = False
        return slot.captured

    def _on_gpu(self, inputs: Sequence[Any]) -> list[Any]:
        return [t.to(self.device) if isinstance(t, Tensor) else t for t in inputs]


def copy_on_host(to: Tensor, value: Tensor) -> None:
    """Into a buffer on the host, by the calling thread alone where that is little."""
    plain = to.dtype == value.dtype and to.shape == value.shape and to.is_contiguous() and value.is_contiguous()
    if plain and not value.is_cuda and to.nbytes <= COPIED_BY_ONE_THREAD:
        ctypes.memmove(to.data_ptr(), value.data_ptr(), to.nbytes)
    else:
        to.copy_(value)


def brought_home(outputs: Sequence[Any]) -> list[Any]:
    """Outputs on their way to the host, on the current stream. Their memory is pinned and theirs alone: a copy out of a
    buffer that stays took 60 ms for 100 MB. PyTorch keeps such memory for the next call once nobody holds it."""

    def one(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_cuda:
            return value
        return torch.empty_like(value, device="cpu", pin_memory=True).copy_(value, non_blocking=True)

    return [one(value) for value in outputs]
