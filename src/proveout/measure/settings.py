"""What a benchmark is asked for, in groups: the copies of a model, the loop that calls each, what outputs should be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proveout.clock.loops import OnError
from proveout.errors import UsageError, unknown
from proveout.serving import Load

DURATION_S = 60.0
UNTIMED_S = 86_400.0
"""A duration that stands for as long as it takes."""
ON_ERROR = ("fail", "continue", "retry")
RECORDINGS = ("raw", "histogram")
Recording = Literal["raw", "histogram"]
Numbers = int | Sequence[int] | None
"""A parameter that takes one number or several, or leaves the choice to us."""


@dataclass(frozen=True)
class Copies:
    """How many copies of a model are called by how many workers, and when calls arrive."""

    n_models: Numbers = None
    workers_per_model: Numbers = None
    load: Load | str = "closed"


@dataclass(frozen=True)
class Loop:
    """How long calls are repeated, where, and what is written of each."""

    duration: float = DURATION_S
    max_infers: int | None = None
    warmup: int | None = None
    recording: Recording = "raw"
    on_error: OnError = "fail"
    multiprocess: bool = True
    multiinterpreter: bool = False

    def check(self) -> None:
        check_positive(duration=self.duration, max_infers=self.max_infers)
        if self.warmup is not None and (not isinstance(self.warmup, int) or self.warmup < 0):
            raise UsageError(
                f"warmup is {self.warmup!r}: give a number of calls from 0, or None to find the steady state."
            )
        if self.on_error not in ON_ERROR:
            raise UsageError(f"on_error is {self.on_error!r}: give one of {', '.join(ON_ERROR)}.")
        if self.recording not in RECORDINGS:
            raise unknown("recording", self.recording, RECORDINGS)


@dataclass(frozen=True, eq=False)
class Expected:
    """The model whose outputs are right, and how close to them is close enough."""

    reference: Any = None
    pcc: float = 0.99


def check_positive(**numbers: float | None) -> None:
    for name, value in numbers.items():
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise UsageError(f"{name} is {value!r}: give a number above 0.")
