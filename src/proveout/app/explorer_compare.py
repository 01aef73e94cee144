"""Two Records side by side: what differs first, ratios with the kinds of both times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from proveout.app import data, explorer_charts, links, tables, theme
from proveout.app.data import Board, Entry
from proveout.app.options import store, typed
from proveout.app.tables import Cells, Column
from proveout.columns.parts import op_rows
from proveout.columns.table import Row
from proveout.columns.words import called, measured_ratio, number, numbers, pcc_text, plain, status_words, weakness
from proveout.types import OpState, Record
from proveout.words import counted


@dataclass(frozen=True)
class Figure:
    """One line of the comparison."""

    name: str
    value: Callable[[Row], float | str | None]
    kind: Callable[[Row], str | None] = lambda flat: None
    """Which kind of time it is."""
    ratio: bool = True
    what: str = ""
    """For a time: which of a Record's timings it is, whose verdict decides on a ratio."""

    def show(self, flat: Row) -> str | None:
        return plain(self.value(flat))


def _modelled(flat: Row) -> str:
    return "modelled"


def _measured(flat: Row) -> str:
    return "measured"


def _megabytes(size: int | None) -> float | None:
    return None if size is None else size / 1e6


FIGURES = (
    Figure("Status", lambda r: f"{status_words(r).mark} {status_words(r).words}", ratio=False),
    Figure("Compiled, ms", lambda r: r.compiled_ms, lambda r: r.compiled_kind, what="compiled"),
    Figure("Original on eager CPU, ms", lambda r: r.original_ms, lambda r: r.original_kind, what="eager"),
    Figure("Simulation on this host, ms", lambda r: r.host_ms, _measured, what="simulation"),
    Figure("PCC", lambda r: pcc_text(r.pcc), ratio=False),
    Figure("Accuracy, %", lambda r: r.accuracy, ratio=False),
    Figure("ATen ops", lambda r: r.ops_before, ratio=False),
    Figure("Ops on the host", lambda r: r.ops_remain, ratio=False),
    Figure("Transfers", lambda r: r.transfers),
    Figure("Peak SRAM, MB", lambda r: _megabytes(r.l1_peak_bytes), _modelled),
    Figure("Peak DRAM, MB", lambda r: _megabytes(r.dram_peak_bytes), _modelled),
    Figure("Weights on the device, MB", lambda r: _megabytes(r.weight_bytes), _modelled),
    Figure("Compile, s", lambda r: r.compile_s, _measured, ratio=False),
    Figure("Parameters", lambda r: r.parameters, ratio=False),
    Figure("Model", lambda r: r.model, ratio=False),
    Figure("Device", lambda r: r.device, ratio=False),
    Figure("Numbers", numbers, ratio=False),
    Figure("Did", lambda r: r.did, ratio=False),
    Figure("Machine", lambda r: r.machine, ratio=False),
    Figure("Made", lambda r: r.created[:16].replace("T", " "), ratio=False),
    Figure("Reason", lambda r: r.reason, ratio=False),
)


def page() -> None:
    theme.head("Compare", "Two results side by side; what differs comes first.")
    board = data.board(store().folder)
    if len(board.entries) < 2:
        theme.empty(
            "Two Records are needed",
            f"The store {board.folder} holds {len(board.entries)}. Another device or setting makes a second one.",
            typed("proveout benchmark linear.py --search-dir selftest --device sim:n150,sim:p150"),
        )
        return
    left, right = _chosen(board)
    if left is None or right is None:
        theme.empty("No such Record", "The address names a Record that this store does not hold; choose two above.")
        return
    records = data.record(left), data.record(right)
    _verdict(left, right, *records)
    lines = differences(left.row, right.row, *records)
    changed = [line for line in lines if line["differs"]]
    same = [line for line in lines if not line["differs"]]
    columns = [
        Column("what", "What"),
        Column("left", "Left"),
        Column("right", "Right"),
        Column("ratio", "Right ÷ left"),
    ]
    st.subheader(counted(len(changed), "difference"))
    if changed:
        tables.lines(changed, columns, "compare-differences")
    else:
        st.caption("Every figure is the same.")
    _settings(left, right)
    _ops(*records)
    _pcc(left, right, *records)
    with st.expander(f"{counted(len(same), 'figure')} the same"):
        tables.lines(same, columns, "compare-same")


def differences(left: Row, right: Row, a: Record, b: Record) -> list[Cells]:
    """One line for each figure that either has, with its kinds; a ratio only of times that stand, and of one kind, or
    one that names both."""
    lines: list[Cells] = []
    for figure in FIGURES:
        shown = [figure.show(flat) for flat in (left, right)]
        kinds = [figure.kind(flat) or "" for flat in (left, right)]
        if any(shown):
            texts = [f"{text} ({kind})" if text and kind else text or "–" for text, kind in zip(shown, kinds)]
            lines.append(
                {
                    "what": figure.name,
                    "left": texts[0],
                    "right": texts[1],
                    "ratio": (weak(figure.what, a, b) or _ratio(figure, left, right)) if all(shown) else "",
                    "differs": shown[0] != shown[1] or kinds[0] != kinds[1],
                }
            )
    return lines


def weak(what: str, *records: Record) -> str:
    """Why a ratio of these Records' times is not told; empty where both stand."""
    for side, record in zip(("left", "right"), records):
        timing = record.timing(what) if what else None
        if timing is not None and (why := weakness(record, timing)):
            return f"not shown: on the {side}, {why}"
    return ""


def quicker(*records: Record) -> str:
    """How much faster or slower the right one's call is than the left one's, and what clocks leave open of it."""
    timings = [t for record in records if (t := record.timing("compiled"))]
    factor, *ends = measured_ratio(records, timings)
    if factor < 1:
        factor, *ends = (1 / factor, *(1 / end for end in reversed(ends)))
    spread = f" ({ends[0]:.3g} to {ends[1]:.3g})" if ends[0] < ends[1] else ""
    if factor < 1.005 or ends[0] < 1 < ends[1]:
        return f"about as fast as{spread}"
    slower = timings[1].median_ns > timings[0].median_ns
    return f"{factor:.3g} × {'slower' if slower else 'faster'}{spread} than"


def _ratio(figure: Figure, left: Row, right: Row) -> str:
    a, b = figure.value(left), figure.value(right)
    if not figure.ratio or not a or b is None or isinstance(a, str) or isinstance(b, str):
        return ""
    value = f"{b / a:.3g} ×"
    kinds = figure.kind(left) or "", figure.kind(right) or ""
    if not any(kinds):
        return value
    return f"{value} {kinds[0]}" if kinds[0] == kinds[1] else f"{value} {kinds[1]} ÷ {kinds[0]}: not of one kind"


def _chosen(board: Board) -> tuple[Entry | None, Entry | None]:
    """The two Records of the address; choosing another opens its address."""
    newest = sorted(board.entries, key=lambda e: e.row.created, reverse=True)
    sides = {side: board.find(links.given(side)) if links.given(side) else None for side in ("left", "right")}
    if not any(links.given(side) for side in sides):
        sides = dict(zip(("left", "right"), first_pair(newest)))
    picked: dict[str, Entry | None] = {}
    for side, place in zip(sides, st.columns(2)):
        start = sides[side]
        picked[side] = place.selectbox(
            side.capitalize(),
            newest,
            newest.index(start) if start else None,
            format_func=lambda e: f"{e.title} · {e.row.did} · {e.row.created[:16]} · {e.path.stem[:6]}",
            key=f"{side} of {start.id if start else 'none'}",
            placeholder="choose a Record",
        )
    left, right = picked["left"], picked["right"]
    if left and right and (left, right) != (sides["left"], sides["right"]):
        links.go("compare", left=left.id, right=right.id)
    return left, right


def first_pair(newest: Sequence[Entry]) -> tuple[Entry, Entry]:
    """What to start with: the newest result that passed with another of the same model, and that one; else of any
    status; else the newest two."""
    passed = [e for e in newest if e.row.status == "passed"]
    for entries in (passed, newest):
        for position, entry in enumerate(entries):
            same = [e for e in entries[position + 1 :] if called(e.row) == called(entry.row)]
            if same:
                return max(same, key=lambda e: (e.row.did == entry.row.did, e.row.created)), entry
    return newest[1], newest[0]


def _verdict(left: Entry, right: Entry, *records: Record) -> None:
    """The sentence that a reader came for."""
    with st.container(horizontal=True):
        for entry in (left, right):
            links.link(entry.title, "model", icon=":material/search_insights:", record=entry.id)
    a, b = left.row.compiled_ms, right.row.compiled_ms
    if not a or not b:
        return
    kinds = left.row.compiled_kind, right.row.compiled_kind
    if why := weak("compiled", *records):
        st.warning(
            f"{number(a)} ms ({kinds[0]}) → {number(b)} ms ({kinds[1]}): which one is quicker is {why}.",
            icon=":material/rule:",
        )
        return
    name = f"The right one is {quicker(*records)} the left one"
    if kinds[0] == kinds[1]:
        st.info(f"{name}: {number(a)} → {number(b)} ms a call, both {kinds[0]}.", icon=":material/timer:")
    else:
        st.warning(
            f"{number(a)} ms ({kinds[0]}) → {number(b)} ms ({kinds[1]}): the times are of different kinds. Their "
            "ratio is a modelled ×, not a measured speed-up.",
            icon=":material/rule:",
        )


def _settings(left: Entry, right: Entry) -> None:
    a, b = (json.loads(entry.row.settings) for entry in (left, right))
    rows = [
        {"setting": key, "left": str(a.get(key)), "right": str(b.get(key))}
        for key in sorted({*a, *b})
        if a.get(key) != b.get(key)
    ]
    if rows:
        st.subheader("Settings that differ")
        columns = [Column("setting", "Setting"), Column("left", "Left"), Column("right", "Right")]
        tables.show(rows, columns, "compare-settings")


def _ops(left: Record, right: Record) -> None:
    """Ops whose number in a state differs."""
    counts = [Counter[tuple[str, OpState]]() for _ in range(2)]
    for counter, record in zip(counts, (left, right)):
        for op in op_rows(record):
            counter[op.aten, op.state] += op.count
    rows: list[dict[str, Any]] = [
        {
            "aten": aten,
            "state": state,
            "left": counts[0][aten, state],
            "right": counts[1][aten, state],
        }
        for aten, state in sorted({*counts[0], *counts[1]})
    ]
    changed = [{**r, "change": r["right"] - r["left"]} for r in rows if r["left"] != r["right"]]
    if not changed:
        return
    st.subheader("Ops with a different outcome")
    columns = [
        Column("aten", "ATen op", width="medium"),
        Column("state", "State"),
        Column("left", "Left", "number", "%d"),
        Column("right", "Right", "number", "%d"),
        Column("change", "Change", "number", "%+d"),
    ]
    tables.show(sorted(changed, key=lambda r: -abs(r["change"])), columns, "compare-ops")


def _pcc(left: Entry, right: Entry, a: Record, b: Record) -> None:
    """Step PCC of both, Step by Step, where both compared Steps of the same names."""
    steps = [{c.name: c.pcc for c in record.comparisons if c.scope == "step"} for record in (a, b)]
    shared = [name for name in steps[0] if steps[0][name] is not None and steps[1].get(name) is not None]
    if not shared:
        return
    st.subheader("PCC, Step by Step")
    figure = go.Figure()
    for values, name, colour, symbol in (
        (steps[0], "left", theme.PLAIN, "circle-open"),
        (steps[1], "right", theme.MODELLED, "circle"),
    ):
        figure.add_scatter(
            x=list(range(1, len(shared) + 1)),
            y=[explorer_charts.distance(values[n]) for n in shared],
            mode="markers",
            name=name,
            marker={"color": colour, "size": 8, "symbol": symbol},
            customdata=[[n, values[n]] for n in shared],
            hovertemplate="%{customdata[0]}<br>PCC %{customdata[1]:.6f}<extra>" + name + "</extra>",
        )
    drawn = [y for line in figure.data for y in line.y if y is not None]
    figure.update_yaxes(title="1 − PCC; lower is closer", **theme.log_axis(drawn))
    figure.update_xaxes(title="Step that both compared")
    theme.chart(figure, height=280, key="compare pcc")
    rows = [{"step": n, "left": steps[0][n], "right": steps[1][n]} for n in shared]
    columns = [Column("step", "Step"), *(Column(s, s.capitalize(), "pcc") for s in ("left", "right"))]
    tables.show(rows, columns, "compare-pcc")
