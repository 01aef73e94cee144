"""How numbers are said: `counted(2, "step")` "2 steps", `byte_count(1_500_000)` "1.5 MB", `rounded(1921.4)` "1,921"."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """The count with its noun, in the plural where it is one; `many` where that is not the noun with an s."""
    return f"{count:,} {noun if abs(count) == 1 else many or noun + 's'}"


def byte_count(size: int) -> str:
    """In the largest unit that it has one of."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"


def rounded(value: float, digits: int = 3) -> str:
    """In so many digits, and a large number whole: never as a power of ten."""
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:,.{digits}g}"
