"""Requests through a scheduler and an engine, in measured or in modelled time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, Protocol

from proveout.batching import scheduler
from proveout.batching.scheduler import Request, Scheduler
from proveout.clock.pacing import clock, wait_until
from proveout.errors import UsageError
from proveout.load.exchange import Exchange, Run
from proveout.types import Kind


class Engine(Protocol):
    """Computes a step: one token a sequence, and how long a model of the device says that it takes (0 where a clock
    says so)."""

    def prefill(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]: ...

    def decode(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]: ...


class Clock(Protocol):
    kind: Kind

    def now(self) -> int: ...

    def spend(self, ns: int) -> None:
        """A step has taken so long by its model."""

    def wait(self, until_ns: int) -> None: ...


class ModelledClock:
    """Counts what steps are said to take; waiting costs nothing."""

    kind: Kind = "modelled"

    def __init__(self) -> None:
        self._now = 0

    def now(self) -> int:
        return self._now

    def spend(self, ns: int) -> None:
        self._now += ns

    def wait(self, until_ns: int) -> None:
        self._now = max(self._now, until_ns)


class MeasuredClock:
    """The machine's clock, from 0."""

    kind: Kind = "measured"

    def __init__(self) -> None:
        self._began = clock()

    def now(self) -> int:
        return clock() - self._began

    def spend(self, ns: int) -> None:
        """The work itself has taken its time."""

    def wait(self, until_ns: int) -> None:
        wait_until(self._began + until_ns)


def serve(requests: Sequence[Request], deciding: Scheduler, engine: Engine, by: Clock) -> tuple[Run, list[list[int]]]:
    """Serve requests as they become due, in their order; gives all times, and each request's tokens."""
    if any(b.intended_ns < a.intended_ns for a, b in itertools.pairwise(requests)):
        raise UsageError("requests must stand in the order in which they are due.")
    exchanges = [Exchange(r.intended_ns, prompt_tokens=len(r.prompt)) for r in requests]
    tokens: list[list[int]] = [[] for _ in requests]
    place = {request.number: index for index, request in enumerate(requests)}
    if len(place) != len(requests):
        raise UsageError("two requests have the same number.")
    due = 0
    while due < len(requests) or not deciding.idle:
        now = by.now()
        while due < len(requests) and requests[due].intended_ns <= now:
            if why := deciding.refusal(requests[due]):
                exchanges[due].error, exchanges[due].ended_ns = why, now
            else:
                deciding.submit(requests[due])
                exchanges[due].sent_ns = requests[due].intended_ns  # what it waits from now on is the server's
            due += 1
        step = deciding.next()
        if step is None:
            if due < len(requests):
                by.wait(requests[due].intended_ns)
            continue
        newest, ns = (engine.prefill if step.kind == "prefill" else engine.decode)(step.sequences)
        by.spend(ns)
        now = by.now()
        for sequence, token in zip(step.sequences, newest, strict=True):
            index = place[sequence.request.number]
            exchanges[index].pieces_ns.append(now)
            tokens[index].append(token)
        for sequence in deciding.done(step, newest):
            exchanges[place[sequence.request.number]].ended_ns = now
    answered = any(not e.error for e in exchanges)
    refused = next((e.error for e in exchanges if e.error), "")
    status: Literal["passed", "partial", "failed"] = "passed" if not refused else "partial" if answered else "failed"
    ended = max((e.ended_ns for e in exchanges), default=0)
    return Run(tuple(exchanges), 0, ended, by.kind, status, refused), tokens
