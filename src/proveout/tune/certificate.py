"""What a search leaves: everything that it found and claims, as JSON that another can check."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from proveout.check.compare import l2_of_pcc
from proveout.coding import digest, from_json, read_json
from proveout.errors import UsageError
from proveout.settings import Decided
from proveout.tune.model import Close
from proveout.tune.solve import Problem
from proveout.tune.space import Decision
from proveout.types import Settings

SCHEMA = 3
MOST_BYTES = 64 << 20
Goal = Literal["faster", "cure"]


@dataclass(frozen=True)
class Weighed:
    """One decision: what could be chosen, what each choice adds to the error, and what was chosen."""

    op: str
    about: Decided
    ops: tuple[str, ...]
    values: tuple[str, ...]
    errors: tuple[tuple[float, ...] | None, ...]
    """By value, by output: what it adds to the noise, 1 − PCC²; None where it was not weighed."""
    drifts: tuple[tuple[float, ...] | None, ...]
    """Likewise: what it adds to the logarithm of the output's scale."""
    saves_ns: tuple[int | None, ...]
    """By value, alone; None where it cannot be had."""
    chosen: int


@dataclass(frozen=True)
class Rejected:
    """A value that was not chosen, and why."""

    change: str
    saves_ns: int
    pcc: float | None
    """What the whole model's would be with it, as the errors add up and were all noise; None where it was not worth
    measuring."""
    reason: str


@dataclass(frozen=True)
class Taken:
    """One change that was made, on top of those before it."""

    change: str
    ns: int
    saves_ns: int
    pcc: float | None
    """As the errors so far add up; of the greedy search, as it was found."""


@dataclass(frozen=True)
class Certificate:
    """All times are modelled. An output's error is its noise, 1 − PCC², and the square of its drift, which is the
    logarithm of its scale."""

    goal: Goal
    model: str
    script: str
    """Digest of the script's text."""
    data: str
    """Seal of the weights and inputs."""
    device: str
    pcc: float
    """The budget: no output's PCC may be below it, nor its relative L2 above what noise of this PCC has, on inputs that
    the search has not seen either."""
    top1: float
    """Of scores: the least share of rows whose largest element stays; 0 where that is not asked."""
    seed: int
    held_out: int
    numerics: Literal["fast", "faithful"]
    """In which the errors of decisions were measured."""
    verified_numerics: Literal["fast", "faithful"]
    start: Settings
    settings: Settings
    programs: tuple[str, ...]
    """Fingerprints of the Programs that these settings give."""
    decisions: tuple[Weighed, ...]
    start_error: tuple[float, ...]
    start_drift: tuple[float, ...]
    budget_error: float
    """What the sum of errors was held to: 1 − pcc², scaled by what verification found the sum to be off by."""
    start_ns: int
    start_pcc: float
    greedy: Settings | None
    """What the greedy search ended at, for comparison; None where it was not run or nothing of it keeps the budget."""
    greedy_ns: int | None
    greedy_pcc: float | None
    found_by: Literal["solver", "greedy", "start"]
    predicted_ns: int
    predicted_error: tuple[float, ...]
    verified_ns: int
    verified_pcc: tuple[float, ...]
    """On the model's own inputs, then on each of those held out."""
    verified_l2: tuple[float | None, ...]
    """Likewise, relative: of the output that is furthest off; None where one is not finite."""
    verified_top1: tuple[float, ...]
    """Likewise; 1 where no output is one of scores."""
    bound_ns: int
    """No combination of these decisions is quicker whose errors add up to at most `budget_error` and that is more exact
    in some decision than each refuted one: proven. What values that were not weighed could save is taken off."""
    floor_ns: int
    """No combination is quicker, whatever its error."""
    changes: int
    fewest_changes: int
    """Of a cure: no combination of fewer changes keeps the budget, as errors add up."""
    smaller_refuted: int
    """Of a cure: how many of fewer changes were run all the same, and failed."""
    path: tuple[Taken, ...] = ()
    refuted: tuple[tuple[int, ...], ...] = ()
    """Combinations that were run and failed although their errors add up to less: a value of each decision."""
    unfit: tuple[tuple[int, ...], ...] = ()
    """Combinations that do not fit the chip."""
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()
    solver: str = ""
    num_hosted: int = 0
    """Steps of a call that run on the host: no time here has them. Graph breaks count as one each."""
    schema: int = SCHEMA
    seal: str = ""

    @property
    def gap(self) -> float:
        """How much of the time the bound leaves open."""
        return (self.verified_ns - self.bound_ns) / self.verified_ns if self.verified_ns else 0.0

    @property
    def speedup(self) -> float:
        return self.start_ns / self.verified_ns if self.verified_ns else 1.0

    @property
    def holds(self) -> bool:
        """Whether what was found keeps its budget."""
        return all(close.keeps(self.pcc, self.top1) for close in self.calls)

    @property
    def calls(self) -> tuple[Close, ...]:
        """Every call that it was verified on."""
        far = (math.inf if l2 is None else l2 for l2 in self.verified_l2)
        return tuple(map(Close, self.verified_pcc, far, self.verified_top1))

    @property
    def l2_limit(self) -> float:
        return l2_of_pcc(self.pcc)

    @property
    def problem(self) -> Problem:
        """The decisions and what they add to the error, without their times."""
        decisions = [Decision(w.op, w.about, w.ops, w.values) for w in self.decisions]
        known = [(d, v) for d, w in enumerate(self.decisions) for v in range(1, len(w.values))]
        noises = {(d, v): e for d, v in known if (e := self.decisions[d].errors[v]) is not None}
        drifts = {(d, v): e for d, v in known if (e := self.decisions[d].drifts[v]) is not None}
        return Problem(
            decisions, (), noises, self.start_error, self.budget_error, self.start.queues,
            refuted=[assignment_of(v) for v in self.refuted], excluded=[assignment_of(v) for v in self.unfit],
            drifts=drifts, start_drift=self.start_drift,
        )  # fmt: skip

    def sealed(self) -> Certificate:
        return replace(self, seal=digest(replace(self, seal="")))


def assignment_of(vector: tuple[int, ...]) -> dict[int, int]:
    return {d: v for d, v in enumerate(vector) if v}


def read(path: Path) -> Certificate:
    """A certificate as a file has it; a stranger's file is refused with what is wrong with it."""
    try:
        document = read_json(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a certificate: {error}.") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA or type(schema) is not int:
        raise UsageError(f"{path} has schema {schema!r}; this version reads {SCHEMA}. Run `proveout tune` again.")
    try:
        certificate = from_json(Certificate, document)
        for weighed in certificate.decisions:
            sizes = {len(part) for part in (weighed.values, weighed.errors, weighed.drifts, weighed.saves_ns)}
            if len(sizes) > 1 or not 0 <= weighed.chosen < len(weighed.values):
                raise ValueError(f"{weighed.about} of {weighed.op} was chosen among values that are not all there")
        return certificate
    except ValueError as error:
        raise UsageError(f"{path} is not a certificate: {error}.") from error
