"""`run_mem_analysis`: how much on-chip memory a Program's tensors take, Step by Step. Modelled, nothing is run."""

from __future__ import annotations

from proveout.program import DEALLOCATE, Program, Step
from proveout.types import HOST, DeviceSpec


class MemoryManager:
    """The analysis of one Program. Sizes are in bytes, as stored: tile padding counts."""

    def __init__(self, chip: DeviceSpec, verbose: bool = True) -> None:
        self.device, self.cores, self.L1_mem = chip.arch, chip.cores, chip.l1_per_core
        self.circular_buffer = chip.cores * (chip.l1_per_core - chip.l1_allocatable)
        """What programs and firmware keep for themselves."""
        self.total_sram_limit = self.cores * self.L1_mem
        self.usable_sram_limit = self.total_sram_limit - self.circular_buffer
        self.verbose, self.logs = verbose, ""
        self.used_sram, self.peak_sram_usage = 0, 0
        self.tensors_on_device: list[int] = []
        self.tensor_size_of: dict[int, int] = {}
        self.sram_usage_at: dict[str, int] = {}
        """After each call, by the value that it gives."""
        self.tids_in_sram_at: dict[str, list[int]] = {}
        self.ops_mem_usage: dict[str, int] = {}
        """What one call reads and gives, together."""
        self.data_points: dict[str, list[tuple[int, int]]] = {}
        """For charts: "('name', tensor)" -> the tensors there with their sizes."""

    @property
    def free_sram(self) -> int:
        return self.usable_sram_limit - self.used_sram

    def has_sram_overflow(self) -> bool:
        return self.peak_sram_usage >= self.usable_sram_limit

    def max_evictions_required(self) -> int:
        return sum(used >= self.usable_sram_limit for used in self.sram_usage_at.values())

    def log(self, message: str) -> None:
        self.logs += message
        if self.verbose:
            print(message, end="")


def check_sram_overflow(mm: MemoryManager) -> bool:
    return mm.has_sram_overflow()


def analysed(program: Program, chip: DeviceSpec, *, placed: bool, verbose: bool = True) -> MemoryManager:
    """The body's tensors in on-chip memory from when they are made to their last use: all of them, or with `placed`
    those that the compiler put there; the others are in DRAM then. Weights are in DRAM."""
    mm = MemoryManager(chip, verbose)
    counted = {n for step in program.body for n in step.outputs if _counts(program, n, placed)}
    last = {name: step for step in program.body if step.kernel != DEALLOCATE for name in (*step.outputs, *step.uses)}
    ids: dict[str, int] = {}
    for step in program.body:
        if step.kernel == DEALLOCATE:
            continue
        for name in step.outputs:
            if name in counted:
                ids[name] = len(ids) + 1
                mm.tensor_size_of[ids[name]] = program.specs[name].nbytes
                mm.tensors_on_device.append(ids[name])
                mm.used_sram += program.specs[name].nbytes
        _note(mm, step, ids)
        for name in (*step.uses, *step.outputs):
            if name in ids and last[name] is step and ids[name] in mm.tensors_on_device:
                mm.tensors_on_device.remove(ids[name])
                mm.used_sram -= mm.tensor_size_of[ids[name]]
    return mm


def _counts(program: Program, name: str, placed: bool) -> bool:
    memory = program.specs[name].memory
    return memory != HOST and (memory.buffer == "l1" or not placed)


def _note(mm: MemoryManager, step: Step, ids: dict[str, int]) -> None:
    name = step.outputs[0] if step.outputs else step.kernel
    held = [(tensor, mm.tensor_size_of[tensor]) for tensor in mm.tensors_on_device]
    mm.sram_usage_at[name], mm.tids_in_sram_at[name] = mm.used_sram, list(mm.tensors_on_device)
    mm.ops_mem_usage[name] = sum(mm.tensor_size_of[ids[n]] for n in {*step.uses, *step.outputs} if n in ids)
    mm.data_points[str((name, ids.get(name, 0)))] = held
    mm.peak_sram_usage = max(mm.peak_sram_usage, mm.used_sram)
    mm.log(f"{step.kernel} gives {name}: {mm.used_sram} of {mm.usable_sram_limit} bytes of SRAM are used\n")
