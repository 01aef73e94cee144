"""The embedded software model of a Tenstorrent chip: torch computes the numbers, `chip` predicts time and memory.

Numerics are `fast` (torch's own bfloat16 and float32 kernels) or `faithful` (the chip's rules, bit by bit, where they
are known). All times are modelled.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from proveout.chip.specs import CHIPS
from proveout.devices.execute import check_chips
from proveout.devices.resident import Resident
from proveout.errors import OutOfMemory
from proveout.kernels.cost import memory_use, program_ns, step_times
from proveout.kernels.faithful import faithful
from proveout.program import Program
from proveout.types import DeviceSpec, Settings


class Sim:
    """One modelled board, of one chip or several."""

    def __init__(self, chip: str | DeviceSpec = "n150", numerics: Literal["fast", "faithful"] = "fast") -> None:
        """A chip we know by its name, or any other as data."""
        self.spec: DeviceSpec = CHIPS[chip] if isinstance(chip, str) else chip
        self.name = f"sim:{self.spec.name}"
        self.numerics = numerics
        """Of calls made one by one; a Program says its own in its settings."""

    def load(self, program: Program, settings: Settings) -> Resident:
        check_chips(program, self.name, self.spec.chips)
        memory = memory_use(program, self.spec, settings)
        if not memory.fits:
            raise OutOfMemory(memory.peak_at)
        meanings = None
        if settings.numerics == "faithful":
            meanings = partial(faithful, specs=program.specs, chip=self.spec, fidelity=settings.math_fidelity)
        ns = program_ns(step_times(program, self.spec, settings), settings)
        return Resident(program, ns, meanings=meanings)

    def close(self) -> None:
        """Nothing is held outside the loaded Programs."""
