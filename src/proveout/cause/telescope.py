"""Shares of the final error that sum to the whole: the first ops by the device, the rest by the other side, and the
border moved through the graph.

Each place of the border takes the Steps after it, so not every place is tried: runs of ops are halved, the one whose
own error is largest first, until the passes that were granted are used up or what is left is too small to matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from proveout.cause.findings import CLASSES
from proveout.cause.local import Pass
from proveout.cause.sides import Pair, as_double

SMALL = 0.002
"""A run of ops whose own error is a smaller part of the whole is left as it is."""
TENTH = 0.1
EVENLY = 0.25
"""What every op weighs beside its own error when a run is cut, as a part of their mean."""
NEAR = 0.25
"""How far from half a cut may be for the border of a module."""


@dataclass(frozen=True)
class Score:
    """The outputs at one place of the border against the reference."""

    outputs: tuple[torch.Tensor, ...]
    squared: tuple[tuple[float, ...], ...]
    """By output and class, over the output's squared norm and the number of outputs."""
    flips: tuple[int, ...]
    argmax: tuple[int, ...]

    @property
    def whole(self) -> float:
        return sum(map(sum, self.squared))


@dataclass(frozen=True)
class Run:
    """Ops from one place of the border to another, as positions among those that differ."""

    start: int
    end: int


@dataclass
class Telescope:
    """The border's places that were tried; place `i` has the first `i` of the differing ops by the device."""

    pair: Pair
    seen: Pass
    reference: Reference
    places: dict[int, Score] = field(default_factory=dict)
    steps_run: int = 0

    def __post_init__(self) -> None:
        self.differing = [i for i, local in enumerate(self.seen.locals) if not local.same]
        self.places[0] = self.reference.score(self.seen.other_outputs)
        self.places[len(self.differing)] = self.reference.score(self.seen.device_outputs)
        self._needed = _needed(self.pair)

    @property
    def passes(self) -> float:
        """Forward passes that the border took."""
        return self.steps_run / max(len(self._needed), 1)

    def score(self, place: int) -> Score:
        if place not in self.places:
            self.places[place] = self.reference.score(self._outputs(self.differing[place - 1]))
        return self.places[place]

    def own(self, run: Run) -> float:
        """What a run's error alone makes of the outputs: the squared distance between its two ends."""
        return self.reference.distance(self.score(run.start).outputs, self.score(run.end).outputs)

    def _outputs(self, last: int) -> tuple[Any, ...]:
        """The outputs where Steps up to `last` are the device's."""
        computed = {n for step in self.pair.device.steps[: last + 1] for n in step.outputs}
        values = {n: v for n, v in self.seen.device.items() if n in computed or n in self.pair.inputs}
        with torch.no_grad():
            for index in range(last + 1, len(self.pair.other.steps)):
                if index in self._needed:
                    step = self.pair.device.steps[index]
                    values.update(zip(step.outputs, self.pair.other.run(index, values)))
                    self.steps_run += 1
        return tuple(values[n] for n in self.pair.outputs)

    def search(self, passes: float, alone: Sequence[int] = ()) -> list[Run]:
        """Runs of ops in order, as short as `passes` forward passes allow; those of `alone` first, in runs of their
        own."""
        steps = max(len(self._needed), 1)
        enough = SMALL * max(self.places[len(self.differing)].whole, self.own(Run(0, len(self.differing))))
        runs = {Run(0, len(self.differing)): self.own(Run(0, len(self.differing)))} if self.differing else {}
        ends = [place for op in alone for place in (self.differing.index(op), self.differing.index(op) + 1)]
        while True:
            cut = next(((r, p) for p in ends for r in runs if r.start < p < r.end), None)
            if cut is None:
                open_runs = [r for r in runs if r.end - r.start > 1 and runs[r] > enough]
                if not open_runs:
                    break
                worst = max(open_runs, key=lambda r: runs[r])
                cut = worst, self._middle(worst)
            run, middle = cut
            after = sum(index >= self.differing[middle] for index in self._needed)
            if self.steps_run + after > passes * steps:
                break
            del runs[run]
            for half in (Run(run.start, middle), Run(middle, run.end)):
                runs[half] = self.own(half)
        return sorted(runs, key=lambda run: run.start)

    def _middle(self, run: Run) -> int:
        """Where to cut a run: where its ops by themselves add about as much on both sides, and between two modules
        where such a border is near, the outermost one."""
        modules = [self.pair.device.steps[i].origin.module.split(".") for i in self.differing]
        adds = [self.seen.locals[i].adds ** 2 for i in self.differing[run.start : run.end]]
        even = sum(adds) / len(adds) * EVENLY
        before = list(itertools.accumulate(a + even for a in adds))

        def depth(place: int) -> int:
            before, after = modules[place - 1], modules[place]
            same = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after)))
            return same if before != after else 99

        def uneven(place: int) -> float:
            return abs(before[place - run.start - 1] / before[-1] - 0.5) if before[-1] else 0.0

        places = range(run.start + 1, run.end)
        least = min(map(uneven, places))
        near = [place for place in places if uneven(place) <= max(least, NEAR)]
        return min(near, key=lambda place: (depth(place), uneven(place)))


@dataclass(frozen=True)
class Reference:
    """The outputs as they should be."""

    wanted: tuple[torch.Tensor, ...]
    """float64, flat."""
    rows: tuple[int | None, ...]
    """The last dimension of each output, where a largest element in it means something."""
    finite: tuple[torch.Tensor, ...]
    classes: tuple[torch.Tensor, ...]
    """Positions in CLASSES."""
    norms: tuple[float, ...]

    @staticmethod
    def of(outputs: Sequence[Any]) -> Reference:
        wanted = tuple(map(as_double, outputs))
        finite = tuple(torch.isfinite(w) for w in wanted)
        norms = tuple(float(w[f].square().sum()) for w, f in zip(wanted, finite))
        return Reference(wanted, tuple(map(row_length, outputs)), finite, tuple(map(_classes, wanted, finite)), norms)

    def score(self, outputs: Sequence[Any]) -> Score:
        doubles = tuple(as_double(o) for o in outputs)
        squared, flips, argmax = [], [], []
        for got, want, finite, classes, norm, row in zip(
            doubles, self.wanted, self.finite, self.classes, self.norms, self.rows
        ):
            off = torch.where(finite, got - want, 0.0).square()
            parts = torch.zeros(len(CLASSES), dtype=torch.float64).index_add_(0, classes, off)
            scale = (norm or 1.0) * len(self.wanted)
            squared.append(tuple(float(p) / scale for p in parts))
            flips.append(int((finite & (got * want < 0)).sum()))
            argmax.append(0 if row is None else _argmax_changes(got, want, row))
        return Score(tuple(f.float() for f in doubles), tuple(squared), tuple(flips), tuple(argmax))

    def distance(self, one: Sequence[torch.Tensor], two: Sequence[torch.Tensor]) -> float:
        total = 0.0
        for a, b, finite, norm in zip(one, two, self.finite, self.norms):
            off = torch.where(finite, a.double() - b.double(), 0.0)
            total += float(off.square().sum()) / ((norm or 1.0) * len(self.wanted))
        return total


def row_length(output: Any) -> int | None:
    """The number of classes of each row, where an output may be one of scores."""
    real = isinstance(output, torch.Tensor) and output.is_floating_point() and output.dim() >= 2
    return int(output.shape[-1]) if real and output.shape[-1] >= 2 else None


def _argmax_changes(got: torch.Tensor, want: torch.Tensor, row: int) -> int:
    return int((got.reshape(-1, row).argmax(-1) != want.reshape(-1, row).argmax(-1)).sum())


def _classes(wanted: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    """Each element's class by its size; where all sizes are equal they are all in the middle."""
    classes = torch.full(wanted.shape, CLASSES.index("middle"), dtype=torch.int64)
    size = torch.where(finite, wanted, 0.0).abs()
    count = int(wanted.numel() * TENTH)
    if count and float(size.max()) > float(size.min()):
        order = size.argsort()
        classes[order[:count]] = CLASSES.index("smallest")
        classes[order[-count:]] = CLASSES.index("largest")
    return classes


def _needed(pair: Pair) -> frozenset[int]:
    """Steps that an output depends on."""
    wanted: set[str] = set(pair.outputs)
    needed = set()
    for index in reversed(range(len(pair.device.steps))):
        step = pair.device.steps[index]
        if wanted.intersection(step.outputs):
            needed.add(index)
            wanted.update(step.uses)
    return frozenset(needed)
