"""Generation: every Record with a time to first token, whether planned, timed or taken under load; and one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from proveout.app import data, links, tables, theme
from proveout.app.data import Entry
from proveout.app.options import store
from proveout.app.tables import Cells, Column
from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN, TOKEN_GAP
from proveout.columns import words
from proveout.columns.table import Row
from proveout.columns.words import called
from proveout.types import Kind, Record, Timing
from proveout.words import byte_count, rounded

COLUMNS = (
    Column("name", "Model", width="medium", pinned=True),
    Column("device", "Device", width="small"),
    Column("numbers", "Numbers", help="Precision, the format of weights and cache and, on sim, the numerics."),
    Column("kind", "Times", width="small", help="Modelled times are predictions; measured ones come from a clock."),
    Column(
        "load", "Users, tokens, arrivals", help="b is the number of users at once; 64+32: a prompt's tokens, new ones."
    ),
    Column("first_token_ms", "TTFT ms", "number", "%.4g", help="Median time to first token."),
    Column("per_token_ms", "TPOT ms", "number", "%.4g", help="Median time per output token after the first."),
    Column("per_user", "Tokens/s/user", "number", "%.4g"),
    Column("tokens_per_s", "Tokens/s", "number", "%.4g"),
    Column("throughput", "Requests/s", "number", "%.4g"),
    Column("goodput", "Goodput/s", "number", "%.4g", help="Requests per second that kept every limit."),
    Column("slo", "Limits"),
    Column("status", "Status", width="small"),
    Column("did", "Did", help="generate: alone; load: under load; run: in the playground."),
    Column("created", "Made", width=125),
)
TITLES = {FIRST_TOKEN: "Time to first token", PER_TOKEN: "Time per output token", TOKEN_GAP: "Gap between tokens"}
PERCENTS = ("50", "90", "99")


def page() -> None:
    theme.head(
        "Generation", "Time to first token, time per token and tokens per second: planned, measured, under load."
    )
    entries = [e for e in data.board(store().folder).entries if kind_of(e.row) is not None]
    if not entries:
        theme.empty(
            "No generation yet",
            "Plan a decoder, put a served one under load, or run text generation in the playground.",
            "proveout tokens transformers/gpt2 --small",
        )
        return
    entries.sort(key=lambda e: e.row.created, reverse=True)
    st.caption("Newest first. Tick one to see it below; times of different kinds never share a chart.")
    selected = tables.show([row(e) for e in entries], COLUMNS, "generation", select=("single-row",), key="generation")
    ticked = [entries[i] for i in getattr(getattr(selected, "selection", None), "rows", ()) if i < len(entries)]
    linked = [e for e in entries if links.given("record") in (e.id, e.path.stem)]
    _one((ticked or linked or entries)[0])


def kind_of(flat: Row) -> Kind | None:
    """Whether a Record's times of tokens are measured or modelled; None where it has none."""
    return words.kind_of(flat.first_token_kind or flat.per_token_kind)


def row(entry: Entry) -> Cells:
    """A Record as this page's table has it."""
    flat = entry.row
    per_token = flat.per_token_ms
    return {
        **vars(flat),
        "name": " ".join(filter(None, (flat.model, flat.script_args))),
        "kind": kind_of(flat),
        "numbers": words.numbers(flat),
        "per_user": 1e3 / per_token if per_token else None,
        "created": flat.created[:16].replace("T", " "),
    }


def _one(entry: Entry) -> None:
    record = data.record(entry)
    report = record.report or {}
    kind = kind_of(entry.row)
    assert kind is not None
    st.subheader(called(entry.row), anchor="one")
    theme.row(
        theme.badge(f"{kind} on {record.job.device}", kind), theme.badge(words.numbers(entry.row)), *_verdict(report)
    )
    links.link("Look inside", "model", icon=":material/search_insights:", record=entry.id)
    theme.tiles(_tiles(record, kind))
    for problem in report.get("verdict_reasons", ())[:6]:
        st.caption(f"{problem['found']}. {problem['advice']}.")
    timings = [t for t in record.timings if t.what in TITLES and len(t.samples_ns) > 1]
    if timings:
        left, right = st.columns(2)
        with left, st.container(border=True):
            st.html(f"<b>Share of requests within a time</b> {theme.badge(kind, kind)}")
            theme.chart(distribution(timings), key="generation-cdf")
        if report.get("series"):
            with right, st.container(border=True):
                st.html(f"<b>By the time at which requests were due</b> {theme.badge(kind, kind)}")
                theme.chart(over_time(report["series"]), key="generation-series")
    if "ttft_ms_p90" in report:
        _percentiles(report)


def _verdict(report: Cells) -> list[str]:
    if not report.get("verdict"):
        return []
    return [theme.badge(report["verdict"], "good" if report["verdict"] == "VALID" else "warn")]


def _tiles(record: Record, kind: theme.Tone) -> list[theme.Tile]:
    tiles = []
    for what, title in ((FIRST_TOKEN, TITLES[FIRST_TOKEN]), (PER_TOKEN, TITLES[PER_TOKEN])):
        if timing := record.timing(what):
            tiles.append(theme.Tile(title, *tables.duration(timing.median_ns), _interval(timing), kind))
    report = record.report or {}
    if later := record.timing(PER_TOKEN):
        tiles.append(theme.Tile("Tokens/s per user", rounded(1e9 / later.median_ns), "", later.kind, kind))
    if total := report.get("tokens_per_s"):
        tiles.append(theme.Tile("Tokens/s", f"{total:.4g}", "", "of all users", kind))
    if agreement := report.get("agreement"):
        note = f"top-5 {agreement['top5']:.1%}; given eager's tokens"
        tiles.append(theme.Tile("Top-1 against eager", f"{100 * agreement['top1']:.1f}", "%", note))
    if cache := report.get("cache_bytes"):
        tiles.append(theme.Tile("Cache", byte_count(cache), "", "of all users"))
    if (good := report.get("good_share")) is not None:
        tone: theme.Tone = "good" if good >= 0.99 else "warn"
        tiles.append(theme.Tile("Kept the limits", f"{good:.1%}", "", report.get("slo", ""), tone))
    if (errors := report.get("errors")) is not None:
        tiles.append(theme.Tile("Failed requests", f"{errors:,}", "", f"of {report['requests']:,}"))
    if (context := report.get("longest_context")) is not None:
        tiles.append(theme.Tile("Longest context", f"{context:,}", "", "that fits in DRAM; modelled", "modelled"))
        tiles.append(theme.Tile("Largest batch", f"{report['largest_batch']:,}", "", "at this length", "modelled"))
    return tiles


def _interval(timing: Timing) -> str:
    if timing.interval_ns is None:
        return timing.kind
    low, high = timing.interval_ns
    return f"{timing.kind}, {rounded(low / 1e6)} to {rounded(high / 1e6)} ms"


def distribution(timings: Sequence[Timing]) -> go.Figure:
    """How many are within a time, of each quantity."""
    figure = go.Figure()
    for timing in timings:
        times = np.sort(np.array(timing.samples_ns)) / 1e6
        places = np.unique(np.linspace(0, len(times) - 1, 300).astype(int))
        shares = (places + 1) / len(times)
        figure.add_scatter(x=times[places], y=shares, name=TITLES[timing.what], mode="lines", line_shape="hv")
    figure.update_xaxes(title="ms", type="log")
    figure.update_yaxes(title="share", tickformat=".0%", range=[0, 1.02])
    return figure


def over_time(series: Sequence[Cells]) -> go.Figure:
    """What those felt that were due in each window: a stall shows where it began."""
    middles = [(w["from_s"] + w["to_s"]) / 2 for w in series]
    figure = go.Figure()
    figure.add_scatter(x=middles, y=[w["ttft_ms_median"] for w in series], name=TITLES[FIRST_TOKEN], mode="lines")
    figure.add_scatter(x=middles, y=[w["tpot_ms_median"] for w in series], name=TITLES[PER_TOKEN], mode="lines")
    figure.update_xaxes(title="s")
    figure.update_yaxes(title="ms, median", rangemode="tozero")
    return figure


def _percentiles(report: Cells) -> None:
    names = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "Response", "late": "Sent late"}
    rows = [
        {"what": title, **{f"p{p}": report.get(f"{name}_ms_p{p}") for p in PERCENTS},
         "most": report.get(f"{name}_ms_p100"), "why": report.get("reasons", {}).get(f"{name}_ms_p99", "")}
        for name, title in names.items()
    ]  # fmt: skip
    columns = [Column("what", "ms"), *(Column(f"p{p}", f"p{p}", "number", "%.4g") for p in PERCENTS)]
    tables.show(rows, [*columns, Column("most", "Most", "number", "%.4g"), Column("why", "Refused")], "percentiles")
