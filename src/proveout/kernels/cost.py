"""Modelled time and memory of whole Programs; the compiler's plan and the device's clock both read it here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.chip.time import (
    HOST_NS,
    TRACED_GAP_NS,
    DeviceOp,
    KernelTime,
    TimeEstimate,
    Work,
    default_fidelity,
    ethernet_time,
    kernel_time,
    together,
    transfer_time,
)
from proveout.errors import OutOfMemory
from proveout.kernels.circular import call_peak, held_before_results
from proveout.kernels.device_ops import device_ops
from proveout.kernels.faithful import told_fidelity
from proveout.kernels.row import Specs, flat_specs
from proveout.kernels.table import kernels, kind_of, specs_of
from proveout.program import DEALLOCATE, FROM_TORCH, TO_DEVICE, TO_TORCH, Program, Step, refs
from proveout.types import DRAM, HOST, DeviceSpec, Fidelity, MemoryUse, Settings, TensorSpec
from proveout.words import rounded

CIRCULAR_BYTES = 8 * 4096
"""Left to circular buffers in any case when tensors are put into L1: two float32 tiles for each operand and result of
a Step that a later pass may add."""
DEFAULTS = Settings()
USUAL = 1
"""Of low, usual and high."""


@dataclass(frozen=True)
class StepTime:
    """One body Step on the modelled chip. Host Steps have no modelled time: the host is not modelled."""

    step: Step
    ns: int
    kernel: KernelTime | None = None
    low_ns: int = 0
    high_ns: int = 0
    calibrated_ns: int = 0


@dataclass(frozen=True)
class ProgramTime:
    """One call in steady state: ns, their interval, and how much of what runs on the device measurements back."""

    ns: int
    low_ns: int
    high_ns: int
    calibrated: float
    """Share of the kernels' and transfers' time; 0 where nothing runs."""

    def __str__(self) -> str:
        low, ns, high = (rounded(value / 1e6) for value in (self.low_ns, self.ns, self.high_ns))
        return f"{ns} ms modelled, between {low} and {high} ms; {self.calibrated:.0%} of the time is calibrated"


def step_times(program: Program, chip: DeviceSpec, settings: Settings) -> list[StepTime]:
    """Modelled time of every Step of the body, in order."""
    timed = (s for s in program.body if kind_of(s) not in (None, "free", "piece"))
    return [step_time(step, program.specs, chip, settings, program.chips) for step in timed]


def step_time(
    step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings, chips: int = 1
) -> StepTime:
    """Modelled time of one Step on the device, on as many chips at once, or of one transfer."""
    if step.is_transfer:
        to_device = step.kernel in (FROM_TORCH, TO_DEVICE)
        spec = specs[step.outputs[0] if to_device else step.uses[0]]
        return _transfer(step, transfer_time(spec, chip, to_device), pieces_moved(step, chips))
    outputs = tuple(specs[n] for n in step.outputs)
    attrs = tuple(specs_of(step, specs).items())
    time = _call_time(step.kernel, attrs, outputs, chip, settings.math_fidelity)
    wire_bytes = kernels()[step.kernel].wire_bytes
    if wire_bytes is not None:
        time = _with_wire(time, ethernet_time(wire_bytes(outputs, chips)))
    return StepTime(step, time.kernel_ns, time, time.low_ns, time.high_ns, time.calibrated_ns)


def pieces_moved(step: Step, chips: int) -> int:
    """One PCIe link serves all chips, a piece after another; what one chip gives alone is one piece."""
    return 1 if step.kernel == TO_TORCH and not step.attr("mesh_composer") else chips


def _with_wire(time: KernelTime, wire: TimeEstimate) -> KernelTime:
    return replace(
        time,
        kernel_ns=time.kernel_ns + wire.ns,
        low_ns=time.low_ns + wire.low_ns,
        high_ns=time.high_ns + wire.high_ns,
        ops=(*time.ops, ("ethernet", wire)),
    )


def step_device_ops(
    step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings
) -> tuple[DeviceOp, ...]:
    """The device operations that the time of one Step is made of, in order."""
    outputs = tuple(specs[n] for n in step.outputs)
    return _call_ops(step.kernel, specs_of(step, specs), outputs, chip, settings.math_fidelity)[1]


@functools.lru_cache(maxsize=65536)
def _call_time(
    kernel: str,
    attrs: tuple[tuple[str, Any], ...],
    outputs: tuple[TensorSpec, ...],
    chip: DeviceSpec,
    wanted_fidelity: Fidelity | None,
) -> KernelTime:
    specs = dict(attrs)
    operands = [s for v in specs.values() for s in flat_specs(v)]
    (work, fidelity), ops = _call_ops(kernel, specs, outputs, chip, wanted_fidelity)
    return kernel_time(work, [*operands, *outputs], chip, fidelity, ops)


def _call_ops(
    kernel: str, specs: Specs, outputs: tuple[TensorSpec, ...], chip: DeviceSpec, wanted_fidelity: Fidelity | None
) -> tuple[tuple[Work, str], tuple[DeviceOp, ...]]:
    """The call's own arithmetic and fidelity, and its device operations."""
    dtypes = [s.dtype for v in specs.values() for s in flat_specs(v)]
    fidelity = told_fidelity(specs) or wanted_fidelity or default_fidelity(dtypes, chip)
    row = kernels()[kernel]
    work = row.work(specs, outputs)
    return (work, fidelity), device_ops(row, specs, outputs, work, fidelity)


def _transfer(step: Step, time: TimeEstimate, pieces: int) -> StepTime:
    ns, low_ns, high_ns = (pieces * value for value in (time.ns, time.low_ns, time.high_ns))
    return StepTime(step, ns, None, low_ns, high_ns, ns if time.calibrated else 0)


def program_ns(times: list[StepTime], settings: Settings) -> int:
    """Modelled time of one call in steady state."""
    called = [(t.kernel is not None, float(t.ns)) for t in times]
    return _call_ns(called, TRACED_GAP_NS[USUAL], HOST_NS[USUAL], settings)


def program_time(times: list[StepTime], settings: Settings) -> ProgramTime:
    """Transfers, kernels and the gaps between them. Dispatch overlaps the device; with a second queue the transfers
    of one call overlap the kernels of another. Errors of kernels and transfers are put together as `together` says;
    gaps are all short or all long at once."""
    spent = sum(t.ns for t in times)
    share = sum(t.calibrated_ns for t in times) / spent if spent else 0.0
    ends = together(part for t in times for part in _parts(t))
    low, usual, high = (
        _call_ns([(t.kernel is not None, t.ns * scale) for t in times], TRACED_GAP_NS[at], HOST_NS[at], settings)
        for at, scale in enumerate((ends[0] / spent, 1.0, ends[1] / spent) if spent else (1.0, 1.0, 1.0))
    )
    return ProgramTime(usual, min(low, usual), max(high, usual), share)


def _parts(time: StepTime) -> Iterable[tuple[str, TimeEstimate]]:
    if time.kernel is not None and time.kernel.ops:
        return time.kernel.ops
    kind = "transfer" if time.kernel is None else "other"
    return ((kind, TimeEstimate(time.ns, time.low_ns or time.ns, time.high_ns or time.ns)),)


def _call_ns(steps: list[tuple[bool, float]], gap: int, host: int, settings: Settings) -> int:
    dispatch = 0 if settings.trace else host
    kernels_ns = sum(max(ns + gap, dispatch) for kernel, ns in steps if kernel and ns)  # a renaming call runs nothing
    transfers_ns = sum(ns for kernel, ns in steps if not kernel)
    return round(max(kernels_ns, transfers_ns) if settings.queues == 2 else kernels_ns + transfers_ns)


def circular_bytes(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec) -> int:
    """L1 per core that a Step holds while it runs, beside its operands and results: circular buffers and tensors that
    only its device operations see."""
    if step.on_host or step.is_transfer or step.kernel == DEALLOCATE:
        return 0
    outputs = tuple(specs[n] for n in step.outputs)
    return _call_circular(step.kernel, tuple(specs_of(step, specs).items()), outputs, chip)


@functools.lru_cache(maxsize=65536)
def _call_circular(
    kernel: str, attrs: tuple[tuple[str, Any], ...], outputs: tuple[TensorSpec, ...], chip: DeviceSpec
) -> int:
    specs = dict(attrs)
    row = kernels()[kernel]
    ops = device_ops(row, specs, outputs, row.work(specs, outputs), "HiFi2")
    written = [t for op in ops for t in op.outputs]
    results = sum(bytes_per_bank(t, chip) for t in outputs if t.memory.buffer == "l1" and any(t is m for m in written))
    return max(0, call_peak(ops, outputs, chip) - results)


def arenas(chip: DeviceSpec, settings: Settings = DEFAULTS) -> dict[str, Arena]:
    """The memories that Programs allocate from; the trace region sits at the top of DRAM."""
    region = chip.trace_region if settings.trace else 0
    return {"l1": Arena("L1", chip.l1_room), "dram": Arena("DRAM", max(0, chip.dram_bank_bytes - region))}


def prepared(program: Program) -> dict[str, TensorSpec]:
    """Host tensors that ttnn itself prepares and moves to the chip (conv weights), as they lie there."""
    names = {
        ref.name
        for step in program.steps
        if not step.on_host and (rows := kernels()[step.kernel].host_operands)
        for key, arg in step.attrs
        if key in rows
        for ref in refs(arg)
    }
    return {name: replace(program.specs[name], memory=DRAM) for name in names if program.specs[name].memory == HOST}


@dataclass(frozen=True)
class MemoryAt:
    """What lies on the chip while one Step runs, in bytes of one bank: a core's L1, a bank of DRAM."""

    step: Step
    l1: int
    circular: int
    """L1 that the Step holds only while it runs."""
    dram: int
    room: int = 0
    """L1 before the first buffer that lies there: what circular buffers may take."""
    refused: str = ""
    """Why something of it does not fit."""


def names_again(step: Step, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether a Step only gives another name to what lies on the chip already: a piece, a view of a whole buffer, or
    a buffer that it writes to."""
    if not step.on_host and kernels()[step.kernel].in_place:
        return True
    kind = kind_of(step)
    if kind != "view" or specs[step.uses[0]].memory != specs[step.outputs[0]].memory:
        return kind == "piece"
    outputs = tuple(specs[n] for n in step.outputs)
    return _is_view(step.kernel, tuple(specs_of(step, specs).items()), outputs)


@functools.lru_cache(maxsize=65536)
def _is_view(kernel: str, attrs: tuple[tuple[str, Any], ...], outputs: tuple[TensorSpec, ...]) -> bool:
    specs, row = dict(attrs), kernels()[kernel]
    return row.shares_buffer and not device_ops(row, specs, outputs, row.work(specs, outputs), "HiFi2")


def held_before(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec) -> tuple[int, ...]:
    """L1 per core of each tensor of a Step's own behind which its results lie."""
    if step.on_host or step.is_transfer or step.kernel == DEALLOCATE:
        return ()
    outputs = tuple(specs[n] for n in step.outputs)
    return _held_before(step.kernel, tuple(specs_of(step, specs).items()), outputs, chip)


@functools.lru_cache(maxsize=65536)
def _held_before(
    kernel: str, attrs: tuple[tuple[str, Any], ...], outputs: tuple[TensorSpec, ...], chip: DeviceSpec
) -> tuple[int, ...]:
    specs, row = dict(attrs), kernels()[kernel]
    ops = device_ops(row, specs, outputs, row.work(specs, outputs), "HiFi2")
    return tuple(held_before_results(ops, chip)) if ops else ()


def memory_over_time(program: Program, chip: DeviceSpec, settings: Settings = DEFAULTS) -> Iterator[MemoryAt]:
    """Simulate the allocator over a Program, Step by Step, setup first: setup results stay, body values live until
    they are deallocated, and every Step's circular buffers must fit below the L1 buffers that lie there then."""
    memories, moved = arenas(chip, settings), prepared(program)
    l1, dram = memories["l1"], memories["dram"]
    for step in program.steps:
        refused, before = "", dict[str, int]()
        if step.kernel == DEALLOCATE:
            for name in step.uses:
                for arena in memories.values():
                    arena.free(name)
        elif not names_again(step, program.specs):
            before = {f"{step.kernel}.{i}": n for i, n in enumerate(held_before(step, program.specs, chip))}
            for name, size in before.items():
                with contextlib.suppress(OutOfMemory):  # what does not fit is told of the circular buffers below
                    l1.allocate(name, size)
            for name in step.outputs:
                spec = moved.get(name, program.specs[name])
                if spec.memory == HOST:
                    continue
                try:
                    memories[spec.memory.buffer].allocate(name, bytes_per_bank(spec, chip))
                except OutOfMemory as error:
                    refused = refused or f"{error}{_live(memories[spec.memory.buffer])}"
            for name in before:
                l1.free(name)
        circular = circular_bytes(step, program.specs, chip) if kind_of(step) != "piece" else 0
        below = circular - sum(before.values())  # its own tensors lie above its results
        if not refused and (reason := l1.refusal(step.kernel, below)):
            refused = f"{reason}{_live(l1)}"
        yield MemoryAt(step, l1.used, circular, dram.used, l1.capacity - l1.edge, refused)


MOST_LIVE = 4
"""Buffers that a refusal names, the largest first."""


def _live(arena: Arena) -> str:
    """What lies in a memory that is short, as a sentence; empty where nothing does."""
    held = sorted(((size, name) for name, (_, size) in arena.blocks.items()), key=lambda one: (-one[0], one[1]))
    if not held:
        return ""
    named = ", ".join(f"%{name} {size} B" for size, name in held[:MOST_LIVE])
    rest = sum(size for size, _ in held[MOST_LIVE:])
    more = f" and {len(held) - MOST_LIVE} more with {rest} B" if rest else ""
    return f" Live then: {named}{more}."


def memory_use(program: Program, chip: DeviceSpec, settings: Settings = DEFAULTS) -> MemoryUse:
    """The peaks of that simulation, and the first thing that does not fit."""
    peak, peak_at, dram_peak, reason = 0, "", 0, ""
    for at in memory_over_time(program, chip, settings):
        reason = reason or at.refused
        dram_peak = max(dram_peak, at.dram)
        if at.l1 + at.circular > peak:
            peak, peak_at = at.l1 + at.circular, at.step.kernel
    return MemoryUse(
        l1_peak_bytes=peak * chip.cores,
        l1_peak_per_core_bytes=peak,
        l1_per_core_bytes=chip.l1_allocatable,
        dram_peak_bytes=dram_peak * chip.dram_banks,
        weight_bytes=_weight_bytes(program),
        fits=not reason,
        peak_at=reason or peak_at,
    )


def _weight_bytes(program: Program) -> int:
    """What setup leaves on the chip."""
    moved = prepared(program)
    kept: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        if step.kernel == DEALLOCATE:
            for name in step.uses:
                kept.pop(name, None)
        elif number < len(program.setup) and not names_again(step, program.specs):
            specs = {name: moved.get(name, program.specs[name]) for name in step.outputs}
            kept |= {name: spec.nbytes for name, spec in specs.items() if spec.memory != HOST}
    return sum(kept.values())
