"""From a loaded Program to the shares of its ops: of its error, or of its difference to another one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proveout.cause.findings import AT_ONCE, COMPILER, Contribution, Explanation, OutputShare
from proveout.cause.local import Expected, expectations, look, suspicious
from proveout.cause.sentences import NOTABLE, sentences
from proveout.cause.sides import Pair, against_another, against_float32, at_home, computing, named_outputs
from proveout.cause.telescope import Reference, Run, Score, Telescope
from proveout.check.nonfinite import first_nonfinite
from proveout.errors import NumericsError, UsageError
from proveout.program import Loaded
from proveout.tensor_spec import innermost
from proveout.types import Origin

PASSES = 0.045
"""Forward passes that the border may take for each op that differs, beside those from the start."""
FROM_THE_START = 6
"""At most: the model by itself, compiled, and as its graph; both sides op by op, float32 once more on the device's
values."""
FEW_OPS, LEAST_PASSES = 100, 8.0
"""Below so many ops that differ it may take this many: what comes before it is most of the cost there anyway."""
MOST_SUSPECTS = 3
"""Ops that are looked into one by one whatever their share."""
FLOAT32 = "float32, op by op"


@dataclass(frozen=True)
class Ran:
    """A loaded Program, one call's inputs, and the outputs that it gave, by position."""

    loaded: Loaded
    inputs: Sequence[Any]
    outputs: Sequence[Any] = ()
    side: str = ""
    """What to call it, where two are held against each other."""
    phases: bool = False
    """Whether its device multiplies in phases, as a chip by its own rules does."""


def attribute(
    loaded: Loaded,
    inputs: Sequence[Any],
    eager: dict[str, Any] | None = None,
    *,
    candidate: str = "the device",
    against: str = FLOAT32,
    every: bool = False,
    passes: float | None = None,
    phases: bool = True,
    only: Collection[int] = (),
) -> Explanation | None:
    """One loaded Program's error by its ops; None where no output is a floating-point tensor of its own.

    Where the device multiplies in `phases`, products are held against what LoFi would make of them. Where not all
    outputs count, `only` has the places of those that do."""
    pair = _with_outputs(against_float32(loaded), loaded, only)
    if not pair.outputs:
        return None
    shares = _Shares.of(Ran(loaded, inputs, phases=phases), pair, eager, every, passes)
    start = shares.telescope.places[0]
    program = _program(pair, Score((), (), (), ()), start, start.whole)
    return _explanation([shares], [*shares.parts, *program], shares.whole, candidate, against)


def _with_outputs(pair: Pair, loaded: Loaded, only: Collection[int]) -> Pair:
    names = named_outputs(loaded.program, computing(loaded.program))
    return replace(pair, outputs=tuple(dict.fromkeys(n for i, n in names.items() if i in only))) if only else pair


def difference(
    ours: Ran, theirs: Ran, *, candidate: str, against: str, every: bool = False, only: Collection[int] = ()
) -> Explanation | None:
    """What two devices or settings give of one graph, told by their ops: swapped for each other where both run the same
    Steps; else ours are swapped for float32, one after another, and float32 then for theirs."""
    same = against_another(ours.loaded, theirs.loaded)
    if not isinstance(same, str):
        same = _with_outputs(same, ours.loaded, only)
        shares = _Shares.of(ours, same, None, every)
        return _explanation([shares], shares.parts, shares.whole, candidate, against) if same.outputs else None
    positions = [i for i in _shared_positions(ours.loaded, theirs.loaded) if not only or i in only]
    wanted = [at_home(theirs.outputs[i]) for i in positions]
    both = []
    for ran in (ours, theirs):
        names = named_outputs(ran.loaded.program, computing(ran.loaded.program))
        pair = replace(against_float32(ran.loaded), outputs=tuple(names[i] for i in positions))
        both.append(_Shares.of(ran, pair, dict(zip(pair.outputs, wanted)), every))
    if not positions:
        return None
    mine, yours = both
    began, ended = mine.telescope.places[0], yours.telescope.places[0]
    own = mine.telescope.reference.distance(began.outputs, ended.outputs)
    found = mine.telescope.reference.score([at_home(ours.outputs[i]) for i in positions])
    parts = [
        *_at_once(mine, mine.end, found),
        *mine.parts,
        *_program(mine.telescope.pair, ended, began, own),
        *(_turned(part, mine.telescope.pair.outputs) for part in yours.parts),
        *_at_once(yours, yours.telescope.reference.score(wanted), yours.end, mine.telescope.pair),
    ]
    through = f"They do not run the same Steps ({same}), so that each side's ops are swapped for float32."
    return _explanation(both, parts, found.whole, candidate, against, through)


def _shared_positions(ours: Loaded, theirs: Loaded) -> list[int]:
    """Outputs that both compute as floating-point tensors, each once."""
    mine, yours = (named_outputs(one.program, computing(one.program)) for one in (ours, theirs))
    if len(ours.program.outputs) != len(theirs.program.outputs):
        raise UsageError("the two Programs do not have the same outputs: they cannot be told apart by their ops.")
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for i in sorted(mine.keys() & yours.keys()):
        if mine[i] not in first and yours[i] not in second:
            first[mine[i]] = second[yours[i]] = i
    return list(first.values())


@dataclass(frozen=True)
class _Shares:
    """One side's ops."""

    telescope: Telescope
    expected: Mapping[int, Expected]
    parts: list[Contribution]
    side: str

    @staticmethod
    def of(
        ran: Ran, pair: Pair, wanted: Mapping[str, Any] | None, every: bool = False, passes: float | None = None
    ) -> _Shares:
        seen = look(pair, ran.inputs, ran.phases)
        exact = [(wanted or {}).get(n, o) for n, o in zip(pair.outputs, seen.other_outputs)]
        telescope = Telescope(pair, seen, Reference.of(exact))
        ops = len(telescope.differing)
        if not math.isfinite(telescope.places[ops].whole):
            blamed = first_nonfinite(ran.loaded, ran.inputs)
            raise NumericsError(
                f"the outputs hold numbers that are not finite: {blamed or 'no Step on the device made them'}."
            )
        granted = passes or (LEAST_PASSES if ops < FEW_OPS else PASSES * ops)
        expected = expectations(pair, seen)
        runs = telescope.search(math.inf if every else granted, suspicious(expected)[:MOST_SUSPECTS])
        shares = _Shares(telescope, expected, [], ran.side)
        shares.parts.extend(shares._part(run) for run in runs)
        return shares

    @property
    def end(self) -> Score:
        return self.telescope.places[len(self.telescope.differing)]

    @property
    def whole(self) -> float:
        return self.end.whole

    @property
    def exact_ops(self) -> int:
        return len(self.telescope.seen.locals) - len(self.telescope.differing)

    @property
    def passes(self) -> float:
        return FROM_THE_START + self.telescope.passes

    def _part(self, run: Run) -> Contribution:
        telescope = self.telescope
        start, end = telescope.score(run.start), telescope.score(run.end)
        ops = telescope.differing[run.start : run.end]
        steps = [telescope.pair.device.steps[i] for i in ops]
        value = steps[-1].outputs[0] if steps[-1].outputs else ""
        several = len(steps) > 1
        part = Contribution(
            f"{len(steps)} ops" if several else steps[0].kernel,
            value,
            Origin(module=innermost([s.origin.module for s in steps])) if several else steps[0].origin,
            ops[0],
            len(steps),
            end.whole - start.whole,
            telescope.own(run),
            "several",
            outputs=_output_shares(telescope.pair, start, end),
            side=self.side,
        )
        if several:
            return part
        local, should = telescope.seen.locals[ops[0]], self.expected.get(ops[0])
        part = replace(part, role=local.role, adds=local.adds, incoming=local.incoming, gain=local.gain)
        if should is None:
            return part
        return replace(
            part,
            expected=should.adds,
            times=should.times,
            drift=local.drift,
            usual_drift=should.drift,
            lofi=should.lofi,
        )


def _explanation(
    sides: Sequence[_Shares],
    parts: Sequence[Contribution],
    whole: float,
    candidate: str,
    against: str,
    through: str = "",
) -> Explanation:
    ranked = sorted(parts, key=lambda part: _rank(part, whole))
    first = next((s for s in sides if ranked and s.side == ranked[0].side), sides[0])
    what = "error" if against in ("eager", FLOAT32) else "difference"
    said = sentences(first.telescope.pair, first.telescope.seen, ranked, whole, what)
    return Explanation(
        "", candidate, against, whole, tuple(ranked), sum(s.exact_ops for s in sides), sum(s.passes for s in sides),
        (*said, *([through] if through and whole else [])),
    )  # fmt: skip


def _rank(part: Contribution, whole: float) -> tuple[float, float]:
    """What is not as expected first, by what it does to the outputs: a Program that is off as such, and suspects."""
    off = part.op == COMPILER and part.share > NOTABLE * whole
    return -(part.own if off else part.beyond), -part.share


def _program(pair: Pair, start: Score, end: Score, own: float) -> list[Contribution]:
    """What is there in float32 already."""
    if own <= 0:
        return []
    outputs = _output_shares(pair, start, end)
    return [Contribution(COMPILER, "", Origin(), -1, 0, end.whole - start.whole, own, "adds", outputs=outputs)]


def _at_once(shares: _Shares, start: Score, end: Score, named: Pair | None = None) -> list[Contribution]:
    """What a device that runs several Steps as one kernel makes of that: the rest between Step by Step and its run."""
    own = shares.telescope.reference.distance(start.outputs, end.outputs)
    if own <= 0:
        return []
    pair = shares.telescope.pair
    outputs, last = _output_shares(named or pair, start, end), len(pair.device.steps)
    share = end.whole - start.whole
    return [Contribution(AT_ONCE, "", Origin(), last, 0, share, own, "adds", outputs=outputs, side=shares.side)]


def _turned(part: Contribution, names: Sequence[str]) -> Contribution:
    """From float32 to the other side, not from it; its outputs by our names."""
    outputs = (
        OutputShare(name, -o.share, (-o.classes[0], -o.classes[1], -o.classes[2]), -o.sign_flips, -o.argmax_changes)
        for name, o in zip(names, part.outputs)
    )
    return replace(part, share=-part.share, outputs=tuple(outputs))


def _output_shares(pair: Pair, start: Score, end: Score) -> tuple[OutputShare, ...]:
    none = (0.0, 0.0, 0.0)
    out = []
    for i, name in enumerate(pair.outputs):
        before = start.squared[i] if start.squared else none
        classes = tuple(b - a for a, b in zip(before, end.squared[i]))
        flips = end.flips[i] - (start.flips[i] if start.flips else 0)
        argmax = end.argmax[i] - (start.argmax[i] if start.argmax else 0)
        out.append(OutputShare(name, sum(classes), classes, flips, argmax))  # type: ignore[arg-type]
    return tuple(out)
