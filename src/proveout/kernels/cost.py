"""Modelled time and memory of whole Programs; the compiler's plan and the device's clock both read it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.chip.time import (
    TRACED_GAP_NS,
    UNTRACED_GAP_NS,
    KernelTime,
    default_fidelity,
    kernel_time,
    transfer_ns,
)
from proveout.errors import OutOfMemory
from proveout.kernels.table import flat_specs, kernels, specs_of
from proveout.program import DEALLOCATE, FROM_TORCH, TO_DEVICE, Program, Step, refs
from proveout.types import DRAM, HOST, DeviceSpec, MemoryUse, Settings, TensorSpec

CIRCULAR_TILES = 8
"""Tiles of circular buffer that a kernel holds per core: two per operand and result, doubled."""
CIRCULAR_BYTES = CIRCULAR_TILES * 4096


@dataclass(frozen=True)
class StepTime:
    """One body Step on the modelled chip. Host Steps have no modelled time: the host is not modelled."""

    step: Step
    ns: int
    kernel: KernelTime | None = None


def step_times(program: Program, chip: DeviceSpec, settings: Settings) -> list[StepTime]:
    """Modelled time of every Step of the body, in order."""
    timed = (s for s in program.body if not s.on_host and s.kernel != DEALLOCATE)
    return [step_time(step, program.specs, chip, settings) for step in timed]


def step_time(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings) -> StepTime:
    """Modelled time of one Step on the device, or of one transfer."""
    if step.is_transfer:
        to_device = step.kernel in (FROM_TORCH, TO_DEVICE)
        return StepTime(step, transfer_ns(specs[step.outputs[0] if to_device else step.uses[0]], chip, to_device))
    given = specs_of(step, specs)
    outputs = [specs[n] for n in step.outputs]
    operands = [s for v in given.values() for s in flat_specs(v)]
    fidelity = settings.math_fidelity or default_fidelity([s.dtype for s in operands], chip)
    work = kernels()[step.kernel].work(given, outputs)
    time = kernel_time(work, [*operands, *outputs], chip, fidelity)
    if work.then is not None:
        time += kernel_time(work.then, [*outputs, *outputs], chip, fidelity)
    return StepTime(step, time.kernel_ns, time)


def program_ns(times: list[StepTime], settings: Settings) -> int:
    """Modelled time of one call in steady state: transfers, kernels and the gaps between them. Dispatch overlaps the
    device; with a second queue the transfers of one call overlap the kernels of another."""
    dispatch = 0 if settings.trace else UNTRACED_GAP_NS
    kernels_ns = sum(max(t.ns + TRACED_GAP_NS, dispatch) for t in times if t.kernel)
    transfers_ns = sum(t.ns for t in times if not t.kernel)
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
