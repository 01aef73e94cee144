"""Modelled time and memory of whole Programs; the compiler's plan and the device's clock both read it here."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.chip.time import (
    HOST_NS,
    TRACED_GAP_NS,
    Estimate,
    KernelTime,
    default_fidelity,
    kernel_time,
    transfer_time,
)
from proveout.errors import OutOfMemory
from proveout.kernels.device_ops import device_ops
from proveout.kernels.faithful import told_fidelity
from proveout.kernels.table import flat_specs, kernels, specs_of
from proveout.program import DEALLOCATE, FROM_TORCH, TO_DEVICE, Program, Step, refs
from proveout.types import DRAM, HOST, DeviceSpec, Fidelity, MemoryUse, Settings, TensorSpec

CIRCULAR_TILES = 8
"""Tiles of circular buffer that a kernel holds per core: two per operand and result, doubled."""
CIRCULAR_BYTES = CIRCULAR_TILES * 4096


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
        low, ns, high = (f"{value / 1e6:.3g}" for value in (self.low_ns, self.ns, self.high_ns))
        return f"{ns} ms modelled, between {low} and {high} ms; {self.calibrated:.0%} of the time is calibrated"


def step_times(program: Program, chip: DeviceSpec, settings: Settings) -> list[StepTime]:
    """Modelled time of every Step of the body, in order."""
    timed = (s for s in program.body if not s.on_host and s.kernel != DEALLOCATE)
    return [step_time(step, program.specs, chip, settings) for step in timed]


def step_time(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings) -> StepTime:
    """Modelled time of one Step on the device, or of one transfer."""
    if step.is_transfer:
        to_device = step.kernel in (FROM_TORCH, TO_DEVICE)
        return _transfer(step, transfer_time(specs[step.outputs[0] if to_device else step.uses[0]], chip, to_device))
    outputs = tuple(specs[n] for n in step.outputs)
    time = _call_time(step.kernel, tuple(specs_of(step, specs).items()), outputs, chip, settings.math_fidelity)
    return StepTime(step, time.kernel_ns, time, time.low_ns, time.high_ns, time.calibrated_ns)


@functools.lru_cache(maxsize=65536)
def _call_time(
    kernel: str,
    attrs: tuple[tuple[str, Any], ...],
    outputs: tuple[TensorSpec, ...],
    chip: DeviceSpec,
    asked: Fidelity | None,
) -> KernelTime:
    specs = dict(attrs)
    operands = [s for v in specs.values() for s in flat_specs(v)]
    fidelity = told_fidelity(specs) or asked or default_fidelity([s.dtype for s in operands], chip)
    work = kernels()[kernel].work(specs, outputs)
    ops = device_ops(kernel, specs, outputs, work, fidelity)
    return kernel_time(work, [*operands, *outputs], chip, fidelity, ops)


def _transfer(step: Step, time: Estimate) -> StepTime:
    return StepTime(step, time.ns, None, time.low_ns, time.high_ns, time.ns if time.calibrated else 0)


def program_ns(times: list[StepTime], settings: Settings) -> int:
    """Modelled time of one call in steady state."""
    return program_time(times, settings).ns


def program_time(times: list[StepTime], settings: Settings) -> ProgramTime:
    """Transfers, kernels and the gaps between them. Dispatch overlaps the device; with a second queue the transfers
    of one call overlap the kernels of another. The interval takes every error and every gap at its worst at once."""
    spent = sum(t.ns for t in times)
    share = sum(t.calibrated_ns for t in times) / spent if spent else 0.0
    low, usual, high = (
        _call_ns([(t.kernel is not None, pick(t)) for t in times], TRACED_GAP_NS[at], HOST_NS[at], settings)
        for at, pick in enumerate((_low, _usual, _high))
    )
    return ProgramTime(usual, min(low, usual), max(high, usual), share)


def _low(time: StepTime) -> int:
    return time.low_ns or time.ns


def _usual(time: StepTime) -> int:
    return time.ns


def _high(time: StepTime) -> int:
    return time.high_ns or time.ns


def _call_ns(steps: list[tuple[bool, int]], gap: int, host: int, settings: Settings) -> int:
    dispatch = 0 if settings.trace else host
    kernels_ns = sum(max(ns + gap, dispatch) for kernel, ns in steps if kernel and ns)  # a renaming call runs nothing
    transfers_ns = sum(ns for kernel, ns in steps if not kernel)
    return max(kernels_ns, transfers_ns) if settings.queues == 2 else kernels_ns + transfers_ns


def arenas(chip: DeviceSpec) -> dict[str, Arena]:
    """The memories that Programs allocate from; kernels' circular buffers have their own part of L1."""
    return {
        "l1": Arena("L1", max(0, chip.l1_allocatable - CIRCULAR_BYTES)),
        "dram": Arena("DRAM", chip.dram_bank_bytes),
    }


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


def memory_use(program: Program, chip: DeviceSpec) -> MemoryUse:
    """Simulate the allocator over a Program: setup results stay, body values live until they are deallocated."""
    memories, moved = arenas(chip), prepared(program)
    l1, dram = memories["l1"], memories["dram"]
    peak_at, fits, reason = "", True, ""
    weight_bytes: dict[str, int] = {}
    for index, step in enumerate(program.steps):
        if step.kernel == DEALLOCATE:
            for name in step.uses:
                for arena in memories.values():
                    arena.free(name)
                weight_bytes.pop(name, None)
            continue
        for name in step.outputs:
            spec = moved.get(name, program.specs[name])
            if spec.memory == HOST:
                continue
            arena = memories[spec.memory.buffer]
            before = l1.peak
            try:
                arena.allocate(name, bytes_per_bank(spec, chip))
            except OutOfMemory as error:
                fits, reason = False, reason or str(error)
            if l1.peak > before:
                peak_at = step.kernel
            if index < len(program.setup):
                weight_bytes[name] = spec.nbytes
    per_core = l1.peak + (CIRCULAR_BYTES if any(not s.on_host for s in program.body) else 0)
    return MemoryUse(
        l1_peak_bytes=per_core * chip.cores,
        l1_peak_per_core_bytes=per_core,
        l1_per_core_bytes=chip.l1_allocatable,
        dram_peak_bytes=dram.peak * chip.dram_banks,
        weight_bytes=sum(weight_bytes.values()),
        fits=fits,
        peak_at=reason or peak_at,
    )
