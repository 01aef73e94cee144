"""The embedded software model of a Tenstorrent chip: torch computes the numbers, `chip` predicts time and memory.

`fast` numerics: torch's own bfloat16 and float32 kernels. All times are modelled.
"""

from __future__ import annotations

from proveout.chip.specs import CHIPS
from proveout.devices.resident import Resident
from proveout.errors import DeviceError, OutOfMemory
from proveout.kernels.cost import memory_use, program_ns, step_times
from proveout.program import Program
from proveout.types import DeviceSpec, Settings


class Sim:
    """One modelled board, of one chip or several."""

    def __init__(self, chip: str = "n150") -> None:
        self.name = f"sim:{chip}"
        self.spec: DeviceSpec = CHIPS[chip]

    def load(self, program: Program, settings: Settings) -> Resident:
        if program.chips > self.spec.chips:
            raise DeviceError(
                f"the Program is for {program.chips} chips and {self.name} has {self.spec.chips}. "
                "Compile it for this device, or with parallel='none'."
            )
        memory = memory_use(program, self.spec)
        if not memory.fits:
            raise OutOfMemory(memory.peak_at)
        return Resident(program, program_ns(step_times(program, self.spec, settings), settings))

    def close(self) -> None:
        """Nothing is held outside the loaded Programs."""
