"""Kernels whose own buffers are larger than a core's whole L1: nothing makes room for those, so the host runs them."""

from __future__ import annotations

from proveout.kernels.cost import arenas, circular_bytes
from proveout.kernels.table import kind_of
from proveout.program import Program
from proveout.reasons import Kind, Reason
from proveout.types import DeviceSpec, Settings

TOO_LARGE = Kind(
    "larger-than-l1",
    "{kernel} needs {needed} B of each core's L1 for its own buffers, and there are {free} B",
    "a smaller call: fewer channels in a group, a smaller window, or a chip with more L1",
)


def too_large(program: Program, chip: DeviceSpec, settings: Settings) -> dict[str, Reason]:
    """The nodes whose kernels fit no core even while nothing else lies there, each with the reason."""
    empty = arenas(chip, settings)["l1"]
    reasons = {}
    for step in program.steps:
        if step.on_host or not step.origin.node or kind_of(step) == "piece":
            continue
        needed = circular_bytes(step, program.specs, chip)
        if empty.refusal(step.kernel, needed):
            reasons[step.origin.node] = TOO_LARGE(kernel=step.kernel, needed=needed, free=chip.l1_room)
    return reasons
