"""The report as one HTML file that opens offline: summary, table, chart, and each model's details."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath

from proveout.columns.column import Shown
from proveout.columns.table import Row
from proveout.columns.words import NOTHING, STATUS, called, numbers, pcc_text
from proveout.report.drawing.assets import SCRIPT, STYLE
from proveout.report.drawing.element import Html, el, join, page
from proveout.report.tables.chart import bars
from proveout.report.tables.data import page_name
from proveout.report.tables.details import badge, details, status_chip
from proveout.report.tables.ops_section import ops
from proveout.report.tables.rows import COLUMNS, Report, columns_for, counts, different, unreadable_lines
from proveout.words import counted

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The browser itself refuses any request that this page could make."""


def render(report: Report) -> str:
    parts = _summary(report), _unreadable(report), _models(report), details(report), bars(report.rows), ops(report)
    return page(
        "Proveout report",
        STYLE,
        POLICY,
        el("header", el("h1", "Proveout report"), el("p", _subtitle(report.rows), class_="hint")),
        el("main", *parts),
        el("footer", _glossary()),
        el("script", Html(SCRIPT)),
    )


def _subtitle(rows: Sequence[Row]) -> str:
    models, devices, machines = (
        sorted(names - {""}) for names in ({r.model for r in rows}, {r.device for r in rows}, {r.machine for r in rows})
    )
    parts = [counted(len(models), "model"), ", ".join(devices)]
    return " · ".join([*(part for part in parts if part), *([f"made on {', '.join(machines)}"] if machines else [])])


def _summary(report: Report) -> Html:
    tiles = [_tile(str(n), words, status) for words, status, n in counts(report)]
    if (results := different(report)) != len(report.rows):
        tiles.append(_tile(str(results), f"different results in {len(report.rows)} rows", "plain"))
    before = sum(r.ops_before or 0 for r in report.rows)
    if before:
        remain = sum(r.ops_remain or 0 for r in report.rows)
        tiles.append(_tile(f"{100 * (before - remain) / before:.1f} %", "of ops off the host", "plain"))
    lowest = min((r.pcc for r in report.rows if r.pcc is not None), default=None)
    if lowest is not None:
        tiles.append(_tile(pcc_text(lowest) or "", "lowest PCC", "plain"))
    if report.unreadable:
        tiles.append(_tile(str(len(report.unreadable)), "unreadable files", "failed"))
    return el("section", *tiles, class_="tiles", aria_label="Summary")


def _tile(figure: str, words: str, tone: str) -> Html:
    return el("div", el("b", figure), el("span", words), class_=f"tile {tone}")


def _unreadable(report: Report) -> Html:
    head, *files = unreadable_lines(report) or [""]
    return (
        el("section", el("h2", head), el("ul", *(el("li", f) for f in files)), class_="card warning")
        if files
        else Html("")
    )


def _models(report: Report) -> Html:
    rows = report.rows
    if not rows:
        return Html("")
    columns = columns_for("html", rows)
    head = el("tr", *(_heading(column) for column in columns))
    body = [
        el(
            "tr",
            *(_cell(column, flat, page) for column in columns),
            data_status=flat.status,
            data_device=flat.device,
            data_kind=flat.compiled_kind or "none",
            data_model=page,
            data_find=" ".join((flat.script, flat.selector, flat.labels, flat.failure, flat.did, flat.machine)),
        )
        for page, flat in zip(map(page_name, report.records), rows, strict=True)
    ]
    return el(
        "section",
        el("h2", "Supported models"),
        _toolbar(rows, columns),
        el("div", el("table", el("thead", head), el("tbody", *body), id="models"), class_="scroll"),
        class_="card",
    )


def _toolbar(rows: Sequence[Row], columns: Sequence[Shown]) -> Html:
    statuses = [(status, words.words) for status, words in STATUS.items() if status in {r.status for r in rows}]
    devices, kinds = {r.device for r in rows if r.device}, {r.compiled_kind for r in rows if r.compiled_kind}
    return el(
        "div",
        el(
            "input",
            type="search",
            id="find",
            placeholder="Filter by model, script, label or reason",
            aria_label="Filter",
        ),
        _choice("status", "All statuses", statuses),
        _choice("device", "All devices", [(d, d) for d in sorted(devices)]),
        _choice("kind", "Measured and modelled", [(k, f"Only {k}") for k in sorted(kinds)]),
        _choice("sort", "Sort by …", [(str(i), c.short) for i, c in enumerate(columns)]),
        el("output", id="shown"),
        class_="toolbar",
    )


def _choice(name: str, everything: str, options: Iterable[tuple[str, str]]) -> Html:
    rest = [el("option", words, value=value) for value, words in options]
    return el("select", el("option", everything, value=""), *rest, id=name, aria_label=everything)


def _heading(column: Shown) -> Html:
    return el("th", el("button", column.short, type="button", title=column.explain), scope="col", class_=_align(column))


def _cell(column: Shown, flat: Row, page: str) -> Html:
    value, raw = column.value(flat), getattr(flat, column.key)
    kind = getattr(flat, column.kind) if column.kind else None
    if column.key in RICH_CELLS:
        content = RICH_CELLS[column.key](flat, page)
    else:
        content = join(value, " ", badge(kind)) if kind and value != NOTHING else join(value)
    return el(
        "td",
        content,
        class_=" ".join(filter(None, (_align(column), "none" if value == NOTHING else "", f"col-{column.key}"))),
        data_label=column.short,
        data_sort="" if raw is None else raw,
        data_group=kind,
    )


def _model_cell(flat: Row, page: str) -> Html:
    lines = [el("a", called(flat), href=f"#{page}"), el("small", flat.class_name or PurePath(flat.script).name)]
    if flat.reason:
        lines.append(el("small", flat.reason, class_=f"reason {flat.status}"))
    return join(*lines)


RICH_CELLS: dict[str, Callable[[Row, str], Html]] = {
    "model": _model_cell,
    "device": lambda flat, _: join(flat.device, el("small", numbers(flat))),
    "status": lambda flat, _: status_chip(flat),
}
"""The columns that show more than their text, by key."""


def _align(column: Shown) -> str:
    return "number" if column.numeric else ""


def _glossary() -> Html:
    terms = [join(el("dt", column.title), el("dd", column.explain)) for column in COLUMNS]
    return el(
        "details", el("summary", el("b", "Explanation of metrics")), el("dl", *terms, class_="glossary"), class_="card"
    )
