"""Records calls as a Program, so that time, memory, checks and exports work for hand-written models too.

    with ttnn.record("encoder", inputs=[x]) as recording:
        y = ttnn.to_torch(encoder(x))
    print(recording.program, recording.time(), recording.memory())

Tensors made before the block are the Program's weights, but for those named as inputs; torch tensors sent inside it are
inputs; what `ttnn.to_torch` gives inside it are outputs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from proveout.chip.specs import CHIPS
from proveout.devices.sim import Sim
from proveout.kernels.cost import ProgramTime, memory_use, program_time, step_times
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.table import LAYOUT_NAMES, dtype_name, infer
from proveout.program import DEALLOCATE, FROM_TORCH, TO_TORCH, Arg, Loaded, Name, Program, Ref, Step, map_refs, verify
from proveout.types import HOST, DeviceSpec, MemoryUse, Origin, Settings, TensorSpec

Key = Any
"""What a value is known by while it lives: a slot of the device, a buffer of the host, or a torch tensor's id."""
Value = tuple[Key, TensorSpec, torch.Tensor]

HERE = str(Path(__file__).parent)


class Recording:
    """Calls so far; `program` when the block is over."""

    def __init__(self, name: str, inputs: Sequence[Any] = ()) -> None:
        self.name = name
        self.inputs: dict[str, torch.Tensor] = {}
        """What the Program's inputs were, by name; so too weights and outputs."""
        self.weights: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        self.device: Sim | None = None
        self.traced = False
        self.queues: set[int] = {0}
        self._declared = {tensor.key for tensor in inputs}
        self._names: dict[Key, str] = {}
        self._specs: dict[str, TensorSpec] = {}
        self._setup: list[Step] = []
        self._body: list[Step] = []
        self._kept: list[Any] = []
        self._program: Program | None = None

    @property
    def program(self) -> Program:
        if self._program is None:
            raise RuntimeError("the recording is not over: read its program after the `with` block")
        return self._program

    @property
    def settings(self) -> Settings:
        """As the calls ran: traced or not, with one queue or two."""
        numerics = self.device.numerics if self.device is not None else "fast"
        return Settings(trace=self.traced, queues=2 if len(self.queues) > 1 else 1, numerics=numerics)

    @property
    def chip(self) -> DeviceSpec:
        return self.device.spec if self.device is not None else CHIPS["n150"]

    def time(self) -> ProgramTime:
        """Modelled time of one call of the Program."""
        return program_time(step_times(self.program, self.chip, self.settings), self.settings)

    def memory(self) -> MemoryUse:
        return memory_use(self.program, self.chip)

    def load(self) -> Loaded:
        """The Program on the device, with the weights it was recorded with."""
        loaded = Sim(self.chip).load(self.program, self.settings)
        loaded.set_weights(self.weights)
        return loaded

    def save(self, folder: str | Path) -> Path:
        """The Program and its tensors, from which `proveout.report.script.write_script` writes a script."""
        saved = self.program.save(folder)
        outputs = {f"output {i}": t for i, t in enumerate(self.outputs.values())}
        tensors = {n: t.contiguous() for n, t in (self.inputs | self.weights | outputs).items()}
        save_file(tensors, saved / "tensors.safetensors")
        return saved

    # ---- while calls run -----------------------------------------------------------------------------------------

    def call(
        self,
        kernel: str,
        attrs: Sequence[tuple[str, Arg]],
        reads: Sequence[Value],
        writes: Sequence[tuple[Key, TensorSpec]],
        source: str,
    ) -> None:
        names = [self._name(*value) for value in reads]
        results = [self._fresh(kernel.rpartition(".")[2], spec) for _, spec in writes]
        attrs_by_name = tuple((k, map_refs(v, lambda ref: Ref(names[int(ref.name)]))) for k, v in attrs)
        self._body.append(Step(kernel, attrs_by_name, tuple(results), Origin(source=source or source_line())))
        before = [self._names.get(key) for key, _ in writes]
        self._names.update(zip((key for key, _ in writes), results))
        for old in before:
            if old is not None and old not in self._names.values():
                self._free(old)

    def fetched(self, tensor: torch.Tensor) -> None:
        """The last call's result is torch's, and an output of the Program."""
        name = self._body[-1].outputs[0]
        self._kept.append(tensor)
        self._names[id(tensor)] = name
        self.outputs[name] = tensor.clone()

    def free(self, key: Key) -> None:
        name = self._names.pop(key, None)
        if name is not None and name not in self._names.values():
            self._free(name)

    def same(self, old: Key, new: Key) -> None:
        self._names[new] = self._names[old]

    def finish(self) -> None:
        if not self.outputs:
            self._fetch_last()
        outputs = tuple(Ref(name) for name in self.outputs)
        self._program = Program(
            self.name, "ttnn", tuple(self.inputs), tuple(self.weights), (), outputs, tuple(self._setup),
            tuple(self._body), self._specs,
        )  # fmt: skip
        verify(self._program, infer)

    def _fetch_last(self) -> None:
        """Without a ttnn.to_torch in the block, what the last call made is the output."""
        freed = {name for step in self._body if step.kernel == DEALLOCATE for name in step.uses}
        unread = [n for step in self._body for n in step.outputs if n not in freed]
        if not unread:
            raise RuntimeError("nothing was recorded: no ttnn call that gives a tensor ran inside the `with` block")
        spec = self._specs[unread[-1]]
        name = self._fresh("to_torch", TensorSpec(spec.shape, spec.dtype))
        step = Step(TO_TORCH, (("tensor", Ref(unread[-1])),), (name,))
        (self._specs[name],) = infer(step, self._specs)
        self._body.append(step)
        self.outputs[name] = torch.empty(0)

    def _name(self, key: Key, spec: TensorSpec, data: torch.Tensor) -> str:
        if key not in self._names:
            self._names[key] = self._from_outside(key, spec, data)
        return self._names[key]

    def _from_outside(self, key: Key, spec: TensorSpec, data: torch.Tensor) -> str:
        """A value from outside: an input or a weight, and how it came to the device."""
        is_torch = isinstance(key, int)
        is_input = self._is_input(key)
        kind, held, steps = ("input", self.inputs, self._body) if is_input else ("weight", self.weights, self._setup)
        name = f"{kind}_{len(held)}"
        held[name], self._specs[name] = self._kept_copy(data), TensorSpec(tuple(data.shape), dtype_name(data.dtype))
        if is_torch:
            return name
        attrs: list[tuple[str, Arg]] = [("tensor", Ref(name)), ("dtype", Name(f"ttnn.{spec.dtype}"))]
        attrs.append(("layout", LAYOUT_NAMES[spec.layout]))
        if spec.memory != HOST:
            attrs += [("device", Name("device")), ("memory_config", memory_arg(spec.memory))]
        there = self._fresh(name, spec)
        steps.append(Step(FROM_TORCH, tuple(attrs), (there,)))
        return there

    def _is_input(self, key: Key) -> bool:
        return isinstance(key, int) or key in self._declared

    def _kept_copy(self, data: torch.Tensor) -> torch.Tensor:
        """The numbers of something given; it stays, so that its id stays its own."""
        self._kept.append(data)
        return data.detach().clone()

    def _fresh(self, stem: str, spec: TensorSpec) -> str:
        name = f"{stem}_{len(self._specs)}"
        self._specs[name] = spec
        return name

    def _free(self, name: str) -> None:
        if self._specs[name].memory != HOST and any(name in s.outputs for s in self._body):
            self._body.append(Step(DEALLOCATE, (("tensor", Ref(name)),), ()))


_active: list[Recording] = []


@contextlib.contextmanager
def record(name: str = "hand-written", inputs: Sequence[Any] = ()) -> Iterator[Recording]:
    """Record the calls of a block; `inputs` are device tensors made before it that change from call to call."""
    if any(type(running) is Recording for running in _active):
        raise RuntimeError("a recording is running already")
    recording = Recording(name, inputs)
    _active.append(recording)
    try:
        yield recording
    finally:
        _active.remove(recording)
    recording.finish()


def listen(recording: Recording) -> None:
    """Have a recording note every call from now on."""
    _active.append(recording)


def leave(recording: Recording) -> None:
    _active.remove(recording)


def called(
    kernel: str,
    attrs: Sequence[tuple[str, Arg]],
    reads: Sequence[Value],
    writes: Sequence[tuple[Key, TensorSpec]],
    source: str = "",
) -> None:
    """Note a call, made at the current line of the user's or, replayed from a trace, at the one captured."""
    for recording in _active:
        recording.call(kernel, attrs, reads, writes, source)


def fetched(tensor: torch.Tensor) -> None:
    for recording in _active:
        recording.fetched(tensor)


def freed(key: Key) -> None:
    for recording in _active:
        recording.free(key)


def same(old: Key, new: Key) -> None:
    for recording in _active:
        recording.same(old, new)


def used(device: Sim, queue: int) -> None:
    for recording in _active:
        recording.device = device
        recording.queues.add(queue)


def traced(queue: int) -> None:
    for recording in _active:
        recording.traced = True


def source_line() -> str:
    """The line outside this package that made the call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
