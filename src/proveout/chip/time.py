"""How long a kernel takes on a chip: PM ideal as ttnn computes it, and a prediction with its interval. Always modelled.

A prediction is `calibrated` where published measurements of its form, on its architecture and of about its size stand
behind it, and its interval held for rows of sources that had no say in it. Elsewhere it rests on few rows, on the other
chip's or on the engines' rates, is `uncalibrated`, and its interval is wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proveout.chip import calibration, matmul
from proveout.chip.device_op import MATRIX, POOL, REDUCE, VECTOR, DeviceOp, Work
from proveout.chip.families import KIN, cores_of, features_of, form_of, predict
from proveout.chip.fidelity import PHASES, default_fidelity
from proveout.chip.forms.products import fused, product_of, told_blocks
from proveout.chip.program_config import blocks_for
from proveout.types import DeviceSpec, TensorSpec

__all__ = [
    "MATRIX", "PHASES", "POOL", "REDUCE", "VECTOR", "DeviceOp", "KernelTime", "TimeEstimate", "Work",
    "default_fidelity", "device_op_time", "ethernet_time", "kernel_time", "product_call_time", "summed", "together",
    "transfer_time",
]  # fmt: skip

LAUNCH_NS = 1_000
"""Fixed cost of a transfer: the command and its completion."""
TRACED_GAP_NS = (650, 1_000, 2_050)
"""Between two ops inside a trace: low, usual, high (published op-to-op figures)."""
HOST_NS = (20_000, 30_000, 50_000)
"""Host time of one op dispatched from Python: low, usual, high."""
ETHERNET_GB_S = 25.0
"""Between two chips: two links of 100 Gb/s, as inside an n300. No measurement backs it."""


@dataclass(frozen=True)
class TimeEstimate:
    """A predicted time in ns, its interval, and whether measurements back it."""

    ns: int
    low_ns: int
    high_ns: int
    calibrated: bool = False
    cores: int = 0


@dataclass(frozen=True)
class KernelTime:
    """Modelled times of one Step on one chip, in ns."""

    ideal_ns: int
    compute_ns: int
    bandwidth_ns: int
    kernel_ns: int
    low_ns: int
    high_ns: int
    calibrated_ns: int
    """The part of `kernel_ns` that measurements back."""
    cores: int = 0
    ops: tuple[tuple[str, TimeEstimate], ...] = ()
    """Family and time of each device operation, in order."""

    @property
    def bound(self) -> str:
        return "compute" if self.compute_ns >= self.bandwidth_ns else "bandwidth"

    @property
    def calibrated(self) -> bool:
        return self.calibrated_ns == self.kernel_ns


def kernel_time(
    work: Work, tensors: Sequence[TensorSpec], chip: DeviceSpec, fidelity: str, ops: tuple[DeviceOp, ...] | None = None
) -> KernelTime:
    """PM ideal (quirks included: one tensor, the largest, is the bandwidth time) and the prediction, summed over the
    device operations that the call becomes: none where it only renames, one of no known family where not told."""
    phases = PHASES[fidelity] if work.phased else 1
    compute_ns = math.ceil(work.ops / (work.rate * chip.cores) * phases / chip.clock_ghz)
    peak = chip.pm_dram_gib_s * 2**30
    bandwidth_ns = max((1 if t.memory.buffer == "l1" else math.ceil(t.nbytes / peak * 1e9) for t in tensors), default=0)
    if ops is None:
        ops = (DeviceOp("other", tuple(tensors[:-1]), tuple(tensors[-1:]), work, fidelity),) if tensors else ()
    times = [device_op_time(op, chip) for op in ops]
    by_family = tuple((op.family, time) for op, time in zip(ops, times, strict=True))
    low_ns, high_ns = (times[0].low_ns, times[0].high_ns) if len(times) == 1 else together(by_family)
    return KernelTime(
        ideal_ns=max(compute_ns, bandwidth_ns),
        compute_ns=compute_ns,
        bandwidth_ns=bandwidth_ns,
        kernel_ns=sum(t.ns for t in times),
        low_ns=low_ns,
        high_ns=high_ns,
        calibrated_ns=sum(t.ns for t in times if t.calibrated),
        cores=max((t.cores for t in times), default=0),
        ops=by_family,
    )


def together(parts: Iterable[tuple[str, TimeEstimate]]) -> tuple[int, int]:
    """The interval of a sum. Errors of one family go one way, and add up; those of different families are independent
    but for a share that they have in common, found on whole profiles of models that were left out."""
    total = 0
    below: dict[str, int] = {}
    above: dict[str, int] = {}
    for family, time in parts:
        total += time.ns
        below[family] = below.get(family, 0) + time.ns - time.low_ns
        above[family] = above.get(family, 0) + time.high_ns - time.ns
    shared = calibration.shared_error()
    low, high = (summed(widths.values(), shared) for widths in (below, above))
    return round(max(0.0, total - low)), round(total + high)


def summed(widths: Iterable[float], shared: float) -> float:
    """The width of a sum of errors that are independent but for a share in common."""
    values = list(widths)
    return math.sqrt((1 - shared) * sum(w * w for w in values) + shared * sum(values) ** 2)


def device_op_time(op: DeviceOp, chip: DeviceSpec) -> TimeEstimate:
    """The predicted kernel time of one device operation; of a call that the host timed, the call's."""
    form = form_of(op, chip)
    if form == "2D product" and op.cores is None:  # a profile that tells its cores is judged by its own form
        wide = _wide_product_time(op, chip)
        if wide is not None:
            return wide
    predicted_ns = float(predict(features_of(op, chip), calibration.costs(form, chip.arch)))
    mode = calibration.HOST if op.param("host") else calibration.KERNEL
    backing = None if op.code in KIN else calibration.backing(form, chip, mode)
    return _estimate(predicted_ns, predicted_ns, op, chip, backing)


def _wide_product_time(op: DeviceOp, chip: DeviceSpec) -> TimeEstimate | None:
    """Two-dimensional multicast in whole K blocks, of sizes in the published tables of large products; None for others.
    Those tables have configs of ttnn's own choice, all from DRAM, and hand-made ones, from DRAM and from shards."""
    product = product_of(op)
    blocks = told_blocks(op, chip)
    if blocks.kind != "2d" or blocks.k < 2 or product.batch > 1:
        return None
    mode = "tuned" if product.sharded or op.param("program") else "out of the box"
    parameters = calibration.matmul_parameters(chip.arch, mode)
    predicted_ns = float(matmul.kernel_ns(matmul.features(product, blocks), parameters, chip.clock_ghz))
    inside = calibration.costs("2D product", chip.arch)
    predicted_ns += sum(n * inside[name] for name, n in fused(op, blocks.m * blocks.n).items()) / chip.clock_ghz
    backing = calibration.backing("matmul", chip, mode)
    size = product.m * product.k * product.n
    if backing is not None and not backing.reaches(size):
        return None
    return _estimate(predicted_ns, size, op, chip, backing and backing.elsewhere())


def product_call_time(product: matmul.Product, chip: DeviceSpec, tuned: bool, traced: bool) -> TimeEstimate:
    """One call of a matrix product among many, as tables of products time it: with the gap, or the host's pace."""
    mode = "tuned" if tuned else "out of the box"
    features = matmul.features(product, blocks_for(product, chip, tuned))
    features |= {"ghz": chip.clock_ghz, "traced": float(traced)}
    predicted_ns = float(matmul.call_ns(features, calibration.matmul_parameters(chip.arch, mode)))
    backing = calibration.backing("matmul", chip, mode)
    return _interval(predicted_ns, product.m * product.k * product.n, backing)


def _estimate(
    predicted: float, size: float, op: DeviceOp, chip: DeviceSpec, backing: calibration.Backing | None
) -> TimeEstimate:
    """No faster than the arithmetic at the engine's own rate."""
    floor = op.engine_cycles(chip) / chip.clock_ghz
    estimate = _interval(max(predicted, floor), size, backing)
    least = math.ceil(floor)
    ns, low_ns, high_ns = (max(value, least) for value in (estimate.ns, estimate.low_ns, estimate.high_ns))
    return TimeEstimate(ns, low_ns, high_ns, estimate.calibrated, cores_of(op, chip))


def _interval(ns: float, size: float, backing: calibration.Backing | None) -> TimeEstimate:
    """As wide as left-out rows of its form were off; far from any measured size, as what no table backs."""
    low, high = calibration.uncalibrated()
    covered = backing is not None and backing.covers(size)
    if backing is not None and backing.reaches(size):
        low, high = backing.low, backing.high
    return TimeEstimate(round(ns), min(round(ns), round(ns * low)), max(round(ns), round(ns * high)), covered)


def transfer_time(spec: TensorSpec, chip: DeviceSpec, to_device: bool) -> TimeEstimate:
    """One transfer over PCIe: the bus, or the host's work on each page where pages are small."""
    rate = chip.pcie_write_gb_s if to_device else chip.pcie_read_gb_s
    moving = max(spec.nbytes / rate, spec.num_pages * calibration.page_ns(chip.arch, to_device))
    ns = LAUNCH_NS + math.ceil(moving)
    known = calibration.transfer_interval(chip.arch, to_device)
    low, high = known or calibration.uncalibrated()
    return TimeEstimate(ns, min(ns, round(ns * low)), max(ns, round(ns * high)), known is not None)


def ethernet_time(nbytes: float) -> TimeEstimate:
    """What one chip receives from others, at the links' rate; uncalibrated."""
    return _interval(math.ceil(nbytes / ETHERNET_GB_S), 0.0, None)
