"""Model by model, the unfolding part of the HTML report: facts, ops, comparisons, timings, log."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.columns.parts import VariationRow, op_rows, timing_rows, variation_rows
from proveout.columns.table import Row
from proveout.columns.words import NOTHING, called, count, number, numbers, pcc_text, status_words
from proveout.report.drawing.element import Html, el, join
from proveout.report.tables.data import page_name
from proveout.report.tables.ledger import caveat, figures, heading, sentences
from proveout.report.tables.rows import OP_STATE, Report, promised, script_name
from proveout.types import Record

LOWEST_STEPS = 10


def details(report: Report) -> Html:
    if not report.records:
        return Html("")
    pairs = zip(report.records, report.rows, strict=True)
    return el(
        "section",
        el("h2", "Model by model"),
        el("p", "Choose a model in the table to open its page here.", class_="hint", id="closed"),
        *(_model(record, flat, page_name(record)) for record, flat in pairs),
        id="details",
    )


def badge(source: str) -> Html:
    """The chip that says where a time comes from."""
    return el("span", source, class_=f"badge {source.partition(' ')[0]}")


def status_chip(flat: Row) -> Html:
    """A status in a symbol, a word and a colour."""
    words = status_words(flat)
    return el("span", f"{words.mark} {words.words}", class_=f"status {flat.status}")


def _model(record: Record, flat: Row, anchor: str) -> Html:
    summary = el(
        "summary",
        el("b", called(flat)),
        el("span", f"{flat.device} · {numbers(flat)}", class_="hint"),
        status_chip(flat),
    )
    content = join(
        el("p", flat.reason, class_=f"reason {flat.status}") if flat.reason else "",
        _facts(record, flat),
        _section("Op conversion", _ops(record)),
        _section("Fallback ledger", _ledger(record)),
        _section("Graph breaks", el("ul", *(el("li", why) for why in record.coverage.graph_breaks)))
        if record.coverage.graph_breaks
        else "",
        _section("Chips", el("ul", *(el("li", note) for note in record.coverage.parallel)))
        if record.coverage.parallel
        else "",
        _section("Comparisons with the reference", _comparisons(record)),
        _section("Timings", _timings(record)),
        _section("Last lines of its log", el("pre", record.log)) if record.log and record.status != "passed" else "",
    )
    # Inert until it is opened: a browser lays out hundreds of tables only when somebody wants to see them.
    return el("details", summary, el("template", content), id=anchor, class_="card model")


def _section(title: str, content: Html) -> Html:
    return el("div", el("h3", title), content) if content else Html("")


def _facts(record: Record, flat: Row) -> Html:
    facts = {
        "Script": script_name(flat.script),
        "Class": flat.class_name,
        "Selector": flat.selector,
        "Inputs": ", ".join(f"{name}: {spec}" for name, spec in record.job.workload.inputs),
        "Labels": ", ".join(f"{key}: {' '.join(values)}" for key, values in record.job.workload.labels),
        "Parameters": count(flat.parameters),
        "Did": flat.did.replace("+", ", "),
        "Graphs": count(flat.graphs),
        "Compile time": f"{number(flat.compile_s)} s" if flat.compile_s is not None else None,
        "DRAM peak (modelled)": _megabytes(flat.dram_peak_bytes),
        "Weights on the device (modelled)": _megabytes(flat.weight_bytes),
        "Fits in memory (modelled)": None if flat.fits is None else ("yes" if flat.fits else "no"),
        "Failure class": flat.failure,
        "Machine": flat.machine,
        "Made": flat.created,
    }
    return el(
        "dl", *(el("div", el("dt", name), el("dd", value)) for name, value in facts.items() if value), class_="facts"
    )


def _megabytes(value: int | None) -> str | None:
    return None if value is None else f"{number(value / 1e6)} MB"


def _ops(record: Record) -> Html:
    called: dict[tuple[str, ...], list[VariationRow]] = {}
    for variation in variation_rows(record):
        called.setdefault((variation.aten, variation.state, variation.reason), []).append(variation)
    return _grid(
        ["ATen op", "Status", "Count", "Reason", "Input variations"],
        [
            [
                el("code", op.aten),
                el("span", f"{OP_STATE[op.state].mark} {OP_STATE[op.state].words}", class_=f"op {op.state}"),
                str(op.count),
                op.reason,
                _variations(called[op.aten, op.state, op.reason]),
            ]
            for op in op_rows(record)
        ],
    )


def _variations(rows: Sequence[VariationRow]) -> Html:
    """How many ways an op was called; unfolded, each with its count and lowest PCC."""
    lines = [
        el("li", f"{v.count} × ", el("code", v.inputs), f" PCC {pcc_text(v.pcc)}" if v.pcc is not None else "")
        for v in rows
        if v.inputs
    ]
    return el("details", el("summary", str(len(lines))), el("ul", *lines)) if lines else Html("")


def _ledger(record: Record) -> Html:
    if not record.fallbacks:
        return Html("")
    titles, rows = figures(record.fallbacks)
    said = [join(*(_said(word, text) for word, text in sentences(line))) for line in record.fallbacks]
    cells = [[str(rank), *row, text] for rank, (row, text) in enumerate(zip(rows, said, strict=True), 1)]
    return join(
        el("p", f"{heading(record)}, most worth changing first. {caveat(record.fallbacks)}", class_="hint"),
        _grid(["#", *titles, "Why, where and what to do"], cells),
    )


def _said(word: str, text: str) -> Html:
    return el("div", el("b", f"{word}: "), text)


def _comparisons(record: Record) -> Html:
    comparisons = record.comparisons
    outputs = [c for c in comparisons if c.scope == "output"]
    steps = sorted((c for c in comparisons if c.scope == "step"), key=lambda c: (c.pcc is not None, c.pcc or 0, c.name))
    shown = outputs + steps[:LOWEST_STEPS]
    table = _grid(
        ["Tensor", "Verdict", "PCC", "At least", "Relative L2", "Max |Δ|", "Reason"],
        [
            [
                join(f"{c.scope} ", el("code", c.name)),
                el("span", "✓ close" if c.passed else "✘ off", class_=f"op {'converted' if c.passed else 'host'}"),
                pcc_text(c.pcc) or NOTHING,
                number(c.threshold) or "0",
                number(c.rel_l2) or NOTHING,
                number(c.max_abs) or NOTHING,
                c.reason,
            ]
            for c in shown
        ],
    )
    rest = len(steps) - LOWEST_STEPS
    return join(table, el("p", f"{rest} more steps with a higher PCC.", class_="hint")) if rest > 0 else table


TIMING_TITLES = (
    "What", "Kind", "Device", "Median ms", "Mean ms", "95th percentile ms", "Interval", "Samples", "Verdict",
    "Conditions",
)  # fmt: skip


def _timings(record: Record) -> Html:
    return _grid(
        TIMING_TITLES,
        [
            [
                row.what,
                badge(row.kind),
                row.device,
                *(NOTHING if ns is None else number(ns / 1e6) for ns in (row.median_ns, row.mean_ns, row.p95_ns)),
                promised(timing),
                str(row.n),
                f"{timing.verdict}: {timing.why}" if timing.why else timing.verdict,
                ", ".join(f"{name} {value}" for name, value in timing.conditions),
            ]
            for row, timing in zip(timing_rows(record), record.timings, strict=True)
        ],
    )


def _grid(titles: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Html:
    """A small table; columns that are empty in every row are left out, and no rows are no table."""
    used = [i for i in range(len(titles)) if any(cells[i] for cells in rows)]
    head = el("tr", *(el("th", titles[i], scope="col") for i in used))
    body = [el("tr", *(el("td", cells[i] or "") for i in used)) for cells in rows]
    table = el("table", el("thead", head), el("tbody", *body))
    return el("div", table, class_="scroll") if rows else Html("")
