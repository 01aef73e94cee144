"""Tables of the explorer: each can be sorted, searched and downloaded as CSV with all its digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import streamlit as st

from proveout.columns.column import Shape
from proveout.columns.words import STATUS
from proveout.folders import file_name
from proveout.report.cells import render

MOST_ROWS, TALL_PX = 14, 500
"""Rows that a table shows whole; one of more scrolls inside this height."""


PCC_PX = 95
"""0.999988 whole: the grid cuts a number that is too wide at its left end."""
COLOURS = {"passed": "green", "compiled": "blue", "failed": "red", "expected_failure": "orange", "partial": "orange"}
STATUS_COLOURS = {f"{w.mark} {w.words}": COLOURS.get(status, "gray") for status, w in STATUS.items()}
"""A status as the board writes it, and its colour."""


Cells = Mapping[str, Any]
"""One line of a table: its values by the columns' keys."""


@dataclass(frozen=True)
class Column:
    """One column: where its value is, what it is called and how it is drawn."""

    key: str
    title: str
    shape: Shape = "text"
    format: str | None = None
    width: Literal["small", "medium", "large"] | int | None = None
    help: str | None = None
    pinned: bool = False


def show(
    rows: Sequence[Cells], columns: Sequence[Column], name: str, *, select: tuple[str, ...] = (), key: str | None = None
) -> Any:
    """Draw a table above its download button; columns that say nothing are left out. With `select` (Streamlit's
    selection modes), gives what is selected."""
    shown = [c for c in columns if any(_has_value(flat.get(c.key)) for flat in rows)]
    frame = {c.title: [_seen(c, flat.get(c.key)) for flat in rows] for c in shown}
    more: dict[str, Any] = {"on_select": "rerun", "selection_mode": list(select)} if select else {}
    chosen = st.dataframe(
        frame,
        hide_index=True,
        width="stretch",
        height="content" if len(rows) <= MOST_ROWS else TALL_PX,
        placeholder="–",
        column_config={c.title: _drawn(c) for c in shown},
        key=key,
        **more,
    )
    download("Download CSV", render_csv(rows, columns), f"{name}.csv", "text/csv")
    return chosen


def lines(rows: Sequence[Cells], columns: Sequence[Column], name: str) -> None:
    """A short table that is read, not sorted: it wraps instead of scrolling, so that a phone shows every column."""
    head = "".join(f"<th>{escape(c.title)}</th>" for c in columns)
    cells = [[escape(str(flat.get(c.key) or "–")) for c in columns] for flat in rows]
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in cells)
    st.html(f'<table class="po-lines"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')
    download("Download CSV", render_csv(rows, columns), f"{name}.csv", "text/csv")


def download(label: str, text: str | bytes, name: str, mime: str) -> None:
    """A button that saves something of this page; the page does not run again for it."""
    safe = file_name(name)
    st.download_button(
        label, text, safe, mime, key=f"download {safe}", icon=":material/download:", on_click="ignore", type="tertiary"
    )


def render_csv(rows: Sequence[Cells], columns: Sequence[Column]) -> str:
    """All columns and all digits; lists with spaces between."""
    return render([[c.key for c in columns], *([_plain(flat.get(c.key)) for c in columns] for flat in rows)])


def _seen(column: Column, value: Any) -> Any:
    """What a cell shows. A PCC is never rounded up to a perfect 1."""
    if column.shape in ("name", "status"):
        return [value] if value else []
    return min(value, 0.999999) if column.shape == "pcc" and value is not None and value < 1 else value


def _plain(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _has_value(value: object) -> bool:
    return value is not None and value != "" and value != []


def _drawn(column: Column) -> Any:
    width = column.width or (PCC_PX if column.shape == "pcc" else None)
    options: Mapping[str, Any] = {"width": width, "help": column.help, "pinned": column.pinned}
    if column.shape in ("number", "pcc"):
        return st.column_config.NumberColumn(format="%.6f" if column.shape == "pcc" else column.format, **options)
    if column.shape == "share":
        return st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=1.0, **options)
    if column.shape in ("name", "status"):
        # A chip: names look as clickable as they are, and a status has its colour.
        colours = {"options": list(STATUS_COLOURS), "color": list(STATUS_COLOURS.values())}
        look: dict[str, Any] = colours if column.shape == "status" else {"color": "violet"}
        return st.column_config.MultiselectColumn(**options, **look)
    if column.shape == "trend":
        return st.column_config.LineChartColumn(width=column.width, help=column.help)
    return st.column_config.TextColumn(**options)


def duration(ns: float) -> tuple[str, str]:
    """A time as people read it: the figure and its unit."""
    for unit, size in (("h", 3.6e12), ("min", 6e10), ("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.3g}", unit
    return f"{ns / 1e3:.3g}", "µs"
