"""Puts results of the body into L1 where they fit while they live and the modelled time says that it pays, and into
DRAM where not.

A product of tensors in L1 is cut otherwise, and may take longer than from DRAM. Where L1 is short, results that lie
there give way to a new one, again if that pays.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.compiler.program_passes.configure_products import takes_config
from proveout.compiler.program_passes.deallocate import freed_after, sharing
from proveout.errors import OutOfMemory
from proveout.kernels.cost import CIRCULAR_BYTES, circular_bytes, held_before, names_again, program_ns, step_times
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.signatures import parameters
from proveout.kernels.table import MEMORY_NAMES, infer, kernels, kind_of
from proveout.program import Program, Ref, Step, refs, with_refs
from proveout.types import DRAM, HOST, L1, DeviceSpec, Settings, TensorSpec

DEFAULTS = Settings()


def place(program: Program, chip: DeviceSpec, settings: Settings = DEFAULTS) -> Program:
    placement = _Placement(program, chip, settings)
    freed = freed_after(program.body, program.specs)
    placement.last.update((name, index) for index, names in freed.items() for name in names)
    for index, step in enumerate(program.body):
        placement.add(index, step)
        for name in freed.get(index, ()):
            placement.arena.free(name)
    return replace(program, body=tuple(placement.body), specs=placement.specs)


def keep_in_dram(program: Program) -> Program:
    """Say DRAM outright where a kernel would put its result elsewhere."""
    specs, body = dict(program.specs), []
    for step in program.body:
        if not step.on_host and step.attr("memory_config") is None and kernels()[step.kernel].out_memory == L1:
            step = replace(step, attrs=(*step.attrs, ("memory_config", MEMORY_NAMES[DRAM])))
        if not step.on_host:
            specs.update(zip(step.outputs, infer(step, specs)))
        body.append(step)
    return replace(program, body=tuple(body), specs=specs)


def _from_dram_alone(step: Step) -> list[str]:
    rows = kernels()[step.kernel].dram_operands
    return [ref.name for key, arg in step.attrs if key in rows for ref in refs(arg)]


class _Placement:
    """L1 as it fills and empties over the body. Values keep their names in here; `moved` are their copies in DRAM."""

    def __init__(self, program: Program, chip: DeviceSpec, settings: Settings) -> None:
        self.program, self.chip, self.settings = program, chip, settings
        self.specs: dict[str, TensorSpec] = dict(program.specs)
        self.arena = Arena("L1", chip.l1_room)
        self.held = [self._held(step) for step in program.body]
        self.last: dict[str, int] = {}
        """Where in the body a value is freed."""
        self.body: list[Step] = []
        self.moved: dict[str, str] = {}
        self.shares = sharing(program.body)
        self.to_dram = {n for step in program.body if not step.on_host for n in _from_dram_alone(step)}
        kept = {self.shares.get(value, value) for _, value in program.state}
        self.to_dram |= {n for step in program.body for n in step.outputs if self.shares.get(n, n) in kept}
        self.readers: dict[str, list[int]] = {}
        for index, step in enumerate(program.body):
            for name in step.uses:
                self.readers.setdefault(name, []).append(index)

    def _held(self, step: Step) -> int:
        """The most that a Step's circular buffers may take, wherever its tensors will lie."""
        if step.on_host or step.is_transfer:
            return 0
        # A product's program follows from where each of its tensors lies; others at most keep intermediates there.
        each = kind_of(step) in MATRIX_UNIT
        both = itertools.product((DRAM, L1), repeat=2) if each else ((DRAM, DRAM), (L1, L1))
        held = []
        for around, results in both:
            moved = {n: replace(self.specs[n], memory=around) for n in step.uses if self.specs[n].memory != HOST}
            outputs = {n: replace(self.specs[n], memory=results) for n in step.outputs}
            held.append(circular_bytes(step, ChainMap(outputs, moved, self.specs), self.chip))
        return max(held)

    def _limit(self, index: int, name: str) -> int:
        """Where a value's buffer must end: before the circular buffers of all Steps that run while it lives."""
        alive = self.held[index : self.last.get(name, len(self.held)) + 1]
        return self.arena.capacity - max(CIRCULAR_BYTES, *alive)

    def add(self, index: int, original: Step) -> None:
        step = with_refs(original, lambda r: Ref(self.moved.get(r.name, r.name)))
        if not step.on_host and step.outputs and self.specs[step.outputs[0]].memory != HOST:
            step = self._placed(index, step, busy=original.uses)
        self.body.append(step)

    def _placed(self, index: int, step: Step, busy: tuple[str, ...]) -> Step:
        """The Step with its memory_config said outright: ttnn's defaults differ from kernel to kernel."""
        movable = "memory_config" in parameters(step.kernel) and step.attr("memory_config") is None
        default = infer(step, self.specs, chips=self.program.chips)
        in_l1 = self.to_dram.isdisjoint(step.outputs) if movable else default[0].memory.buffer == "l1"
        if in_l1 and movable and self._near_products(index, step):
            in_l1 = sum(self._gain(index, name, step) for name in step.outputs) >= 0
        there = {name: replace(spec, memory=L1) for name, spec in zip(step.outputs, default)}
        again = in_l1 and names_again(step, ChainMap(there, self.specs))
        sizes = held_before(step, ChainMap(there, self.specs), self.chip) if in_l1 and not again else ()
        before = {f"{step.kernel}.{i}": size for i, size in enumerate(sizes)}
        for name, size in before.items():
            with contextlib.suppress(OutOfMemory):
                self.arena.allocate(name, size)
        for name, spec in there.items() if not again else ():
            size, limit = bytes_per_bank(spec, self.chip), self._limit(index, name)
            if in_l1 and self.arena.largest_below(limit) < size:
                self._make_room(index, step, size, limit, (*busy, *before))
            in_l1 = in_l1 and self.arena.largest_below(limit) >= size
            if in_l1:
                self.arena.allocate(name, size, limit)
        for name in before:
            self.arena.free(name)
        if not in_l1:
            for name in step.outputs:
                self.arena.free(name)
        if movable:
            step = replace(step, attrs=(*step.attrs, ("memory_config", MEMORY_NAMES[L1 if in_l1 else DRAM])))
        self.specs.update(zip(step.outputs, infer(step, self.specs, chips=self.program.chips)))
        return step

    def _near_products(self, index: int, step: Step) -> bool:
        """Whether a product that ttnn cuts itself makes or reads its results: nothing else is slower from L1."""
        configured = self.settings.products == "configured"
        readers = (self.program.body[i] for name in step.outputs for i in self.readers.get(name, ()) if i > index)
        return any(
            kind_of(s) == "product" and not (configured and takes_config(s, self.specs)) for s in (step, *readers)
        )

    def _make_room(self, index: int, step: Step, size: int, limit: int, busy: tuple[str, ...]) -> None:
        """Move neighbours in L1 to DRAM if that takes less time than the new result saves by lying there."""
        staying = {*busy, *step.outputs, *self.shares}
        saved = sum(self._gain(index, name, step) for name in step.outputs)
        windows = list(self.arena.windows(size, self.arena.blocks.keys() - staying, limit)) if saved > 0 else []
        if not windows:
            return
        price = {name: self._cost_of_moving(index, name) for name in {n for w in windows for n in w}}
        best = min(windows, key=lambda names: sum(price[n] for n in names))
        if sum(price[n] for n in best) < saved:
            for name in best:
                move = self._move(name)
                self.specs.update(zip(move.outputs, infer(move, self.specs)))
                self.body.append(replace(move, origin=step.origin))
                self.moved[name] = move.outputs[0]
                self.arena.free(name)

    def _move(self, name: str) -> Step:
        attrs = (("tensor", Ref(name)), ("memory_config", MEMORY_NAMES[DRAM]))
        return Step("ttnn.to_memory_config", attrs, (f"{name}.dram",))

    def _cost_of_moving(self, index: int, name: str) -> int:
        """Of the move itself, and of reading from DRAM afterwards."""
        move = self._move(name)
        return self._ns([move], {move.outputs[0]: replace(self.specs[name], memory=DRAM)}) + self._gain(index, name)

    def _gain(self, index: int, name: str, *makers: Step) -> int:
        """What the Steps that make a value, and those that read it from here on, save by having it in L1."""
        readers = [self.program.body[i] for i in self.readers.get(name, ()) if i > index]
        steps = [s for s in (*makers, *readers) if not s.on_host]
        there, here = (self._ns(steps, {name: replace(self.specs[name], memory=memory)}) for memory in (DRAM, L1))
        return there - here

    def _ns(self, steps: Sequence[Step], changed: Mapping[str, TensorSpec]) -> int:
        """Modelled time of some Steps with some tensors elsewhere and the others where they are now."""
        names = {n for s in steps for n in (*s.uses, *s.outputs)}
        specs = {n: changed.get(n) or self.specs[self.moved.get(n, n)] for n in names}
        alone = replace(self.program, setup=(), body=tuple(steps), specs=specs)
        return program_ns(step_times(alone, self.chip, self.settings), self.settings)
