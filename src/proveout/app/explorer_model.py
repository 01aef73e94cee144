"""One model's page: what became of its ops, how close it is, what it takes, where its time goes, what to change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from proveout.app import data, explorer_charts, explorer_program, links, tables, theme
from proveout.app.data import Board, Entry
from proveout.app.figures import TONES, call_tiles
from proveout.app.options import store, typed
from proveout.app.tables import Cells, Column
from proveout.columns.parts import (
    comparison_rows,
    fallback_rows,
    lowest,
    op_rows,
    timing_rows,
    variation_rows,
)
from proveout.columns.read import GENERATION
from proveout.columns.words import called, count, kind_of, number, numbers, status_words
from proveout.report.tables import ledger
from proveout.types import PROMISED, Kind, Record, Settings, Source
from proveout.words import counted


def page() -> None:
    board = data.board(store().folder)
    if not board.entries:
        theme.head("One model", "Ops, accuracy, memory, time and graph of one result.")
        theme.empty(
            "Nothing here yet",
            f"The store {board.folder} holds no results.",
            typed("proveout benchmark linear.py --search-dir selftest"),
        )
        return
    entry = _chosen(board)
    if entry is None:
        theme.head("One model", "Ops, accuracy, memory, time and graph of one result.")
        theme.empty("No such Record", f"The store holds no Record or model {links.given('record')!r}.")
        links.link("All models", "models", icon=":material/view_list:")
        return
    record = data.record(entry)
    _heading(board, entry)
    section = st.segmented_control(
        "Section",
        list(SECTIONS),
        default=next(iter(SECTIONS)),
        key="section",
        label_visibility="collapsed",
        **links.BOUND,
    )
    section = section or next(iter(SECTIONS))
    if record.job.do == GENERATION and section not in OF_A_GENERATION:
        theme.empty(
            f"{section}: not kept of a generation",
            "Its times to the first token and per token, and how its tokens agree with eager mode's, are on the page"
            " Generation.",
        )
        return
    SECTIONS[section](board, entry, record)


def _chosen(board: Board) -> Entry | None:
    """The Record of the address; where it names none, the one to choose from all."""
    key = links.given("record")
    if key:
        return board.find(key)
    newest = sorted(board.entries, key=lambda e: e.row.created, reverse=True)
    return st.selectbox("Record", newest, format_func=lambda e: f"{e.title} · {e.row.did} · {e.row.created[:16]}")


def _heading(board: Board, entry: Entry) -> None:
    flat, words = entry.row, status_words(entry.row)
    theme.head(called(flat), flat.class_name or flat.script)
    parts = [
        theme.badge(f"{words.mark} {words.words}", TONES[flat.status]),
        theme.badge(flat.device),
        theme.badge(numbers(flat), title="precision, the format of weights and cache, numerics"),
    ]
    if kind := kind_of(flat.compiled_kind):
        parts.append(theme.badge(f"time {flat.compiled_kind}", kind))
    if entry.programs:
        short = ", ".join(f[:12] for f in entry.programs[:2]) + (" …" if len(entry.programs) > 2 else "")
        parts.append(theme.badge(f"Program {short}", title="fingerprints of what ran"))
    if flat.random_weights:
        parts.append(theme.badge("random weights", "warn", title=flat.random_weights))
    theme.row(*parts)
    if flat.reason:
        (st.error if flat.status == "failed" else st.warning)(flat.reason, icon=":material/report:")
    others = [e for e in board.entries if e.row.model == flat.model and e.id != entry.id]
    with st.container(horizontal=True, vertical_alignment="center"):
        links.link("All models", "models", icon=":material/arrow_back:")
        if entry.row.first_token_ms or entry.row.per_token_ms:
            links.link("Generation", "generation", icon=":material/speed:", record=entry.id)
        if others:
            nearest = max(others, key=lambda e: (e.row.did == flat.did, e.row.created))
            links.link("Compare", "compare", icon=":material/compare_arrows:", left=nearest.id, right=entry.id)
            with st.popover(f"{len(others)} more of this model", type="tertiary"):
                for other in others[:20]:
                    seen = other.row
                    facts = (seen.device, numbers(seen), seen.load, seen.did, seen.created[:16])
                    links.link(" · ".join(filter(None, facts)), "model", record=other.id)


# ------------------------------------------------------------------------------------------ sections


def _overview(board: Board, entry: Entry, record: Record) -> None:
    flat = entry.row
    parts = list(call_tiles(flat, "Original, eager CPU"))
    if flat.accuracy is not None:
        eager = f"eager {flat.accuracy_eager:.2f} %" if flat.accuracy_eager is not None else ""
        parts.append(theme.Tile("Accuracy", f"{flat.accuracy:.2f}", "%", eager))
    if entry.coverage is not None:
        note = f"{flat.ops_remain} of {flat.ops_before} ops stay; {counted(flat.transfers or 0, 'transfer')}"
        parts.append(theme.Tile("Off the host", f"{100 * entry.coverage:.1f}", "%", note))
    if flat.l1_peak_bytes is not None:
        fits = "fits" if flat.fits else "does not fit"
        parts.append(
            theme.Tile("Peak SRAM", number(flat.l1_peak_bytes / 1e6) or "", "MB", f"{fits}; modelled", "modelled")
        )
    if flat.compile_s is not None:
        parts.append(theme.Tile("Compile", number(flat.compile_s) or "", "s", "all stages; measured", "measured"))
    theme.tiles(parts)
    history = board.history(entry)
    if len(history) > 1 and record.job.do != GENERATION:
        st.subheader("Over time")
        explorer_charts.show_trend(history)
    st.subheader("Facts")
    rows = [{"what": what, "value": value} for what, value in _facts(entry, record).items() if value]
    tables.show(
        rows, [Column("what", "What", width="small"), Column("value", "Value", width="large")], _name(entry, "facts")
    )
    if record.log:
        with st.expander("Last lines of its log"):
            st.code(record.log, language=None, wrap_lines=True)


def _facts(entry: Entry, record: Record) -> dict[str, str | None]:
    flat, workload = entry.row, record.job.workload
    stages = ", ".join(f"{stage} {number(seconds)} s" for stage, seconds in record.compile_s)
    return {
        "Script": flat.script,
        "Arguments": flat.script_args,
        "Selector": flat.selector,
        "Inputs": ", ".join(f"{name}: {spec}" for name, spec in workload.inputs),
        "Parameters": count(flat.parameters),
        "Labels": ", ".join(f"{key}: {' '.join(values)}" for key, values in workload.labels),
        "Did": flat.did.replace("+", ", "),
        "Graphs": count(flat.graphs),
        "Graph breaks": "; ".join(record.coverage.graph_breaks),
        "Chips": "; ".join(record.coverage.parallel),
        "Programs": ", ".join(f"{fingerprint[:16]} ({steps} Steps)" for fingerprint, steps in record.programs),
        "Compile stages": stages,
        "Settings": _settings(record.job.settings),
        "Failure": flat.failure,
        "Machine": ", ".join(f"{name} {value}" for name, value in record.environment),
        "Made": flat.created[:19].replace("T", " "),
        "Record": entry.id,
    }


def _settings(settings: Settings) -> str:
    """Those that are not the usual ones."""
    usual = Settings()
    pairs = ((field.name, getattr(settings, field.name)) for field in dataclasses.fields(Settings))
    return ", ".join(f"{name} {value}" for name, value in pairs if value != getattr(usual, name))


def _ops(board: Board, entry: Entry, record: Record) -> None:
    rows = op_rows(record)
    if not rows:
        _none("No ops are known", "The run ended before the model was compiled, or another runtime ran it.", entry)
        return
    chart, text = st.columns([3, 2])
    with chart, st.container(border=True):
        st.markdown("**What happened to the model's ATen ops**")
        explorer_charts.show_op_states(rows)
    with text:
        totals = {s: sum(r.count for r in rows if r.state == s) for s in ("converted", "removed", "host")}
        theme.tiles(
            [
                theme.Tile("Converted", f"{totals['converted']:,}", note="to calls of the device", tone="good"),
                theme.Tile("Removed", f"{totals['removed']:,}", note="folded, fused or nothing to do"),
                theme.Tile("On the host", f"{totals['host']:,}", tone="bad" if totals["host"] else "plain"),
            ]
        )
    tables.show(
        list(map(vars, variation_rows(record))),
        [
            Column("aten", "ATen op", width="medium"),
            Column("state", "State", width="small"),
            Column("count", "Count", "number", "%d"),
            Column("pcc", "Lowest PCC", "pcc"),
            Column("reason", "Why", width="large"),
            Column("inputs", "Called with", width="large"),
        ],
        _name(entry, "ops"),
    )
    st.subheader("Fallback ledger")
    _ledger(entry, record)


def _ledger(entry: Entry, record: Record) -> None:
    """What stays on the host, most worth changing first."""
    if not record.fallbacks:
        st.success("Every op of this model runs on the device or is gone.", icon=":material/check_circle:")
        return
    st.caption(f"{ledger.heading(record)}, most worth changing first. {ledger.caveat(record.fallbacks)}")
    titles, figures = ledger.figures(record.fallbacks)
    said = [dict(ledger.sentences(line)) for line in record.fallbacks]
    rows = [{"rank": i, **dict(zip(titles, cells)), **words} for i, (cells, words) in enumerate(zip(figures, said), 1)]
    words = [("why", "Why"), ("where", "Where"), ("with", "Shares trips with"), ("fix", "What to do")]
    columns = [Column("rank", "#", "number", "%d"), *(Column(title, title) for title in titles)]
    tables.show(rows, [*columns, *(Column(key, title, width="large") for key, title in words)], _name(entry, "ledger"))
    raw = fallback_rows(record)
    tables.download(
        "All digits", tables.render_csv(raw, [Column(k, k) for k in raw[0]]), _name(entry, "ledger-raw.csv"), "text/csv"
    )


def _accuracy(board: Board, entry: Entry, record: Record) -> None:
    rows = [row | {"verdict": "✓ close" if row["passed"] else "✘ off"} for row in comparison_rows(record)]
    if not rows:
        _none("Nothing was compared", "This Record is of a run without a check.", entry, "check")
        return
    columns = [
        Column("name", "Tensor", width="medium"),
        Column("verdict", "Verdict", width="small"),
        Column("pcc", "PCC", "pcc", help="On the device's own operands."),
        Column("accumulated_pcc", "From the start", "pcc", help="Against float32 from the first Step on."),
        Column("threshold", "At least", "number", "%.3g"),
        Column("rel_l2", "Relative L2", "number", "%.3g"),
        Column("max_abs", "Max |Δ|", "number", "%.3g"),
        Column("module", "Module"),
        Column("source", "Line"),
        Column("reason", "Reason", width="large"),
    ]
    st.subheader("Outputs")
    tables.show([r for r in rows if r["scope"] == "output"], columns, _name(entry, "outputs"))
    steps = [r for r in rows if r["scope"] == "step"]
    if not steps:
        _none("No Steps were compared", "This Record is of a run that compared outputs only.", entry, "check")
        return
    with st.container(border=True):
        st.markdown("**PCC per module**")
        modules = by_module(steps)
        explorer_charts.show_module_pcc(modules, steps[0]["threshold"])
        more = f" The lowest 24 of {len(modules)} modules." if len(modules) > 24 else ""
        st.caption(f"The lowest of each module's Steps.{more}")
    tables.show(
        modules,
        [Column("module", "Module", width="medium"), Column("steps", "Steps", "number", "%d"), *columns[2:4]],
        _name(entry, "modules"),
    )
    st.subheader("Steps")
    tables.show(sorted(steps, key=_closeness), columns, _name(entry, "steps"))


def _closeness(cells: Cells) -> tuple[bool, float]:
    """What has no PCC first, then the lowest."""
    return cells["pcc"] is not None, cells["pcc"] or 0


def by_module(steps: Sequence[Cells]) -> list[Cells]:
    """The lowest PCC of the Steps of each module, the lowest module first."""
    groups: dict[str, list[Cells]] = {}
    for step in steps:
        groups.setdefault(step["module"], []).append(step)
    rows: list[Cells] = [
        {
            "module": module,
            "steps": len(compared),
            "pcc": lowest(step["pcc"] for step in compared),
            "accumulated_pcc": lowest(step["accumulated_pcc"] for step in compared),
        }
        for module, compared in groups.items()
    ]
    return sorted(rows, key=_closeness)


TIMES = ("median", "mean", "p95", "low", "high")
SOURCES: tuple[tuple[Source, Kind], ...] = (
    ("modelled", "modelled"), ("modelled + measured host", "modelled"), ("measured", "measured"),
)  # fmt: skip


def _statistics(kind: Kind) -> list[Column]:
    """A modelled time is one value; of measured ones there are samples to say more of."""
    inside = [
        Column("low_ms", f"{PROMISED[kind] * 100:.0f} % from ms", "number", "%.5g"),
        Column("high_ms", "to ms", "number", "%.5g"),
    ]
    if kind == "modelled":
        return [Column("median_ms", "Predicted ms", "number", "%.5g"), *inside]
    return [
        Column("median_ms", "Median ms", "number", "%.5g"),
        Column("mean_ms", "Mean ms", "number", "%.5g"),
        Column("p95_ms", "95th percentile ms", "number", "%.5g"),
        *inside,
        Column("n", "Samples", "number", "%d"),
    ]


def _timings(board: Board, entry: Entry, record: Record) -> None:
    if not record.timings:
        _none(
            "Nothing was timed",
            "The run ended before timing began, or timing was not asked for.",
            entry,
            "benchmark",
        )
        return
    rows: list[dict[str, Any]] = [
        {**vars(figures), "conditions": ", ".join(f"{name} {value}" for name, value in timing.conditions)}
        for figures, timing in zip(timing_rows(record), record.timings, strict=True)
    ]
    for source, kind in SOURCES:
        some = [
            r | {f"{k}_ms": r[f"{k}_ns"] / 1e6 if r[f"{k}_ns"] is not None else None for k in TIMES}
            for r in rows
            if r["kind"] == source
        ]
        if not some:
            continue
        theme.row(theme.badge(source, kind))
        tables.show(
            some,
            [
                Column("what", "What"),
                Column("device", "Device"),
                *_statistics(kind),
                Column("verdict", "Verdict"),
                Column("why", "Why", width="large"),
                Column("conditions", "Conditions", width="large"),
            ],
            _name(entry, f"timings-{source}"),
        )
    explorer_charts.show_samples([t for t in record.timings if t.kind == "measured" and len(t.samples_ns) > 1])


def _none(title: str, text: str, entry: Entry, verb: str = "benchmark") -> None:
    theme.empty(title, text, explorer_program.command(verb, entry))


def _name(entry: Entry, what: str) -> str:
    return f"{entry.row.model}-{what}"


SECTIONS: dict[str, Callable[[Board, Entry, Record], None]] = {
    "Overview": _overview,
    "Ops": _ops,
    "Accuracy": _accuracy,
    "Memory": explorer_program.memory,
    "Performance": explorer_program.performance,
    "Graph": explorer_program.graph,
    "Timings": _timings,
}
OF_A_GENERATION = ("Overview", "Timings")
"""Sections of a generation: its Record keeps neither ops nor Programs."""
"""The parts of the page, by the name that the address has."""
