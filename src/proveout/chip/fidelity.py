"""Math fidelity: how many passes the multiplier makes over its operands' significands, and what ttnn chooses."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.types import DeviceSpec

PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}

BLOCK_FLOATS = frozenset({"bfloat8_b", "bfloat4_b"})


def default_fidelity(dtypes: Sequence[str], chip: DeviceSpec) -> str:
    """What a matrix product of operands of these dtypes uses when nothing is said: HiFi2, LoFi where all are block
    floats, the most exact one where all are float32."""
    if dtypes and BLOCK_FLOATS.issuperset(dtypes):
        return "LoFi"
    if dtypes and set(dtypes) == {"float32"}:
        return "HiFi3" if chip.arch.startswith("wormhole") else "HiFi4"
    return "HiFi2"
