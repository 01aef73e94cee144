"""How counts are said: `counted(1, "script")` is "1 script", `counted(2, "script")` is "2 scripts"."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """The count with its noun, in the plural where it is one; `many` where that is not the noun with an s."""
    return f"{count:,} {noun if abs(count) == 1 else many or noun + 's'}"
