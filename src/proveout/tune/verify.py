"""Runs candidates whole, on the model's own inputs and on those held out, and keeps what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace

from proveout.tune.account import Verified
from proveout.tune.errors import Measurements, Numerics
from proveout.tune.model import Close, Model
from proveout.tune.solve import Problem, Solved
from proveout.tune.space import settings_with
from proveout.tune.structures import Structure
from proveout.types import Fidelity, Settings


@dataclass(frozen=True)
class Watch:
    """The time that a search has."""

    until: float

    @staticmethod
    def of(minutes: float) -> Watch:
        return Watch(time.monotonic() + 60 * minutes)

    @property
    def left_s(self) -> float:
        return self.until - time.monotonic()

    @property
    def solver_s(self) -> float:
        """For one question to the solver."""
        return max(1.0, min(60.0, self.left_s))


@dataclass
class Verifier:
    """The budget that candidates must keep, and what is known of those that were run."""

    model: Model
    numerics: Numerics
    held_out: int
    pcc: float
    top1: float
    measured: Measurements
    watch: Watch
    candidate_s: float = 0.0
    """The longest that it took to verify one: its first call, for which it is compiled, and those after it."""

    def good(self, candidate: Verified) -> bool:
        return all(close.keeps(self.pcc, self.top1) for close in candidate.calls)

    def calls(self, settings: Settings) -> tuple[Close, ...]:
        """The model's own call and those held out, up to the first that fails."""
        run, out, seconds = replace(settings, numerics=self.numerics), list[Close](), 0.0
        for number in range(1 + self.held_out):
            out.append(self.close(run, number))
            seconds += self.measured.seconds_of(_key(run, number))
            if not out[-1].keeps(self.pcc, self.top1):
                break
        self.candidate_s = max(self.candidate_s, seconds)
        return tuple(out)

    def close(self, settings: Settings, number: int = 0) -> Close:
        """Kept, as errors are."""
        return Close(
            *self.measured.get(_key(settings, number), lambda: astuple(self.model.closeness(settings, number)))
        )

    def candidate(self, structure: Structure, problem: Problem, answer: Solved) -> Verified | None:
        """What the solver chose, compiled and run; None where it does not fit."""
        settings = settings_with(structure.settings, problem.decisions, answer.assignment)
        ns = self.model.ns(settings)
        if ns is None:
            return None
        predicted = problem.error(answer.assignment)
        return Verified(settings, ns, self.calls(settings), "solver", answer.assignment, answer.ns, predicted)


def _key(settings: Settings, number: int) -> list[object]:
    return ["close", settings, number]


class Costs:
    """What the greedy search asks."""

    def __init__(self, verifier: Verifier, quick: bool, until: Callable[[], bool]) -> None:
        self.verifier, self.model, self.quick, self.in_time = verifier, verifier.model, quick, until
        self._fidelities: set[Fidelity | None] = set()
        self._ns: dict[Settings, int | None] = {}

    def ns(self, settings: Settings) -> int | None:
        if settings not in self._ns:
            self._ns[settings] = self.model.ns(settings)
        return self._ns[settings]

    def pcc(self, settings: Settings) -> float:
        """0 where too many rows have another largest element, or the scale is off. Of a large model in bfloat16, but
        for a math fidelity that is new: only the chip's rules show its cost."""
        fidelity = settings.math_fidelity
        exactly = self.quick or (fidelity is not None and fidelity not in self._fidelities)
        self._fidelities.add(fidelity)
        close = self.verifier.close(replace(settings, numerics=self.verifier.numerics if exactly else "fast"))
        return close.pcc if close.keeps(self.verifier.pcc, self.verifier.top1) else 0.0

    def weights(self) -> dict[str, int]:
        return self.model.weights()
