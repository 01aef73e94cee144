"""A plan of requests served by a scheduler of ours: in modelled time from a decoder's predicted steps, or as a worker
with a clock is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proveout.batching.engines import ModelledEngine, StepTimes
from proveout.batching.scheduler import Request, Scheduler
from proveout.batching.serving import ModelledClock, serve
from proveout.errors import UsageError
from proveout.generation.speed import SpeedTold
from proveout.load.exchange import Exchange, Run
from proveout.load.plan import Schedule
from proveout.types import Settings, Timing

SHORTEST = 32
End = Literal["low", "middle", "high"]
Status = Literal["passed", "partial", "failed"]


@dataclass(frozen=True)
class ServeAsk:
    """A script whose decoder is to serve requests, due at these times after the start."""

    script: str
    script_args: str
    device: str
    settings: Settings
    slots: int
    max_length: int
    pages: int
    page_size: int
    intended_ns: tuple[int, ...]
    prompt_lengths: tuple[int, ...]
    max_tokens: tuple[int, ...]


@dataclass(frozen=True)
class ServedRequest:
    """When one request's tokens came."""

    intended_ns: int
    pieces_ns: tuple[int, ...]
    ended_ns: int
    prompt_tokens: int
    error: str = ""


@dataclass(frozen=True)
class Served:
    """What came of it, or why nothing did."""

    model: str = ""
    error: str = ""
    failure: str = ""
    requests: tuple[ServedRequest, ...] = ()
    ended_ns: int = 0

    @staticmethod
    def of(model: str, run: Run) -> Served:
        requests = [
            ServedRequest(e.intended_ns, tuple(e.pieces_ns), e.ended_ns, e.prompt_tokens or 0, e.error)
            for e in run.exchanges
        ]
        return Served(model, requests=tuple(requests), ended_ns=run.ended_ns)

    @property
    def run(self) -> Run:
        exchanges = [
            Exchange(r.intended_ns, r.intended_ns, list(r.pieces_ns), r.ended_ns, None, r.prompt_tokens, r.error)
            for r in self.requests
        ]
        refused = next((e.error for e in exchanges if e.error), "")
        answered = any(not e.error for e in exchanges)
        status: Status = "passed" if not refused else "partial" if answered else "failed"
        return Run(tuple(exchanges), 0, self.ended_ns, "measured", status, refused)


def padded_lengths(plan: Schedule) -> tuple[int, ...]:
    """The lengths that a plan's prompts are padded to: powers of two of at least a tile."""
    return tuple(sorted({max(SHORTEST, 1 << (a.prompt_tokens - 1).bit_length()) for a in plan.asks}))


def step_times(speeds: SpeedTold, end: End = "middle") -> StepTimes:
    """What a decoder's steps are predicted to take, or the ends of that prediction."""
    prefills = sorted((row.prompt_length, _ns(row.first_token, end)) for row in speeds.rows if row.first_token)
    if len(prefills) < len(speeds.rows):
        raise UsageError(f"{speeds.model}: its prefill has a part on the host, whose time no plan knows.")
    return StepTimes(_ns(speeds.rows[0].per_token, end), tuple(prefills))


def _ns(timing: Timing, end: End) -> int:
    if end == "middle" or timing.interval_ns is None:
        return round(timing.median_ns)
    return round(timing.interval_ns[0 if end == "low" else 1])


def simulated(plan: Schedule, times: StepTimes, scheduler: Scheduler) -> Run:
    """The plan in modelled time; prompts are of no tokens in particular."""
    requests = [
        Request(number, (0,) * ask.prompt_tokens, ask.max_tokens, int(due))
        for number, (due, ask) in enumerate(zip(plan.intended_ns, plan.asks))
    ]
    return serve(requests, scheduler, ModelledEngine(times), ModelledClock())[0]
