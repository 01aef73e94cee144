"""What a search leaves: everything that it found and claims, as JSON that another can check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from proveout.coding import digest, from_json, read_json
from proveout.errors import UsageError
from proveout.settings import Decided
from proveout.types import Settings

SCHEMA = 2
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
    """By value, by output: what it adds to the squared error; None where it was not weighed."""
    saves_ns: tuple[int | None, ...]
    """By value, alone; None where it cannot be had."""
    chosen: int


@dataclass(frozen=True)
class Rejected:
    """A value that was not chosen, and why."""

    change: str
    saves_ns: int
    pcc: float | None
    """What the whole model's would be with it, as the errors add up; None where it was not worth measuring."""
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
    """All times are modelled. Errors are 1 − PCC² of each output."""

    goal: Goal
    model: str
    script: str
    """Digest of the script's text."""
    data: str
    """Seal of the weights and inputs."""
    device: str
    pcc: float
    """The budget: no output's PCC may be below it, on inputs that the search has not seen either."""
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
    budget_error: float
    """What the sum of errors was held to: 1 − pcc², scaled by what verification found the sum to be off by."""
    start_ns: int
    start_pcc: float
    greedy_ns: int | None
    greedy_pcc: float | None
    found_by: Literal["solver", "greedy", "start"]
    predicted_ns: int
    predicted_error: tuple[float, ...]
    verified_ns: int
    verified_pcc: tuple[float, ...]
    """On the model's own inputs, then on each of those held out."""
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
        return min(self.verified_pcc) >= self.pcc and min(self.verified_top1) >= self.top1

    def sealed(self) -> Certificate:
        return replace(self, seal=digest(replace(self, seal="")))


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
        return from_json(Certificate, document)
    except ValueError as error:
        raise UsageError(f"{path} is not a certificate: {error}.") from error
