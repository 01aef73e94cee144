"""What a benchmark's worker may say over its pipe. Code of the user runs there, so each message is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proveout.coding import from_json
from proveout.measure.outcome import OutputCheck

LONGEST = 64 << 20
"""Bytes of one message."""


@dataclass(frozen=True)
class _Ready:
    load_ns: int
    warmup_calls: tuple[int, ...]
    overhead_ns: float
    device_kind: str
    notes: object


@dataclass(frozen=True)
class _LoopResult:
    calls: int
    errors: int
    traceback: str
    reason: str


@dataclass(frozen=True)
class _Finished:
    runs: tuple[_LoopResult, ...]
    missing_items: tuple[int, ...]
    check: OutputCheck | None


@dataclass(frozen=True)
class _Failed:
    traceback: str


@dataclass(frozen=True)
class _Measured:
    """The measured phase is over."""


_EVENTS: dict[str, type] = {"ready": _Ready, "measured": _Measured, "finished": _Finished, "failed": _Failed}


def checked(message: Any, callers: int) -> tuple[str, dict[str, Any]]:
    """The kind of a message and its fields; ValueError where it is none that a worker of so many callers sends."""
    if not isinstance(message, dict) or message.get("event") not in _EVENTS:
        raise ValueError("an unknown event")
    fields = {name: value for name, value in message.items() if name != "event"}
    read: Any = from_json(_EVENTS[message["event"]], fields)
    if isinstance(read, _Ready):
        notes = read.notes if isinstance(read.notes, dict) else {"": None}
        if not all(isinstance(part, str) for pair in notes.items() for part in pair):
            raise ValueError("its notes are no words")
        if len(read.warmup_calls) not in (0, callers):
            raise ValueError(f"it warmed up for another number of callers than {callers}")
    if isinstance(read, _Finished) and not len(read.runs) == len(read.missing_items) == callers:
        raise ValueError(f"it speaks for another number of callers than {callers}")
    return message["event"], fields
