"""Makes a Program fit DRAM: tensors wait in the host's memory while others need the room, and weights are streamed.

Runs on a Program with its deallocations; one that fits is left alone.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable
from dataclasses import replace

from proveout.chip.memory import bytes_per_bank
from proveout.chip.time import transfer_time
from proveout.compiler.program_passes.deallocate import deallocate, sharing
from proveout.compiler.program_passes.settle_state import without_state
from proveout.errors import OutOfMemory
from proveout.kernels.cost import arenas, memory_use, names_again, prepared, program_ns, step_times
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.table import MEMORY_NAMES, infer
from proveout.program import (
    DEALLOCATE,
    FROM_DEVICE,
    FROM_TORCH,
    TO_DEVICE,
    TO_TORCH,
    Name,
    Program,
    Ref,
    Step,
    with_refs,
)
from proveout.types import DRAM, HOST, L1, DeviceSpec, Origin, Settings, TensorSpec


def evict(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    """The fastest of the ways we try that fit: the more weights are streamed, the fewer results must give way."""
    if memory_use(program, chip, settings).fits:
        return program
    weights = _by_cost_of_streaming(program)
    fitting: dict[int, Program] = {}

    def fits(streamed: int) -> bool:
        try:
            evicted = _Eviction(program, chip, settings, frozenset(weights[:streamed])).run()
        except OutOfMemory:
            return False
        if memory_use(evicted, chip, settings).fits:
            fitting[streamed] = evicted
        return streamed in fitting

    tried = sorted({0, len(weights), *(2**n for n in range(len(weights).bit_length()))})
    failed = [n for n in tried if not fits(n)]
    if not fitting and program.state:
        return evict(_giving_up_state(program), chip, settings)
    if not fitting:
        return program  # the plan says what is short
    between = range(max((n for n in failed if n < min(fitting)), default=0) + 1, min(fitting))
    bisect.bisect_left(between, True, key=fits)
    return min(fitting.values(), key=lambda p: program_ns(step_times(p, chip, settings), settings))


def _giving_up_state(program: Program) -> Program:
    """What must stay from call to call leaves too little room: send it at every call, free it after its last use."""
    setup, body = (tuple(s for s in steps if s.kernel != DEALLOCATE) for steps in (program.setup, program.body))
    return deallocate(without_state(replace(program, setup=setup, body=body)))


def _by_cost_of_streaming(program: Program) -> list[str]:
    """Setup results that the body reads from the device: those read least often first, of those the largest."""
    moved = prepared(program)
    written = {weight for weight, _ in program.state}
    makers = {
        n
        for s in program.setup
        for n in s.outputs
        if (program.specs[n].memory != HOST or n in moved) and written.isdisjoint(s.uses)
    }
    reads: dict[str, int] = {}
    for step in program.body:
        for name in makers.intersection(step.uses):
            reads[name] = reads.get(name, 0) + 1
    return sorted(reads, key=lambda n: (reads[n], -program.specs[n].nbytes))


class _Eviction:
    """One walk over setup and body with the allocator, moving tensors wherever it finds no room.

    Values keep their names in here: `at` is what holds one on the device now, `copies` what holds it on the host.
    """

    def __init__(self, program: Program, chip: DeviceSpec, settings: Settings, streamed: frozenset[str]) -> None:
        self.program, self.chip, self.streamed = program, chip, streamed
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self.memories, self.moved = arenas(chip, settings), prepared(program)
        self.at: dict[str, str] = {}
        self.copies: dict[str, str] = {}
        self.later: dict[str, Step] = {}
        """Streamed conv weights: the Step that makes them, for the body to run before each use."""
        self.resident: frozenset[str] = frozenset()
        self.weights = frozenset(n for s in program.setup for n in s.outputs)
        self.shares = sharing(program.steps)
        self.kept = frozenset(value for _, value in program.state)
        """What the next call finds on the device."""
        self.steps: list[Step] = []
        self.transfers_ns: dict[tuple[str, bool], float] = {}
        self.position = 0
        self.reads: dict[str, list[int]] = {}
        for index, step in enumerate(program.steps):
            if step.kernel != DEALLOCATE:
                for name in step.uses:
                    self.reads.setdefault(name, []).append(index)

    def run(self) -> Program:
        for step in self.program.setup:
            self._next(step)
        self._end_setup()
        setup, self.steps = tuple(self.steps), []
        for step in self.program.body:
            self._next(step)
        resident = {*self.program.inputs, *self.program.weights, *(c.name for c in self.program.constants)}
        computed = {n for s in (*setup, *self.steps) for n in s.outputs}
        specs = {n: s for n, s in self.specs.items() if n in resident | computed}
        return replace(self.program, setup=setup, body=tuple(self.steps), specs=specs)

    def _end_setup(self) -> None:
        """The body finds the device as each call leaves it: what it streams is not there, all else always is."""
        self._move_out([v for v in self.at if v in self.copies], Origin())
        self.resident = frozenset(self.at)

    def _next(self, step: Step) -> None:
        if step.kernel == DEALLOCATE:
            (value,) = step.uses
            self._free([value] if value in self.at else [], step.origin)
            if value in self.copies:
                self.steps.append(_deallocation(self.copies.pop(value), step.origin))
        elif step.kernel == FROM_TORCH and self.streamed.intersection(step.outputs):
            self._keep_on_host(step)
        else:
            self._on_device(step)
        self.position += 1

    def _keep_on_host(self, step: Step) -> None:
        (value,) = step.outputs
        if value in self.moved:
            self.later[value] = step
        else:
            attrs = tuple((k, v) for k, v in step.attrs if k not in ("device", "memory_config"))
            self._emit(replace(step, attrs=attrs))
            self.copies[value] = value

    def _on_device(self, step: Step) -> None:
        try:
            moved = self._with_room(step)
        except OutOfMemory:
            # What is left are the Step's own operands, with gaps between them: lay them out afresh.
            self._move_out(self._movable(()), step.origin)
            moved = self._with_room(step)
        self.steps.append(moved)
        for value in self.streamed.intersection(step.outputs):
            self._copy(value, step.origin)
        if self.position >= len(self.program.setup):
            streamed = [v for v in step.uses if v in self.at and v in self.weights - self.resident]
            self._free([v for v in streamed if not self._next_read(v)], step.origin)

    def _with_room(self, step: Step) -> Step:
        """The Step as it reads its operands where they are now, with room made for them and for its results."""
        busy = {*step.uses, *step.outputs}
        for value in step.uses:
            on_host = value not in self.at and (value in self.copies or value in self.later)
            if on_host and step.kernel != TO_TORCH:  # which reads the host's copy as well
                self._load(value, busy, step.origin)
        moved = with_refs(step, lambda r: Ref(self.at.get(r.name) or self.copies.get(r.name, r.name)))
        while True:
            if not moved.on_host:
                self.specs.update(zip(moved.outputs, infer(moved, self.specs, chips=self.program.chips)))
                if names_again(moved, self.specs):
                    self.at |= {value: value for value in moved.outputs}
                    return moved
            try:
                for value in moved.outputs:
                    self._allocate(value, value)
                return moved
            except OutOfMemory:
                self._withdraw(moved.outputs)
                if moved.attr("memory_config") == MEMORY_NAMES[L1]:
                    moved = moved.with_attrs(memory_config=MEMORY_NAMES[DRAM])
                elif not self._make_room([self._size(v, v) for v in moved.outputs], busy, step.origin):
                    raise

    def _withdraw(self, values: Iterable[str]) -> None:
        for value in values:
            self.at.pop(value, None)
            for memory in self.memories.values():
                memory.free(value)

    def _size(self, value: str, name: str) -> int:
        spec = self.moved.get(value, self.specs[name])
        return bytes_per_bank(spec, self.chip) if spec.memory == DRAM else 0

    def _allocate(self, value: str, name: str) -> None:
        spec = self.moved.get(value, self.specs[name])
        if spec.memory != HOST:
            self.memories[spec.memory.buffer].allocate(name, bytes_per_bank(spec, self.chip))
            self.at[value] = name

    def _make_room(self, sizes: Iterable[int], busy: Collection[str], origin: Origin) -> bool:
        """Move out the neighbours in DRAM that cost least for a block that is now too small; False if none can go."""
        holders = {self.at[v]: v for v in self._movable(busy)}
        for size in sorted(filter(None, sizes), reverse=True):
            windows = list(self.memories["dram"].windows(size, holders))
            if windows:
                prices = {n: self._price(holders[n]) for n in set().union(*windows)}
                best = min(windows, key=lambda names: sum(prices[n] for n in names))
                self._move_out([holders[n] for n in best], origin)
                return True
        return False

    def _movable(self, busy: Collection[str]) -> list[str]:
        """Values in DRAM that may leave: not what a Step needs or may share buffers with, nor what setup left there."""
        needed = {self.shares.get(v, v) for v in (*busy, *self.kept)}
        return [
            value
            for value, name in self.at.items()
            if self.shares.get(value, value) not in needed
            and value not in self.resident
            and (value in self.later or self.specs[name].memory == DRAM)
        ]

    def _price(self, value: str) -> float:
        """Modelled transfer time per Step of room gained: low for what is small, far away or on the host already."""
        read = self._next_read(value)
        if not read:
            return 0.0
        again = value in self.copies or value in self.later
        away_ns = 0 if again else self._transfer_ns(value, to_device=False)
        return (away_ns + self._transfer_ns(value, to_device=True)) / (read - self.position)

    def _transfer_ns(self, value: str, to_device: bool) -> float:
        key = value, to_device
        if key not in self.transfers_ns:
            self.transfers_ns[key] = transfer_time(self.program.specs[value], self.chip, to_device=to_device).ns
        return self.transfers_ns[key]

    def _next_read(self, value: str) -> int:
        """The position after this one where a value is read; 0 for never."""
        reads = self.reads.get(value, [])
        following = bisect.bisect_right(reads, self.position)
        return reads[following] if following < len(reads) else 0

    def _move_out(self, values: Iterable[str], origin: Origin) -> None:
        """Free these values' buffers, and those that may be the same, once there are copies of what is read again."""
        roots = {self.shares.get(v, v) for v in values}
        leaving = [v for v in self.at if self.shares.get(v, v) in roots and v not in self.resident]
        for value in leaving:
            read_now = self.position in self.reads.get(value, ())
            if value not in self.copies and value not in self.later and (read_now or self._next_read(value)):
                self._copy(value, origin)
        self._free(leaving, origin)

    def _copy(self, value: str, origin: Origin) -> None:
        self.copies[value] = self._fresh(f"{value}.away")
        self._emit(Step(FROM_DEVICE, (("tensor", Ref(self.at[value])),), (self.copies[value],), origin))

    def _load(self, value: str, busy: Collection[str], origin: Origin) -> None:
        name = self._fresh(f"{value}.back")
        if value in self.later:
            step = replace(self.later[value], outputs=(name,))
        else:
            memory = memory_arg(self.program.specs[value].memory)
            attrs = (("tensor", Ref(self.copies[value])), ("device", Name("device")), ("memory_config", memory))
            step = Step(TO_DEVICE, attrs, (name,), origin)
        self.specs.update(zip(step.outputs, infer(step, self.specs, chips=self.program.chips)))
        if self.memories["dram"].largest_free < self._size(value, name):
            self._make_room([self._size(value, name)], busy, origin)
        self._allocate(value, name)
        self.steps.append(step)

    def _free(self, values: Iterable[str], origin: Origin) -> None:
        for value in values:
            name = self.at.pop(value)
            for memory in self.memories.values():
                memory.free(name)
            self.steps.append(_deallocation(name, origin))

    def _emit(self, step: Step) -> None:
        self.specs.update(zip(step.outputs, infer(step, self.specs, chips=self.program.chips)))
        self.steps.append(step)

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.specs:
            number += 1
            name = f"{wanted}{number}"
        return name


def _deallocation(name: str, origin: Origin) -> Step:
    return Step(DEALLOCATE, (("tensor", Ref(name)),), (), origin)
