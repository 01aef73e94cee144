"""How long a kernel takes on a chip: PM ideal as ttnn computes it, and a simple estimate. Always modelled.

The estimate rests on engine rates and round efficiencies, not on measurements: it is `uncalibrated`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from proveout.types import DeviceSpec, TensorSpec

PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}

MATRIX, POOL, REDUCE, VECTOR = 4096, 2048, 256, 128
"""Operations per core and cycle of each engine (a matrix multiply-add counts two)."""

COMPUTE_EFFICIENCY = 0.6
DRAM_EFFICIENCY = 0.75
L1_BYTES_PER_CORE_CYCLE = 32
LAUNCH_NS = 1_000
"""Fixed cost of a kernel on the device: programming the cores and draining the pipeline."""
TRACED_GAP_NS, UNTRACED_GAP_NS = 1_000, 30_000
"""Between two ops: inside a trace, and dispatched from Python (public figures: 0.65–2.05 µs and 20–50 µs)."""


@dataclass(frozen=True)
class Work:
    """What one kernel call computes: `ops` at `rate` per core and cycle; phased engines repeat per fidelity phase."""

    ops: float = 0.0
    rate: int = VECTOR
    phased: bool = False
    then: Work | None = None
    """A second device operation that the same call runs on the first one's result."""


@dataclass(frozen=True)
class KernelTime:
    """Modelled times of one Step on one chip, in ns."""

    ideal_ns: int
    compute_ns: int
    bandwidth_ns: int
    kernel_ns: int

    def __add__(self, then: KernelTime) -> KernelTime:
        """Two device operations of one call, with the gap between them."""
        return KernelTime(
            self.ideal_ns + then.ideal_ns,
            self.compute_ns + then.compute_ns,
            self.bandwidth_ns + then.bandwidth_ns,
            self.kernel_ns + TRACED_GAP_NS + then.kernel_ns,
        )

    @property
    def bound(self) -> str:
        return "compute" if self.compute_ns >= self.bandwidth_ns else "bandwidth"


def kernel_time(work: Work, tensors: Sequence[TensorSpec], chip: DeviceSpec, fidelity: str) -> KernelTime:
    """PM ideal (quirks included: one tensor, the largest, is the bandwidth time) and our estimate."""
    phases = PHASES[fidelity] if work.phased else 1
    compute_ns = math.ceil(work.ops / (work.rate * chip.cores) * phases / chip.clock_ghz)
    peak = chip.pm_dram_gib_s * 2**30
    bandwidth_ns = max((1 if t.memory.buffer == "l1" else math.ceil(t.nbytes / peak * 1e9) for t in tensors), default=0)

    dram = sum(t.nbytes for t in tensors if t.memory.buffer == "dram")
    l1 = sum(t.nbytes for t in tensors if t.memory.buffer == "l1")
    moving_ns = dram / (chip.dram_gb_s * DRAM_EFFICIENCY)
    moving_ns += l1 / (chip.cores * L1_BYTES_PER_CORE_CYCLE * chip.clock_ghz)
    kernel_ns = LAUNCH_NS + math.ceil(max(compute_ns / COMPUTE_EFFICIENCY, moving_ns))
    return KernelTime(max(compute_ns, bandwidth_ns), compute_ns, bandwidth_ns, kernel_ns)


def transfer_ns(spec: TensorSpec, chip: DeviceSpec, to_device: bool) -> int:
    """One transfer over PCIe."""
    rate = chip.pcie_write_gb_s if to_device else chip.pcie_read_gb_s
    return LAUNCH_NS + math.ceil(spec.nbytes / rate)


def default_fidelity(dtypes: Sequence[str], chip: DeviceSpec) -> str:
    """What ttnn uses when nothing is said: HiFi2, LoFi for block floats, the most exact one for float32 operands."""
    if dtypes and set(dtypes) <= {"bfloat8_b", "bfloat4_b"}:
        return "LoFi"
    if "float32" in dtypes:
        return "HiFi3" if chip.arch.startswith("wormhole") else "HiFi4"
    return "HiFi2"
