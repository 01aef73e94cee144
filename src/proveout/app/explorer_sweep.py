"""A sweep while it runs: done, failed, left, and what is under way; read from its store every two seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import plotly.graph_objects as go
import streamlit as st

from proveout.app import data, links, tables, theme
from proveout.app.options import store, typed
from proveout.app.tables import Column
from proveout.sweep import State, states
from proveout.words import counted

EVERY_S = 2.0


def page() -> None:
    theme.head("Sweep", "Progress of a sweep: done, failed, left. The page updates while it runs.")
    sweeps = states(store())
    if not sweeps:
        theme.empty(
            "No sweep yet",
            f"Commands that run models over the store {store().folder} appear here while they run.",
            typed("proveout benchmark --all --search-dir selftest --device sim --jobs 2"),
        )
        return
    names = [_title(state) for state in sweeps]
    picked = (
        sweeps[names.index(st.selectbox("Sweep", names, key="sweep", **links.BOUND))] if len(sweeps) > 1 else sweeps[0]
    )
    # A fragment runs again by itself: only a sweep that is under way needs that.
    st.fragment(_show, run_every=EVERY_S if picked.is_alive else None)(picked.name)


def _title(state: State) -> str:
    words = state.ended or ("running" if state.is_alive else "died")
    return f"{state.started[:16].replace('T', ' ')} · {state.what} · {words}"


def _show(name: str) -> None:
    state = next((s for s in states(store()) if s.name == name), None)
    if state is None:
        theme.empty("This sweep is no longer listed", "Only the newest sweeps are listed; all Records are kept.")
        return
    tone, words = _status(state)
    theme.row(
        theme.badge(words, tone),
        theme.badge(state.what),
        theme.badge(counted(state.num_scripts, "script")),
        theme.badge(f"process {state.process} on {state.machine}"),
    )
    if state.why:
        st.error(state.why, icon=":material/report:")
    whole = state.num_done + state.num_left
    more = "+" if state.scripts_left else ""
    st.progress(state.num_done / whole if whole else 1.0, f"{state.num_done} of {whole}{more}")
    passed = state.num_done - len(state.failures) if len(state.failures) == state.num_failed else None
    others = len(state.failures) - state.num_failed
    rows = [
        theme.Tile("Done", f"{state.num_done:,}", note=f"{state.num_known:,} from the cache", tone="good"),
        theme.Tile("Failed", f"{state.num_failed:,}", tone="bad" if state.num_failed else "plain"),
        theme.Tile("Left", f"{state.num_left:,}{more}", note=f"{counted(state.scripts_left, 'script')} not read yet"),
        _elapsed(state),
    ]
    if others > 0 and passed is None:
        rows.insert(2, theme.Tile("Expected failures", f"{others:,}", tone="warn"))
    theme.tiles(rows)
    if state.running:
        st.markdown("**Under way**")
        for what in state.running:
            st.markdown(f":material/play_arrow: {what}")
    _over_time(state)
    _failures(state)


def _status(state: State) -> tuple[theme.Tone, str]:
    if state.ended == "finished":
        return "good", "✓ finished"
    if state.ended == "stopped":
        return "warn", "◐ stopped; the same command continues it"
    if state.ended == "failed":
        return "bad", "✘ ended by an error"
    if state.is_alive:
        quiet = _seconds(state.updated, datetime.now(UTC).isoformat())
        return "modelled", "running" if quiet < 120 else f"running; last update {quiet / 60:.0f} min ago"
    return "bad", "✘ its process is gone; the same command continues it"


def _elapsed(state: State) -> theme.Tile:
    figure, unit = tables.duration(1e9 * _seconds(state.started, state.updated))
    return theme.Tile("Took" if state.ended else "Running for", figure, unit, _left(state))


def _left(state: State) -> str:
    """A guess at the time that is left, from the Jobs that were really done."""
    num_new = state.num_done - state.num_known
    if not num_new or not state.num_left or state.ended:
        return ""
    seconds = _seconds(state.started, state.updated) / num_new * state.num_left
    return f"about {' '.join(tables.duration(1e9 * seconds))} left"


def _over_time(state: State) -> None:
    """Records of this store by the time they were made, since the sweep began."""
    board = data.board(store().folder)
    until = state.updated if state.ended else "9"
    finished = sorted(
        (e for e in board.entries if state.started <= e.row.created <= until), key=lambda e: e.row.created
    )
    if len(finished) < 2:
        return
    figure = go.Figure()
    for status, name, colour in (("passed", "passed", theme.GOOD), ("failed", "failed", theme.BAD)):
        some = [e.row.created for e in finished if (e.row.status in ("passed", "compiled")) == (status == "passed")]
        if some:
            counts = list(range(1, len(some) + 1))
            line = {"color": colour, "shape": "hv"}
            label = name if status == "passed" else "not passed"
            figure.add_scatter(x=some, y=counts, mode="lines", name=label, line=line)
    figure.update_yaxes(title="Records made", rangemode="tozero", tickformat=",d")
    with st.container(border=True):
        st.markdown("**Records over time**")
        theme.chart(figure, height=220, key="sweep over time")


def _failures(state: State) -> None:
    if not state.failures:
        return
    st.subheader("What did not pass")
    columns = [
        Column("model", "Model", width="medium"),
        Column("device", "Device", width="small"),
        Column("status", "Status", width=130),
        Column("reason", "Reason", width="large"),
        Column("record", "Record"),
    ]
    rows = [vars(f) for f in state.failures]
    tables.show(rows, columns, "sweep-failures")
    _open(rows)


def _open(rows: Sequence[dict[str, str]]) -> None:
    with st.popover("Open one", icon=":material/search_insights:"):
        for row in rows[:30]:
            links.link(f"{row['model']} on {row['device']}", "model", record=row["record"])


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
