"""The board: every Record of the store, to filter, to sort, to follow over time and to open."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import streamlit as st

from proveout.app import data, explorer_charts, links, tables, theme
from proveout.app.data import Board, Entry
from proveout.app.options import store, typed
from proveout.app.tables import Cells, Column
from proveout.columns.column import OnBoard
from proveout.columns.table import on_board
from proveout.columns.words import STATUS, pcc_text
from proveout.types import Kind, Source
from proveout.words import counted

KINDS: tuple[Kind, ...] = get_args(Kind)

OVER_TIME = "The same model, device and numbers, oldest first."
OF_THE_STORE = (
    OnBoard("Modelled, over time", 85, "trend", help=OVER_TIME, key="modelled_trend"),
    OnBoard("Measured, over time", 105, "trend", help=OVER_TIME, key="measured_trend"),
    OnBoard("Record", 990, help="Its place in the store; deep links name it.", key="id"),
)
"""What a row alone cannot tell; all else of the board follows from the table of flat columns."""
FLAT = on_board()
COLUMNS = [
    Column(c.key, c.title, c.shape, c.format, c.width, c.help, c.pinned)
    for c in sorted((*FLAT, *OF_THE_STORE), key=lambda c: c.order)
]
SORTS = {
    "model": ("model", False),
    "newest": ("created", True),
    "slowest, modelled": ("modelled_ms", True),
    "slowest, measured": ("measured_ms", True),
    "lowest PCC": ("pcc", False),
    "most on the host": ("coverage", False),
}
"""What the board can be sorted by: the column, and whether the greatest comes first."""
BOTH = "both kinds"
NEWEST = "One Record, the newest, for each model, device and numbers."


@dataclass(frozen=True)
class Wanted:
    """The filter, as the address has it."""

    text: str = ""
    statuses: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    kind: str = ""
    sort: str = "model"
    latest: bool = True

    def takes(self, entry: Entry) -> bool:
        flat = entry.row
        words = (flat.model, flat.script, flat.class_name, flat.labels, flat.reason, flat.failure, flat.machine)
        text = " ".join(words)
        return (
            all(word in text.lower() for word in self.text.lower().split())
            and (not self.statuses or flat.status in self.statuses)
            and (not self.devices or flat.device in self.devices)
            and (not self.kind or flat.compiled_kind == self.kind)
        )


def page() -> None:
    theme.head("Models", "Every result that this store holds: what converts, how close it is, how fast it runs.")
    board = data.board(store().folder)
    if not board.entries and not board.unreadable:
        theme.empty(
            "Nothing here yet",
            f"The store {board.folder} holds no results. This fills it; or try a task of the playground.",
            typed("proveout benchmark --all --search-dir selftest --device sim"),
        )
        return
    _tiles(board)
    _unreadable(board)
    wanted = _filter(board)
    entries = chosen(board, wanted)
    if not entries:
        theme.empty("No model matches", f"Widen the filter: {counted(len(board.entries), 'Record')} in the store.")
        return
    rows = [_row(board, entry) for entry in entries]
    st.caption(
        f"{len(entries):,} of {counted(len(board.entries), 'Record')}. Click one to open it; tick two to compare them."
    )
    selected = tables.show(rows, COLUMNS, "models", select=("multi-row", "single-cell"), key="board")
    _follow(selected, entries)
    _latencies(entries)
    _trends(board, entries)


def chosen(board: Board, wanted: Wanted) -> list[Entry]:
    """The Records that a filter takes, sorted; what has no value for the sort comes last."""
    entries = [e for e in board.entries if not wanted.latest or board.history(e)[-1] is e]
    key, down = SORTS[wanted.sort]
    ranked = [(_sort_value(e, key), e) for e in entries if wanted.takes(e)]
    known = sorted([pair for pair in ranked if pair[0] is not None], key=operator.itemgetter(0), reverse=down)
    return [e for _, e in known] + [e for value, e in ranked if value is None]


def _sort_value(entry: Entry, key: str) -> float | str | None:
    if key.endswith("_ms"):
        return entry.latency_ms(key.removesuffix("_ms"))
    value: float | str | None = entry.coverage if key == "coverage" else getattr(entry.row, key)
    return value.lower() if isinstance(value, str) else value


def _row(board: Board, entry: Entry) -> Cells:
    flat, history = entry.row, board.history(entry)
    trends = {f"{kind}_trend": [t for e in history if (t := e.latency_ms(kind)) is not None] for kind in KINDS}
    return {
        **vars(flat),
        **{c.key: c.value(flat) for c in FLAT if c.value},
        **{name: values if len(values) > 1 else None for name, values in trends.items()},
        "id": entry.id,
    }


def _tiles(board: Board) -> None:
    rows = [e.row for e in board.entries]
    counts = {status: sum(r.status == status for r in rows) for status in STATUS}
    before, remain = sum(r.ops_before or 0 for r in rows), sum(r.ops_remain or 0 for r in rows)
    lowest = min((r.pcc for r in rows if r.pcc is not None), default=None)
    models = len({(r.model, r.script) for r in rows})
    tiles = [
        theme.Tile("Models", f"{models:,}", note=counted(len(rows), "Record")),
        theme.Tile("Passed", f"{counts['passed']:,}", tone="good"),
        *([theme.Tile("Compiled", f"{counts['compiled']:,}", note="not run")] if counts["compiled"] else []),
        theme.Tile("Failed", f"{counts['failed']:,}", tone="bad" if counts["failed"] else "plain"),
    ]
    others = [(status, n) for status, n in counts.items() if n and status in ("expected_failure", "partial")]
    tiles += [theme.Tile(STATUS[status].words.capitalize(), f"{n:,}", tone="warn") for status, n in others]
    if before:
        tiles.append(theme.Tile("Ops off the host", f"{100 * (before - remain) / before:.1f}", "%", f"of {before:,}"))
    if lowest is not None:
        tiles.append(theme.Tile("Lowest PCC", pcc_text(lowest) or "", note="of any output"))
    theme.tiles(tiles)


def _unreadable(board: Board) -> None:
    if not board.unreadable:
        return
    count = len(board.unreadable)
    title = f"{counted(count, 'file')} could not be read"
    with st.expander(title, icon=":material/warning:"):
        rows = [{"file": path, "reason": reason} for path, reason in board.unreadable]
        tables.show(rows, [Column("file", "File"), Column("reason", "Why", width="large")], "unreadable")
        st.caption("Everything else is shown. `proveout cache clean --unreadable` deletes such files.")


def _filter(board: Board) -> Wanted:
    """The filter's widgets. Each is bound to the parameter of its key, so every view has an address."""
    rows = [e.row for e in board.entries]
    statuses = [words.words for s, words in STATUS.items() if any(r.status == s for r in rows)]
    devices = sorted({r.device for r in rows})
    kinds = [k for k in get_args(Source) if any(r.compiled_kind == k for r in rows)]
    bound = links.BOUND
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        text = st.text_input(
            "Filter", key="find", placeholder="model, label, reason …", icon=":material/search:", width=200, **bound
        )
        chosen_statuses = st.multiselect("Status", statuses, key="status", placeholder="any", width=148, **bound)
        chosen_devices = st.multiselect("Device", devices, key="device", placeholder="any", width=148, **bound)
        kind = st.selectbox("Time", [BOTH, *kinds], key="time", width=125, **bound)
        sort = st.selectbox("Sort by", list(SORTS), key="sort", width=165, **bound)
        newest = st.toggle("Newest only", True, key="newest", help=NEWEST, **bound)
    return Wanted(
        text,
        tuple(s for s, words in STATUS.items() if words.words in chosen_statuses),
        tuple(chosen_devices),
        "" if kind == BOTH else kind,
        sort,
        newest,
    )


def _follow(selected: object, entries: Sequence[Entry]) -> None:
    """A clicked name opens its page; ticked rows offer theirs, two of them their comparison."""
    selection = getattr(selected, "selection", None)
    if selection is None:
        return
    cells = [entries[row] for row, column in selection.cells if column == "Model" and row < len(entries)]
    if cells:
        links.go("model", record=cells[0].id)
    ticked = [entries[row] for row in selection.rows if row < len(entries)]
    with st.container(horizontal=True):
        if len(ticked) == 2:
            left, right = ticked
            links.link("Compare the two", "compare", icon=":material/compare_arrows:", left=left.id, right=right.id)
        for entry in ticked[:4]:
            links.link(entry.row.model, "model", icon=":material/search_insights:", record=entry.id)


def _latencies(entries: Sequence[Entry]) -> None:
    """The slowest models, a chart for each kind: times of different kinds never share one."""
    timed = {kind: [e for e in entries if e.latency_ms(kind)] for kind in KINDS}
    kinds = [kind for kind in KINDS if timed[kind]]
    for kind, place in zip(kinds, st.columns(len(kinds)) if kinds else ()):
        with place, st.container(border=True):
            st.html(f"<b>Time of a call</b> {theme.badge(kind, kind)}")
            explorer_charts.show_latencies(timed[kind], kind)


def _trends(board: Board, entries: Sequence[Entry]) -> None:
    histories = {e.subject: board.history(e) for e in entries if len(board.history(e)) > 1}
    st.subheader("Over time", anchor="trends")
    if not histories:
        st.caption("No model has several Records here yet. A new version or another sweep adds points to compare.")
        return
    subjects = sorted(histories, key=lambda s: -len(histories[s]))
    named = {f"{histories[s][-1].title} · {len(histories[s])} Records · {s[-1]}": histories[s] for s in subjects}
    picked = st.selectbox(
        "Model",
        list(named),
        None,
        key="trend",
        width=520,
        placeholder="Choose one to follow",
        **links.BOUND,
    )
    if picked:
        explorer_charts.show_trend(named[picked])
