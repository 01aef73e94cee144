"""What is asked for and when: arrivals by rate or by a trace, and each request's length in and out."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proveout.clock.stamps import Stamps
from proveout.coding import digest, plain_bytes
from proveout.errors import UsageError
from proveout.measure import arrivals
from proveout.serving import Load

TRACE_BYTES = 256 << 20
MOST_REQUESTS = 2_000_000
MOST_TOKENS = 10_000_000


@dataclass(frozen=True)
class Ask:
    """One request: so many tokens in (or this text), at most so many out."""

    prompt_tokens: int
    max_tokens: int
    prompt: str = ""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Requests in the order in which they are due, in ns after the run begins."""

    intended_ns: Stamps
    asks: tuple[Ask, ...]
    load: Load

    def __len__(self) -> int:
        return len(self.asks)

    @property
    def digest(self) -> str:
        """Tells one trace from another."""
        return digest([self.intended_ns.tolist(), [(a.prompt_tokens, a.max_tokens, a.prompt) for a in self.asks]])[:12]

    @property
    def duration_s(self) -> float:
        return float(self.intended_ns[-1]) / 1e9 if len(self.asks) else 0.0


def steady_plan(load: Load, duration_s: float, ask: Ask) -> Schedule:
    """Equal requests at a rate, at equal distances or by Poisson."""
    if load.rate * duration_s > MOST_REQUESTS:
        raise UsageError(
            f"{load.rate:g} requests per second for {duration_s:g} s are more than {MOST_REQUESTS:,}: run it for less."
        )
    intended = (
        arrivals.poisson(load.rate, duration_s, load.seed)
        if load.mode == "poisson"
        else arrivals.constant_rate(load.rate, duration_s)
    )
    if not len(intended):
        raise UsageError(f"{load.rate:g} requests per second for {duration_s:g} s is no request: run it for longer.")
    return Schedule(intended, (ask,) * len(intended), load)


def replay_plan(path: Path, ask: Ask, speed: float = 1.0) -> Schedule:
    """A trace's requests at its own times, `speed` times as fast; `ask` fills in what the trace does not say."""
    rows = _rows(path)
    if not rows:
        raise UsageError(f"{path.name} holds no request. A trace is CSV or JSON lines with a column at_s.")
    if len(rows) > MOST_REQUESTS:
        raise UsageError(f"{path.name} holds {len(rows):,} requests; at most {MOST_REQUESTS:,} are replayed. Cut it.")
    starts, asks = [], []
    for number, row in enumerate(rows, 1):
        try:
            starts.append(_start_ns(row))
            lengths = [
                _length(row, names, default) for names, default in zip(LENGTHS, (ask.prompt_tokens, ask.max_tokens))
            ]
            prompt = row.get("prompt") or ""
            if not isinstance(prompt, str):
                raise ValueError("prompt is no text")
            asks.append(Ask(lengths[0], lengths[1], prompt))
        except ValueError as error:
            raise UsageError(f"request {number} of {path.name}: {error}.") from None
    intended = arrivals.replay(np.array(starts, dtype=np.int64), speed)
    seconds = max(float(intended[-1]) / 1e9, 1e-9)
    return Schedule(
        intended, tuple(asks), Load("replay", rate=round((len(asks) - 1) / seconds, 3) if len(asks) > 1 else 0.0)
    )


def _rows(path: Path) -> Sequence[Mapping[str, Any]]:
    try:
        text = plain_bytes(path, TRACE_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the trace {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"the trace {path} is not text.") from None
    except ValueError as error:
        raise UsageError(f"the trace: {error}.") from None
    lines = text.splitlines()
    if not text.lstrip().startswith("{"):
        return list(csv.DictReader(lines))
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UsageError(f"line {number} of {path.name} is not a JSON object.")
        rows.append(row)
    return rows


def _iso(value: Any) -> float:
    text = str(value).strip()
    if "." in text:  # Azure's traces have seven digits, one more than Python reads
        whole, _, digits = text.partition(".")
        fraction = "".join(c for c in digits if c.isdigit()) if "+" not in digits else digits.partition("+")[0]
        text = f"{whole}.{fraction[:6]:0<6}"
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp()


STARTS: tuple[tuple[str, Callable[[Any], float]], ...] = (
    ("at_s", float),
    ("at_ms", lambda value: float(value) / 1e3),
    ("timestamp", lambda value: float(value) / 1e3),
    ("TIMESTAMP", _iso),
)
"""When a request came: our own names; Mooncake's, in ms; Azure's, as a date."""
LENGTHS = (
    ("prompt_tokens", "input_length", "ContextTokens"),
    ("max_tokens", "output_length", "GeneratedTokens"),
)


def _start_ns(row: Mapping[str, Any]) -> int:
    for name, read in STARTS:
        if row.get(name) not in (None, ""):
            try:
                seconds = read(row[name])
            except (ValueError, TypeError, OverflowError):
                seconds = float("nan")
            if not abs(seconds) < 1e10:
                raise ValueError(f"its {name} is {str(row[name])[:40]!r}, which is no time")
            return round(seconds * 1e9)
    raise ValueError("it has no time. A trace is CSV or JSON lines with a column at_s")


def _length(row: Mapping[str, Any], names: Sequence[str], default: int) -> int:
    for name in names:
        if row.get(name) not in (None, ""):
            try:
                length = int(row[name])
            except (ValueError, TypeError, OverflowError):
                length = -1
            if not 0 < length <= MOST_TOKENS:
                raise ValueError(f"its {name} is {str(row[name])[:40]!r}, which is no number of tokens")
            return length
    return default
