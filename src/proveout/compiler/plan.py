"""What a Program will cost on a chip, told without running it: time per Step, memory at its peak. Modelled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from proveout.compiler.memory.remedies import program_remedies, with_remedies
from proveout.kernels.cost import ProgramTime, StepTime, memory_use, program_time, step_times
from proveout.program import Program
from proveout.types import DeviceSpec, MemoryUse, Settings


@dataclass(frozen=True)
class Plan:
    """Modelled figures of one Program on one chip."""

    chip: str
    time: ProgramTime
    steps: tuple[StepTime, ...]
    memory: MemoryUse

    def __str__(self) -> str:
        return f"{self.chip}: {self.time}"

    @property
    def total_ns(self) -> int:
        return self.time.ns

    @property
    def ideal_ns(self) -> int:
        """ttnn's performance-model ideal, summed over the kernels."""
        return sum(t.kernel.ideal_ns for t in self.steps if t.kernel)


def make_plan(program: Program, chip: DeviceSpec, settings: Settings, remedies: Iterable[str] | None = None) -> Plan:
    """Plan a Program; for one that does not fit, `peak_at` says what is short and what would fit."""
    times, memory = step_times(program, chip, settings), memory_use(program, chip, settings)
    if not memory.fits:
        tried = program_remedies(program, chip, settings) if remedies is None else remedies
        memory = replace(memory, peak_at=with_remedies(memory.peak_at, tried))
    return Plan(chip.name, program_time(times, settings), tuple(times), memory)
