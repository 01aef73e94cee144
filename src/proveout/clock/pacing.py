"""When calls start: waiting for a time, a schedule that workers of all processes share, queries of several streams."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Barrier

from proveout.clock.stamps import WORD

SPIN_NS = 100_000
"""A sleep may wake up so much too late; the rest of a wait is spent looking at the clock."""
clock = time.perf_counter_ns


class Exhausted(Exception):
    """There is nothing more to call the model with."""


def wait_until(time_ns: int) -> None:
    """Never too early, and as little too late as the machine allows."""
    left = time_ns - clock()
    if left > SPIN_NS:
        time.sleep((left - SPIN_NS) / 1e9)
    while clock() < time_ns:
        time.sleep(0)


def arrivals(schedule: int, start_ns: int, deadline_ns: int) -> Callable[[], int]:
    """The next request of a schedule that all workers share: each read of the open file takes one, in any process."""

    def next_start() -> int:
        word = os.read(schedule, WORD)
        if len(word) < WORD or clock() >= deadline_ns:
            raise Exhausted
        intended = start_ns + int.from_bytes(word, "little")
        wait_until(intended)
        return intended

    return next_start


class MultiStream:
    """Multi-stream: all streams start a query together, and the next when the last of them is done."""

    def __init__(self, streams: int) -> None:
        self.deadline_ns = 0
        self._start, self._over = 0, False
        self._barrier = Barrier(streams, action=self._begin)

    def _begin(self) -> None:
        self._start = clock()
        self._over = self._start >= self.deadline_ns

    def next_start(self) -> int:
        self._barrier.wait()
        if self._over:
            raise Exhausted
        return self._start

    def abort(self) -> None:
        self._barrier.abort()
