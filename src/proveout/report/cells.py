"""CSV that spreadsheets open as text: a cell that begins like a formula is kept from becoming one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def cell(value: Any) -> Any:
    """A value as a cell: text that a spreadsheet would compute gets an apostrophe in front; numbers stay numbers, and a
    dash stays a dash."""
    if not isinstance(value, str) or value == "-" or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def render(rows: Iterable[Sequence[Any]]) -> str:
    """Rows of cells as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()
