"""The perf sheet: one call of each recorded Program as rows, one for each device operation, transfer and host op.

Every time in it is modelled. A device operation has its kernel's predicted time with an interval, tt-metal's PM ideal
beside it, and the wait before it: the gap between operations, or the host's dispatch where that is slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from proveout.chip.time import HOST_NS, TRACED_GAP_NS, DeviceOp, TimeEstimate, kernel_time
from proveout.kernels.cost import ProgramTime, StepTime, program_time, step_device_ops, step_times
from proveout.kernels.op_codes import op_code
from proveout.program import Ref, Step
from proveout.recording import Recorded
from proveout.types import DeviceSpec, TensorSpec

Kind = Literal["device", "transfer", "host"]
USUAL = 1
"""Position of the usual value among (low, usual, high)."""


@dataclass(frozen=True)
class SheetRow:
    """One line of the sheet."""

    kind: Kind
    code: str
    """tt-metal's name of a device operation, ttnn's of a transfer, ATen's of a host op."""
    step: Step
    program: int
    """Position of its Program in the sheet."""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    start_ns: int = 0
    wait_ns: int = 0
    time: TimeEstimate = TimeEstimate(0, 0, 0)
    ideal_ns: int = 0
    compute_ns: int = 0
    bandwidth_ns: int = 0
    fidelity: str = ""
    op: DeviceOp | None = None

    @property
    def bound(self) -> str:
        """What ttnn's performance model says limits it."""
        if self.kind != "device":
            return ""
        return "compute" if self.compute_ns >= self.bandwidth_ns else "bandwidth"

    def utilisation(self, chip: DeviceSpec) -> float | None:
        """(PM ideal ÷ kernel duration) × (grid cores ÷ core count): of the cores it runs on."""
        if self.kind != "device" or not self.time.ns or not self.time.cores:
            return None
        return self.ideal_ns / self.time.ns * chip.cores / self.time.cores

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """The call's arguments that are no tensors, as text."""
        return tuple((k, plain(v)) for k, v in self.step.attrs if v is not None and not _has_ref(v))


@dataclass(frozen=True)
class Sheet:
    """The rows of one call of every Program, in order."""

    name: str
    device: str
    chip: DeviceSpec
    recorded: tuple[Recorded, ...]
    rows: tuple[SheetRow, ...]
    times: tuple[ProgramTime, ...]
    """Of each Program, as its plan has it."""
    num_breaks: int = 0
    """Graph breaks of the model: what runs there is in no Program."""

    @property
    def device_rows(self) -> tuple[SheetRow, ...]:
        return tuple(row for row in self.rows if row.kind == "device")

    @property
    def kernel_ns(self) -> int:
        return sum(row.time.ns for row in self.device_rows)

    @property
    def wait_ns(self) -> int:
        return sum(row.wait_ns for row in self.device_rows)

    @property
    def transfer_ns(self) -> int:
        return sum(row.time.ns for row in self.rows if row.kind == "transfer")

    @property
    def total_ns(self) -> int:
        """On the chip, transfers included; what ops on the host take is not in it."""
        return sum(time.ns for time in self.times)

    @property
    def num_hosted(self) -> int:
        return sum(row.kind == "host" for row in self.rows)


def make_sheet(name: str, recorded: Sequence[Recorded], num_breaks: int = 0) -> Sheet:
    """The sheet over some Programs of one device; each counts once, however often it was called."""
    rows: list[SheetRow] = []
    for number, one in enumerate(recorded):
        start = rows[-1].start_ns + rows[-1].time.ns if rows else 0
        rows += _rows(one, number, start)
    times = tuple(program_time(step_times(r.program, r.chip, r.settings), r.settings) for r in recorded)
    first = recorded[0]
    return Sheet(name, first.device, first.chip, tuple(recorded), tuple(rows), times, num_breaks)


def _rows(recorded: Recorded, number: int, start_ns: int) -> list[SheetRow]:
    """Of several chips, which run alike, the first one's."""
    program, chip, settings = recorded.program, recorded.chip, recorded.settings
    times = {id(time.step): time for time in step_times(program, chip, settings)}
    rows: list[SheetRow] = []
    now = start_ns
    for step in program.body:
        inputs = tuple(program.specs[n] for n in step.uses)
        outputs = tuple(program.specs[n] for n in step.outputs)
        time = times.get(id(step))
        if step.on_host:
            rows.append(SheetRow("host", step.kernel, step, number, inputs, outputs, now))
        elif time is not None and time.kernel is None:
            taken = TimeEstimate(time.ns, time.low_ns, time.high_ns, time.calibrated_ns == time.ns)
            rows.append(SheetRow("transfer", step.kernel, step, number, inputs, outputs, now, time=taken))
            now += time.ns
        elif time is not None:
            wait = _wait(time.ns, settings.trace)
            for op, estimate in timed_ops(time, recorded):
                row = _device_row(step, number, op, estimate, chip, now + wait, wait)
                rows.append(row)
                now, wait = row.start_ns + row.time.ns, 0
    return rows


def timed_ops(time: StepTime, recorded: Recorded) -> list[tuple[DeviceOp, TimeEstimate]]:
    """The device operations of one call with their times; the wire between chips is part of the last one's."""
    assert time.kernel is not None
    ops = step_device_ops(time.step, recorded.program.specs, recorded.chip, recorded.settings)
    estimates = [estimate for _, estimate in time.kernel.ops]
    for wire in estimates[len(ops) :]:
        last = estimates[len(ops) - 1]
        added = {name: getattr(last, name) + getattr(wire, name) for name in ("ns", "low_ns", "high_ns")}
        estimates[len(ops) - 1] = replace(last, calibrated=last.calibrated and wire.calibrated, **added)
    return list(zip(ops, estimates))


def _wait(kernels_ns: int, traced: bool) -> int:
    """Before the kernels of one call: the gap, or as long as the host needs to dispatch it."""
    dispatch = 0 if traced else HOST_NS[USUAL]
    return max(kernels_ns + TRACED_GAP_NS[USUAL], dispatch) - kernels_ns


def _device_row(
    step: Step, number: int, op: DeviceOp, estimate: TimeEstimate, chip: DeviceSpec, start_ns: int, wait_ns: int
) -> SheetRow:
    time = kernel_time(op.work, [*op.inputs, *op.outputs], chip, op.fidelity, (op,))
    return SheetRow(
        "device",
        op_code(op),
        step,
        number,
        op.inputs,
        op.outputs,
        start_ns,
        wait_ns,
        estimate,
        time.ideal_ns,
        time.compute_ns,
        time.bandwidth_ns,
        op.fidelity if op.work.phased else "",
        op,
    )


def plain(value: Any) -> str:
    """An argument as text: `(3;3)` for a pair, since tt-metal's sheet keeps commas for its columns."""
    if isinstance(value, tuple):
        return f"({';'.join(map(plain, value))})"
    return str(value).replace(",", ";")


def _has_ref(value: Any) -> bool:
    return isinstance(value, Ref) or (isinstance(value, tuple) and any(map(_has_ref, value)))
