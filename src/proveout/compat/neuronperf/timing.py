"""NeuronPerf's `Timer` and `timestamp_convert`: pairs of stamps, and units of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from proveout.errors import UsageError, unknown

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of a unit make a second."""


def timestamp_convert(timestamps: Any, input_time_unit: str, output_time_unit: str) -> Any:
    """One time, or an array of them, in another unit: `s`, `ms`, `us` or `ns`."""
    input_rate, output_rate = (_per_second(unit) for unit in (input_time_unit, output_time_unit))
    if isinstance(timestamps, list | tuple):
        timestamps = np.array(timestamps)
    return timestamps * (output_rate / input_rate) if output_rate != input_rate else timestamps


def _per_second(unit: str) -> int:
    if unit not in PER_SECOND:
        raise unknown("unit of time", unit, PER_SECOND)
    return PER_SECOND[unit]


class Timer:
    """A stopwatch that keeps when each span began and ended: `with timer: …`, or `start()` and `stop()`."""

    def __init__(self, timer_fn: Callable[[], Any] = time.perf_counter, timer_unit: str = "s") -> None:
        _per_second(timer_unit)
        self.timer_fn, self.timer_unit = timer_fn, timer_unit
        self._spans = np.empty((0, 2))
        self._new: list[tuple[Any, Any]] = []
        self._began: Any = None

    @classmethod
    def of(cls, starts: Any, ends: Any, timer_unit: str) -> Timer:
        """Spans that were measured elsewhere."""
        timer = cls(time.perf_counter_ns if timer_unit == "ns" else time.perf_counter, timer_unit)
        timer._spans = np.stack((np.asarray(starts), np.asarray(ends)), axis=-1)
        return timer

    def start(self) -> None:
        """Begin a span; one that is begun already begins anew."""
        self._began = self.timer_fn()

    def stop(self) -> None:
        """End the span; nothing happens where none is begun."""
        if self._began is not None:
            self._new.append((self._began, self.timer_fn()))
            self._began = None

    def next(self) -> None:
        """End this span and begin another."""
        self.stop()
        self.start()

    def reset(self) -> None:
        """Forget every span."""
        self._spans, self._new, self._began = np.empty((0, 2)), [], None

    def insert(self, timestamps: Sequence[Any], time_unit: str) -> None:
        """Put a span in front of all others; one that is begun goes on."""
        if len(timestamps) != 2:
            raise UsageError(f"a span has a start and an end, not {len(timestamps)} stamps.")
        first = timestamp_convert(np.array(timestamps), time_unit, self.timer_unit)
        self._spans = np.concatenate((first[None], self.timestamps()))
        self._new = []

    def start_timestamps(self, time_unit: str | None = None) -> Any:
        return self.timestamps(time_unit)[:, 0]

    def end_timestamps(self, time_unit: str | None = None) -> Any:
        return self.timestamps(time_unit)[:, 1]

    def timestamps(self, time_unit: str | None = None) -> Any:
        """An array of (start, end), in this unit or the timer's own."""
        if self._new:
            self._spans, self._new = np.concatenate((self._spans, np.array(self._new))), []
        return timestamp_convert(self._spans, self.timer_unit, time_unit or self.timer_unit)

    def durations(self, time_unit: str | None = None) -> Any:
        spans = self.timestamps()
        return timestamp_convert(spans[:, 1] - spans[:, 0], self.timer_unit, time_unit or self.timer_unit)

    def total_duration(self, time_unit: str | None = None) -> Any:
        return self.durations(time_unit).sum()

    def avg(self, time_unit: str | None = None) -> Any:
        """The mean duration; 0 of no span."""
        return self.durations(time_unit).mean() if len(self) else 0

    def __enter__(self) -> Timer:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def __len__(self) -> int:
        return len(self._spans) + len(self._new)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter([(start, end) for start, end in self.timestamps()])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        start, end = self.timestamps()[index]
        return start, end

    def __delitem__(self, index: int) -> None:
        self._spans = np.delete(self.timestamps(), index, axis=0)

    def __str__(self) -> str:
        return str(self.timestamps())
