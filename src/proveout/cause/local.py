"""One pass over a graph by both sides: what each op adds to the error, what it makes of the error that comes in."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proveout.cause.findings import Outlier, Role
from proveout.cause.sides import Pair, as_double
from proveout.check.exact import joined

MAGNIFIES = 2.0
"""From this gain on an op counts as one that magnifies."""
STANDS_OUT = 2.5
"""Times what others of its kind add, from which on an op is named although its share may be small."""
FEW = 2
NOISE = 1e-7
"""An incoming error below float32's own has no gain worth telling."""


@dataclass(frozen=True)
class Local:
    """One op on its own operands."""

    same: bool
    """Whether both sides give the same, bit by bit."""
    adds: float = 0.0
    passed: float = 0.0
    incoming: float = 0.0

    @property
    def gain(self) -> float | None:
        return self.passed / self.incoming if self.incoming > NOISE else None

    @property
    def role(self) -> Role:
        if self.gain is not None and self.gain >= MAGNIFIES and self.passed > self.adds:
            return "magnifies"
        return "adds" if self.adds > self.passed else "passes on"


@dataclass(frozen=True)
class Pass:
    """What one pass by both sides leaves: every value of the device, the ops one by one, both sides' outputs."""

    device: Mapping[str, Any]
    locals: tuple[Local, ...]
    device_outputs: tuple[Any, ...]
    other_outputs: tuple[Any, ...]


def look(pair: Pair, inputs: Sequence[Any]) -> Pass:
    """Run both sides from the inputs on, and every Step of the other side once more on the device's operands."""
    device: dict[str, Any] = dict(zip(pair.inputs, inputs))
    other: dict[str, Any] = dict(device)
    last = {name: i for i, step in enumerate(pair.device.steps) for name in (*step.uses, *step.outputs)}
    findings = []
    with torch.no_grad():
        for index, step in enumerate(pair.device.steps):
            uses = [n for n in step.uses if n in device]
            results = pair.device.run(index, device)
            alone = pair.other.run(index, device)
            untouched = all(device[n] is other[n] for n in uses)
            overall = alone if untouched else pair.other.run(index, other)
            same = all(_same(a, b) for a, b in zip(results, alone))
            findings.append(_local(same, results, alone, overall, [(device[n], other[n]) for n in uses]))
            for name, mine, yours in zip(step.outputs, results, overall):
                device[name] = mine
                other[name] = mine if same and untouched else yours
            for name in (*step.uses, *step.outputs):
                if last[name] == index and name not in pair.outputs:
                    other.pop(name, None)
    ends = [tuple(values[n] for n in pair.outputs) for values in (device, other)]
    return Pass(device, tuple(findings), *ends)


def outlier(pair: Pair, seen: Pass) -> Outlier | None:
    """The op that adds the most for its kind; None where none stands out."""
    adds = {i: local.adds for i, local in enumerate(seen.locals) if not local.same and local.adds > 0}
    ratios = {}
    for index, value in adds.items():
        kernel = pair.device.steps[index].kernel
        alike = [a for i, a in adds.items() if i != index and pair.device.steps[i].kernel == kernel]
        others = alike if len(alike) >= FEW else [a for i, a in adds.items() if i != index]
        if len(others) >= FEW:
            ratios[index] = value / statistics.median(others)
    worst = max(ratios, key=lambda index: ratios[index], default=None)
    if worst is None or ratios[worst] < STANDS_OUT:
        return None
    step = pair.device.steps[worst]
    return Outlier(step.kernel, step.outputs[0], step.origin, worst, adds[worst], ratios[worst])


def _local(
    same: bool, results: Sequence[Any], alone: Sequence[Any], overall: Sequence[Any], operands: Sequence[Any]
) -> Local:
    incoming = max((_relative(mine, yours, yours) for mine, yours in operands if mine is not yours), default=0.0)
    passed = max((_relative(a, o, o) for a, o in zip(alone, overall) if a is not o), default=0.0)
    adds = 0.0 if same else max((_relative(r, a, o) for r, a, o in zip(results, alone, overall)), default=0.0)
    return Local(same, adds, passed, incoming)


def _same(one: Any, two: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return _is_number(one) and bool(one == two)
    return bool(torch.equal(one.to(two.dtype) if one.dtype != two.dtype else one, two))


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _relative(one: Any, two: Any, size: Any) -> float:
    """Relative L2 of the elements that are finite on both sides."""
    if _is_number(one) or _is_number(two):
        return 0.0
    a, b, whole = (_flat(v) for v in (one, two, size))
    if a.shape != b.shape:
        return 0.0
    norm = _norm(whole)
    return _norm(a - b) / norm if norm else 0.0


def _flat(value: Any) -> torch.Tensor:
    """In float32 where that holds it: of half the bytes, and the difference of two near numbers is exact in it."""
    tensor = joined(value).detach()
    narrow = tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.flatten().float() if narrow else as_double(tensor)


def _norm(values: torch.Tensor) -> float:
    """Of the finite elements, summed in float64."""
    norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    if math.isfinite(norm):
        return norm
    return float(torch.linalg.vector_norm(values.nan_to_num(0.0, 0.0, 0.0), dtype=torch.float64))
