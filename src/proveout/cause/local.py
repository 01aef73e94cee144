"""One pass over a graph by both sides: what each op adds to the error, what it makes of the error that comes in."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from proveout.cause.findings import SYSTEMATIC, Role, beyond
from proveout.cause.sides import Change, Formats, Pair, as_double
from proveout.check.exact import joined
from proveout.kernels.arithmetic.formats import pack_bfloat16
from proveout.kernels.blockfloat import FORMATS, quantise
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.table import kind_of, torch_dtype

MAGNIFIES = 2.0
"""From this gain on an op counts as one that magnifies."""
SEVERAL = 2.0
LIKE = (*MATRIX_UNIT, "norm")
"""Kinds of kernels whose ops add about as much as one another."""
LIKELIER, SURE = 0.5, 3.0
"""The multiple of LoFi's error that an op's is: nearer to 1 than to 0, and so many times what it is by chance."""
NOISE = 1e-7
"""An incoming error below float32's own has no gain worth telling."""


@dataclass(frozen=True)
class Local:
    """One op on its own operands."""

    same: bool
    """Whether both sides give the same, bit by bit."""
    adds: float = 0.0
    drift: float = 0.0
    """How much too large its results are throughout, as a part of them."""
    chance: float = 0.0
    """What a drift of so few results may be by chance."""
    passed: float = 0.0
    incoming: float = 0.0
    rounding: float = 0.0
    """What storing an exact result in its format adds, whatever computes it; the usual amount where it happens to add
    none. Where a chip's matrix unit reads float32 operands, what it leaves out of them counts with it."""
    leans: float = 0.0
    """The part of the drift that reading and storing make by a chip's own rules, whatever computes in between."""
    lofi: float = 0.0
    """The part of what it adds that is what LoFi leaves out; 0 of what does not compute as in LoFi."""

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


def look(pair: Pair, inputs: Sequence[Any], phases: bool = True) -> Pass:
    """Run both sides from the inputs on, and every Step of the other side once more on the device's operands. Where the
    device multiplies in `phases`, once more still: products as LoFi would take their weights, and what the matrix unit
    reads float32 operands of, as it reads them."""
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
            around = [(device[n], other[n]) for n in uses]
            read = (pair.read(index, device) if phases and not same else ()) or alone
            local = _local(same, results, alone, overall, around, pair.formats[index], read)
            if phases and not same:
                weighted = functools.partial(pair.weighted, index, device)
                leans = _leaning(local.drift, read, alone, pair.formats[index])
                local = replace(local, lofi=_as_in_lofi(results, alone, weighted), leans=leans)
            findings.append(local)
            for name, mine, yours in zip(step.outputs, results, overall):
                device[name] = mine
                other[name] = mine if same and untouched else yours
            for name in (*step.uses, *step.outputs):
                if last[name] == index and name not in pair.outputs:
                    other.pop(name, None)
    ends = [tuple(values[n] for n in pair.outputs) for values in (device, other)]
    return Pass(device, tuple(findings), *ends)


@dataclass(frozen=True)
class Expected:
    """What an op should add, told before anything is swapped, and how that compares with what it does add."""

    adds: float
    times: float
    """What it adds over that; or, of all numbers too large or too small alike, SYSTEMATIC × as much."""
    drift: float | None
    """How much too large the results of others like it would be for its operands and sums as long as its; None where
    there is none."""
    lofi: float = 0.0
    """The part of what it adds that is there because it computes as in LoFi, where most others do not."""

    @property
    def beyond(self) -> float:
        """The part of what it adds that is not as expected."""
        return beyond(self.times, self.lofi)


def expectations(pair: Pair, seen: Pass) -> dict[int, Expected]:
    """Of every op that differs: what reading its operands and storing an exact result take, or what others like it add
    in this graph to sums as long as its, whichever is more. Like it are those of its kernel, or else of its kind, or
    else, of attention, all on the matrix unit; where there is none, it may round as often as SEVERAL² times on its
    way."""
    adds = {i: local.adds for i, local in enumerate(seen.locals) if local.adds > 0}
    steps, terms = pair.device.steps, [f.terms for f in pair.formats]
    products = [i for i in adds if kind_of(steps[i]) in MATRIX_UNIT]
    out = {}
    for index, local in ((i, seen.locals[i]) for i in adds):
        others = [i for i in adds if i != index]
        groups = (
            [i for i in others if steps[i].kernel == steps[index].kernel],
            [i for i in others if kind_of(steps[i]) == kind_of(steps[index]) in LIKE],
            [i for i in others if terms[i] and terms[index]],
        )
        alike = next(filter(None, groups), [])
        if not alike:
            most = SEVERAL * local.rounding
            out[index] = Expected(most, local.adds / most, None, local.lofi)
            continue
        most = max(local.rounding, _grown([(terms[i], adds[i]) for i in alike], terms[index]))
        near = any(terms[index] <= 2 * terms[i] <= 4 * terms[index] for i in alike)
        drifts = [(terms[i], seen.locals[i].drift - seen.locals[i].leans) for i in alike]
        known = (local.leans + _line(drifts)(terms[index]), local.leans + statistics.median(y for _, y in drifts))
        drift = min(known, key=lambda d: abs(local.drift - d)) if near else None  # one of few may lead a line astray
        off = SYSTEMATIC * (abs(local.drift - drift) - local.chance) if drift is not None else 0.0
        rest = [seen.locals[i].lofi > 0 for i in products if i != index]
        lofi = local.lofi if sum(rest) <= len(rest) / 2 else 0.0
        out[index] = Expected(most, max(local.adds, off) / most, drift, lofi)
    return out


def _line(points: Sequence[tuple[float, float]], least: float = -math.inf) -> Callable[[float], float]:
    """The line through most of the points (Theil and Sen), at least so steep."""
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(points, 2) if a[0] != b[0]]
    slope = max(least, statistics.median(slopes)) if slopes else 0.0
    start = statistics.median(y - slope * x for x, y in points)
    return lambda x: start + slope * x


def _grown(points: Sequence[tuple[float, float]], terms: float) -> float:
    """What sums of so many terms add, by what others add: along a line, since errors of sums in bfloat16 have one sign;
    at least as much as the others usually do, and beyond the longest of them as the root."""
    usual, length = (statistics.median(values[k] for values in points) for k in (1, 0))
    beyond = terms > max(x for x, _ in points)
    return max(usual, _line(points, 0.0)(terms), usual * math.sqrt(terms / length) if beyond and length else 0.0)


def suspicious(expected: Mapping[int, Expected]) -> list[int]:
    """Ops that do not do as they should, the worst first."""
    found = [i for i, one in expected.items() if one.beyond > 0]
    return sorted(found, key=lambda i: (-expected[i].beyond, -expected[i].times))


def _local(
    same: bool,
    results: Sequence[Any],
    alone: Sequence[Any],
    overall: Sequence[Any],
    operands: Sequence[Any],
    formats: Formats,
    read: Sequence[Any],
) -> Local:
    incoming = max((_relative(mine, yours, yours) for mine, yours in operands if mine is not yours), default=0.0)
    passed = max((_relative(a, o, o) for a, o in zip(alone, overall) if a is not o), default=0.0)
    adds = 0.0 if same else max((_relative(r, a, o) for r, a, o in zip(results, alone, overall)), default=0.0)
    drift = 0.0 if same or not results else _drift(results[0], alone[0])
    chance = 2 * adds / math.sqrt(max(_numel(results[0]), 1)) if results else 0.0
    stored = zip(map(_stored, read, formats.results), alone, overall)
    usual = max((_usual(f) for f in (*formats.operands, *formats.results)), default=0.0)
    rounding = 0.0 if same else max((_relative(s, a, o) for s, a, o in stored), default=0.0)
    return Local(same, adds, drift, chance, passed, incoming, max(rounding, usual))


def _usual(dtype: str) -> float:
    """The relative L2 of rounding numbers whose last places are anything."""
    kind = torch.bfloat16 if dtype in FORMATS else torch_dtype(dtype)
    return torch.finfo(kind).eps / math.sqrt(24) if kind.is_floating_point else NOISE


def _stored(value: Any, dtype: str) -> Any:
    """An exact result as its format holds it."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return quantise(value, dtype) if dtype in FORMATS else value.to(torch_dtype(dtype))


def _leaning(drift: float, read: Sequence[Any], exact: Sequence[Any], formats: Formats) -> float:
    """The drift of results that are exact but for reading and storing. One unit of a chip rounds halves to even, the
    other away from zero; whichever is nearer to the op's own drift."""
    if not exact or not isinstance(exact[0], torch.Tensor) or not exact[0].is_floating_point():
        return 0.0
    kept = [_stored(read[0], formats.results[0])]
    if formats.results[0] == "bfloat16":
        kept.append(pack_bfloat16(read[0].float(), fp32_dest=True))
    return min((_drift(k, exact[0]) for k in kept), key=lambda leans: abs(drift - leans))


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


def _numel(value: Any) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 1


def _drift(one: Any, two: Any) -> float:
    """How much larger one is than the other throughout: the part of the other that the difference holds."""
    if _is_number(one) or _is_number(two):
        return 0.0
    a, b = _flat(one).nan_to_num(0.0, 0.0, 0.0), _flat(two).nan_to_num(0.0, 0.0, 0.0)
    whole = _norm(b) ** 2 if a.shape == b.shape else 0.0
    return float(torch.dot(a - b, b)) / whole if whole else 0.0


def _as_in_lofi(results: Sequence[Any], exact: Sequence[Any], weighted: Callable[[Change], Sequence[Any]]) -> float:
    """The part of a product's error that is what LoFi would add; 0 where it does not compute so.

    What LoFi leaves out of each weight has a pattern that no other error of a sum has. The op's error holds it once in
    LoFi and 0 times otherwise, but for chance. What scales the result as a whole does not count: sums in bfloat16 do
    that too."""
    pattern = weighted(_left_out)
    if not pattern:
        return 0.0
    size = _flat(exact[0])
    off, lost = _flat(results[0]) - size, _flat(pattern[0]) - size
    times, chance = _multiple(off, lost, size)
    if times < max(LIKELIER, SURE * chance):
        return 0.0
    return min(1.0, (times * _norm(_flat(weighted(_first_pass)[0]) - size) / _norm(off)) ** 2)


def _multiple(off: torch.Tensor, lost: torch.Tensor, size: torch.Tensor) -> tuple[float, float]:
    """How many times an error holds another one, beside what scales the whole; and what that may be by chance."""
    whole = torch.dot(size, size)
    if not bool(whole) or not bool(torch.isfinite(off).all() and torch.isfinite(lost).all()):
        return 0.0, 0.0
    off, lost = (v - torch.dot(v, size) / whole * size for v in (off, lost))
    norm = _norm(lost)
    if norm <= NOISE * _norm(size):
        return 0.0, 0.0
    times = float(torch.dot(off, lost)) / norm**2
    return times, _norm(off - times * lost) / norm / math.sqrt(lost.numel())


def _first_pass(weights: torch.Tensor) -> torch.Tensor:
    """The 5 bits of each number's significand that the multiplier takes of a weight at a time: in LoFi there is no
    second time (`kernels.arithmetic.matrix`)."""
    return (weights.float().contiguous().view(torch.int32) & -(1 << 19)).view(torch.float32)


def _left_out(weights: torch.Tensor) -> torch.Tensor:
    """Weights with what the first pass leaves out of each of them more or less than it usually does, so that small ones
    are not all made smaller: sums in which large numbers swallow small ones do that too."""
    top = _first_pass(weights)
    left = weights.float() - top
    place = torch.where(left != 0, torch.ldexp(torch.ones_like(top), torch.frexp(top).exponent - 5), 0.0) * top.sign()
    usual = (left / place)[place != 0].mean() if bool((place != 0).any()) else 0.0
    return top + usual * place


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
