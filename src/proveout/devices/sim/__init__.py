"""The embedded software model of a Tenstorrent chip: torch computes the numbers, `chip` predicts time and memory.

`fast` numerics: torch's own bfloat16 and float32 kernels. All times are modelled.
"""

from __future__ import annotations

from proveout.chip.specs import CHIPS
from proveout.devices.resident import Resident
from proveout.errors import OutOfMemory
from proveout.kernels.cost import memory_use, program_ns, step_times
from proveout.program import Program
from proveout.types import DeviceSpec, Settings


class Sim:
    """One modelled chip."""

    def __init__(self, chip: str | DeviceSpec = "n150") -> None:
        """A chip we know by its name, or any other as data."""
        self.spec: DeviceSpec = CHIPS[chip] if isinstance(chip, str) else chip
        self.name = f"sim:{self.spec.name}"

    def load(self, program: Program, settings: Settings) -> Resident:
        memory = memory_use(program, self.spec)
        if not memory.fits:
            raise OutOfMemory(memory.peak_at)
        return Resident(program, program_ns(step_times(program, self.spec, settings), settings))

    def close(self) -> None:
        """Nothing is held outside the loaded Programs."""
