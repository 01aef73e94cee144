"""What would make a call quicker: every change is planned again, and only those that save time are told.

Changes are ranked by what they save on top of those before them: a lower fidelity saves nothing while the host's
dispatch is what the chip waits for, and a lot inside a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from proveout.chip import calibration, matmul
from proveout.chip.features import product_of
from proveout.chip.program_config import blocks_for
from proveout.chip.time import DeviceOp, device_op_time
from proveout.kernels.cost import StepTime, program_time, step_times
from proveout.program import FROM_TORCH, TO_TORCH, Step
from proveout.recording import Recorded
from proveout.report.perf.sheet import timed_ops
from proveout.types import DeviceSpec, Memory

LEAST = 0.002
"""Share of the call's time below which a saving is not worth a line."""
PLACES = 3
"""Places in the model that a line names."""

OpNs = Callable[[DeviceOp, DeviceSpec, int, str], int | None]
"""(operation, chip, its position in its call, the call) to the ns it takes after a change; None where it stays."""


@dataclass(frozen=True)
class Advice:
    """One change, and what the plan says it saves. Modelled."""

    change: str
    saves_ns: int
    """On top of the changes before it."""
    alone_ns: int
    """Without them; 0 where it saves nothing by itself."""
    then_ns: int
    """The time of one call of every Program with this change and those before it."""
    how: str = ""
    """What to type or to write."""
    places: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The calls that gain the most: `ttnn.linear in blocks.0.up, model.py:19`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What makes the compiler do it; empty where it is done by hand, as `how` says."""


@dataclass(frozen=True)
class Change:
    """A change of settings, of single device operations, or one whose saving is known already."""

    title: str
    how: str
    settings: dict[str, Any] = field(default_factory=dict)
    applies: Callable[[Recorded], bool] = lambda recorded: True
    op_ns: OpNs | None = None
    sets: dict[str, Any] = field(default_factory=dict)
    """Of a change of single operations: the settings under which the compiler makes it where that pays."""
    saved_ns: int = 0
    modules: tuple[str, ...] = ()
    """Where it is, of a change whose saving is known already."""


def advise(recorded: Sequence[Recorded]) -> tuple[Advice, ...]:
    """Changes worth making, the one that saves the most first, each next one on top of those before it."""
    left = [*CHANGES, *_host_ops(recorded)]
    done: list[Change] = []
    whole = now = _total(recorded, ())
    advices: list[Advice] = []
    while left:
        after = {id(change): _total(recorded, (*done, change)) for change in left}
        best = min(left, key=lambda change: after[id(change)])
        saved = now - after[id(best)]
        if saved < max(1, LEAST * whole):
            break
        alone = max(0, whole - _total(recorded, (best,)))
        now = after[id(best)]
        places = [*best.modules, *(p for r in recorded if best.op_ns for p in _places(r, best.op_ns))]
        gains = [gain for r in recorded if best.op_ns for gain in _gains(r, best.op_ns)]
        calls = dict.fromkeys(_call(step) for _, step in sorted(gains, key=lambda gain: -gain[0]))
        names = tuple(dict.fromkeys(places))
        settings = best.settings or best.sets
        advices.append(Advice(best.title, saved, alone, now, best.how, names, tuple(calls)[:PLACES], settings))
        left.remove(best)
        done.append(best)
    return tuple(advices)


def call_ns(recorded: Sequence[Recorded]) -> int:
    """One call of every Program as it was recorded."""
    return _total(recorded, ())


def predicted_ns(recorded: Sequence[Recorded], advices: Sequence[Advice]) -> int:
    """One call of every Program with these changes alone."""
    titles = [advice.change for advice in advices]
    return _total(recorded, [change for change in CHANGES if change.title in titles])


def _total(recorded: Sequence[Recorded], changes: Sequence[Change]) -> int:
    return sum(_planned(one, changes) for one in recorded) - sum(change.saved_ns for change in changes)


def _planned(recorded: Recorded, changes: Sequence[Change]) -> int:
    """One call of a Program, planned again with these changes; a change that does not apply to it leaves it be."""
    applied = [change for change in changes if change.applies(recorded)]
    settings, program = recorded.settings, recorded.program
    for change in applied:
        chosen = replace(settings, **change.settings)
        other = recorded.under(chosen)
        if other is not None:
            settings, program = chosen, other
    again = replace(recorded, settings=settings, program=program)
    times = _rewritten(again, [change.op_ns for change in applied if change.op_ns is not None])
    return program_time(times, settings).ns


# ----------------------------------------------------------------------------------------------- settings


def _untraced(recorded: Recorded) -> bool:
    """Between host ops too: a capture holds no transfer and nothing of the host, so each stretch has its own."""
    return not recorded.settings.trace


def _has_transfers(recorded: Recorded) -> bool:
    return recorded.settings.queues == 1 and any(s.kernel in (FROM_TORCH, TO_TORCH) for s in recorded.program.body)


def _above_lofi(recorded: Recorded) -> bool:
    return recorded.settings.math_fidelity != "LoFi"


def _differs(name: str, value: Any) -> Callable[[Recorded], bool]:
    def applies(recorded: Recorded) -> bool:
        chosen = replace(recorded.settings, **{name: value})
        return chosen != recorded.settings and recorded.under(chosen) is not None

    return applies


def _set(name: str, value: str) -> str:
    return f"--set {name}={value}"


# ----------------------------------------------------------------------------------- device operations


def _rewritten(recorded: Recorded, changes: Sequence[OpNs]) -> list[StepTime]:
    """The Steps' times with each device operation as fast as the quickest of these changes makes it."""
    rewritten = []
    for time in step_times(recorded.program, recorded.chip, recorded.settings):
        if time.kernel is not None and changes:
            ns = 0
            for index, (op, estimate) in enumerate(timed_ops(time, recorded)):
                after = [change(op, recorded.chip, index, time.step.kernel) for change in changes]
                ns += min([estimate.ns, *(value for value in after if value is not None)])
            time = replace(time, ns=ns, low_ns=min(time.low_ns, ns), high_ns=max(ns, time.high_ns))
        rewritten.append(time)
    return rewritten


def _places(recorded: Recorded, change: OpNs) -> Iterator[str]:
    """The modules where a change saves time, the most first."""
    yield from (step.origin.module or "the model itself" for _, step in _gains(recorded, change))


def _gains(recorded: Recorded, change: OpNs) -> list[tuple[int, Step]]:
    """What each call gains by a change, the most first."""
    pairs = zip(_rewritten(recorded, ()), _rewritten(recorded, (change,)), strict=True)
    gains = sorted(((before.ns - after.ns, after.step) for before, after in pairs), key=lambda gain: -gain[0])
    return [(gain, step) for gain, step in gains if gain > 0]


def _call(step: Step) -> str:
    """A call in words: the kernel, the module that asks for it, and the user's line."""
    line = f", {PurePath(step.origin.source).name}" if step.origin.source else ""
    return f"{step.kernel} in {step.origin.module or 'the model itself'}{line}"


def _tuned_ns(op: DeviceOp, chip: DeviceSpec, index: int, kernel: str) -> int | None:
    """A product with the blocks of the published hand-tuned configs."""
    if op.family != "matmul":
        return None
    product = product_of(op)
    blocks = blocks_for(product, chip, tuned=True)
    backing = calibration.backing("matmul", chip, "tuned")
    covered = backing is not None and backing.covers(product.m * product.k * product.n)
    if not covered or blocks.kind != "2d" or blocks.k < 2 or product.batch > 1:
        return None  # no hand-tuned measurement stands behind it
    parameters = calibration.matmul_parameters(chip.arch, "tuned")
    ns = float(matmul.kernel_ns(matmul.features(product, blocks), parameters, chip.clock_ghz))
    return round(max(ns, op.engine_cycles(chip) / chip.clock_ghz))


def _fused_ns(op: DeviceOp, chip: DeviceSpec, index: int, kernel: str) -> int | None:
    """With a program config the activation of a linear runs inside the product."""
    return 0 if kernel == "ttnn.linear" and index > 0 and op.family == "unary" else None


WIDE = Memory("l1", "block")


def over_all_cores_ns(op: DeviceOp, chip: DeviceSpec, index: int, kernel: str) -> int | None:
    """A norm or a softmax whose rows are cut over all cores, as a sharded memory config does."""
    if op.family not in ("layer norm", "softmax") or op.out.memory.sharding != "interleaved":
        return None
    pieces = min(chip.cores, max(op.out.num_pages, 1))
    source, out = (replace(t, memory=WIDE) for t in (op.first, op.out))
    return device_op_time(replace(op, inputs=(source, *op.inputs[1:]), outputs=(out,), cores=pieces), chip).ns


def _same_layout_ns(op: DeviceOp, chip: DeviceSpec, index: int, kernel: str) -> int | None:
    """Every tensor comes in the layout that its reader takes."""
    return 0 if kernel == "ttnn.to_layout" else None


CHANGES: tuple[Change, ...] = (
    Change("capture a trace", "--trace (one for each stretch between host ops)", {"trace": True}, _untraced),
    Change("a second queue for the transfers", "--queues 2", {"queues": 2}, _has_transfers),
    Change(
        "math fidelity LoFi",
        f"{_set('math_fidelity', 'LoFi')}; check the PCC",
        {"math_fidelity": "LoFi"},
        _above_lofi,
    ),
    Change(
        "weights in bfloat8_b",
        f"{_set('weights', 'bfloat8_b')}; check the PCC",
        {"weights": "bfloat8_b"},
        _differs("weights", "bfloat8_b"),
    ),
    Change(
        "everything in bfloat16",
        "--precision bfloat16; check the PCC",
        {"precision": "bfloat16"},
        _differs("precision", "bfloat16"),
    ),
    Change("results in L1", _set("memory", "auto"), {"memory": "auto"}, _differs("memory", "auto")),
    Change(
        "hand-tuned program configs for matrix products",
        f"{_set('products', 'configured')} where that pays, or program_config in these calls, in ttnn_model.py",
        op_ns=_tuned_ns,
        sets={"products": "configured"},
    ),
    Change(
        "activations inside their matrix products",
        f"{_set('products', 'configured')} where that pays, or fused_activation in the program_config of these calls",
        op_ns=_fused_ns,
        sets={"products": "configured"},
    ),
    Change(
        "norms and softmaxes over all cores",
        f"{_set('sharding', 'norms')} for norms where that pays, or a sharded memory_config in these calls",
        op_ns=over_all_cores_ns,
        sets={"sharding": "norms"},
    ),
    Change(
        "keep one layout between these ops",
        "where the call before it can give the layout that its reader takes; this is the most it saves",
        op_ns=_same_layout_ns,
    ),
)


def _host_ops(recorded: Sequence[Recorded]) -> list[Change]:
    """Ops on the host, as the fallback ledger ranks them; what their own kernels would take is not counted."""
    lines = [line for one in recorded for line in one.fallbacks if (line.saved_ns or 0) > 0]
    return [
        Change(
            f"{line.aten} on the device (its transfers go; its kernel's time is not counted)",
            line.fix,
            saved_ns=line.saved_ns or 0,
            modules=line.modules,
        )
        for line in lines
    ]
