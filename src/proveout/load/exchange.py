"""One request and its answer: when it was due, sent and answered, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from proveout.clock.stamps import NO_STAMPS, Stamps
from proveout.types import Kind


@dataclass
class Exchange:
    """Stamps of one clock in ns. A piece of an answer is what came at once: one token, or several."""

    intended_ns: int
    sent_ns: int = 0
    """When the last byte of the request was handed over; 0 where it was never sent."""
    pieces_ns: list[int] = field(default_factory=list)
    ended_ns: int = 0
    tokens: int | None = None
    """As the server counts them; None where it does not say, and pieces are counted instead."""
    prompt_tokens: int | None = None
    error: str = ""
    """Why there is no whole answer; empty where there is one."""

    @property
    def num_tokens(self) -> int:
        return len(self.pieces_ns) if self.tokens is None else self.tokens

    @property
    def first_ns(self) -> int | None:
        """From the intended start to the first token; None where none came."""
        return self.pieces_ns[0] - self.intended_ns if self.pieces_ns else None

    @property
    def response_ns(self) -> int | None:
        """From the intended start to the end of the answer; None where it did not end."""
        return None if self.error else self.ended_ns - self.intended_ns

    @property
    def per_token_ns(self) -> float | None:
        """Time per output token after the first; None for an answer of one token, or one that did not end."""
        if self.error or self.num_tokens < 2 or len(self.pieces_ns) < 2:
            return None
        return (self.pieces_ns[-1] - self.pieces_ns[0]) / (self.num_tokens - 1)

    @property
    def gaps_ns(self) -> Stamps:
        if len(self.pieces_ns) < 2:
            return NO_STAMPS
        pieces: Stamps = np.array(self.pieces_ns, dtype=np.int64)
        return pieces[1:] - pieces[:-1]


@dataclass(frozen=True, eq=False)
class Run:
    """All exchanges of one run, in the order in which they were due."""

    exchanges: tuple[Exchange, ...]
    started_ns: int
    ended_ns: int
    kind: Kind = "measured"
    status: Literal["passed", "partial", "failed"] = "passed"
    reason: str = ""
    cpu_share: float | None = None
    """Of one core, that the client itself took."""

    @property
    def answered(self) -> list[Exchange]:
        return [e for e in self.exchanges if not e.error]
