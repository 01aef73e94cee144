"""What tt-metal's profiler calls each device operation: the class that runs it."""

from __future__ import annotations

from proveout.chip.device_op import DeviceOp
from proveout.chip.families import FORMS

SUFFIX = "DeviceOperation"
WHOLE = ("Pool2D",)
"""Classes whose names end in neither `DeviceOperation` nor `Operation`."""


def op_code(op: DeviceOp) -> str:
    """The OP CODE of one device operation: as its kernel's row says, else its family's usual one."""
    code = op.code or FORMS[op.family].codes[0]
    return code if code.endswith("Operation") or code in WHOLE else f"{code}{SUFFIX}"
