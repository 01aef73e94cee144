"""Service level objectives: limits that an answer must keep all at once, such as `ttft=200ms,tpot=50ms`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from proveout.errors import UsageError, unknown
from proveout.load.exchange import Exchange

UNITS = {"us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}

OF: dict[str, tuple[str, Callable[[Exchange], float | None]]] = {
    "ttft": ("time to first token", lambda e: e.first_ns),
    "tpot": ("time per output token after the first", lambda e: e.per_token_ns),
    "itl": ("longest gap between two tokens", lambda e: float(e.gaps_ns.max()) if len(e.pieces_ns) > 1 else None),
    "e2e": ("whole response", lambda e: e.response_ns),
}
"""What may be limited; times count from the intended start. None where an answer has no such time, which is no miss."""


@dataclass(frozen=True)
class Slo:
    """The longest that each may take, in ns."""

    longest_ns: tuple[tuple[str, float], ...] = ()

    def strain(self, exchange: Exchange) -> float:
        """The largest share of a limit that it took: above 1 it missed one. An answer that failed missed all."""
        if exchange.error:
            return math.inf
        values = ((OF[name][1](exchange), longest) for name, longest in self.longest_ns)
        return max((value / longest for value, longest in values if value is not None), default=0.0)

    def kept(self, exchange: Exchange) -> bool:
        return self.strain(exchange) <= 1.0

    def __str__(self) -> str:
        return ",".join(f"{name}={longest / 1e6:g}ms" for name, longest in self.longest_ns)


NO_LIMITS = Slo()


def slo_of(text: str) -> Slo:
    """`ttft=200ms,tpot=50ms`; each name once."""
    longest: dict[str, float] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        name, value = name.strip().lower(), value.strip().lower()
        if name not in OF:
            raise unknown("limit", name, OF)
        unit = next((u for u in ("us", "µs", "ms", "s") if value.endswith(u)), "")
        try:
            number = float(value.removesuffix(unit)) * UNITS[unit]
        except (ValueError, KeyError):
            number = math.nan
        if not 0 < number < math.inf:
            raise UsageError(f"the limit {part!r}: give a time above 0 with its unit, such as {name}=200ms.")
        if name in longest:
            raise UsageError(f"{name} is limited twice. Give it once.")
        longest[name] = number
    return Slo(tuple(longest.items()))
