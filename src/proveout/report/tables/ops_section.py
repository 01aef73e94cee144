"""The HTML report's part about ops: a chart of those that most models have on the host, and all of them in a table."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.columns.words import count, pcc_text
from proveout.report.drawing.element import Html, el
from proveout.report.tables.corpus_ops import SUMMARY_COLUMNS, CorpusOp, summary
from proveout.report.tables.rows import Report
from proveout.words import counted

MOST_BARS = 10
LINE = 40
WIDEST = 58.0
"""Per cent of the width that the longest bar takes; the rest is for its figure."""


def ops(report: Report) -> Html:
    """Empty where no model was captured."""
    rows = summary(report.records)
    if not rows:
        return Html("")
    on_host = [row for row in rows if row.host]
    return el(
        "section",
        el("h2", "Ops over all models"),
        _chart(on_host, len(report.records)) if on_host else el("p", "No op stays on the host.", class_="hint"),
        el("details", el("summary", el("b", f"All {len(rows)} ops")), el("template", _table(rows))),
        class_="card",
        id="ops",
    )


def _chart(rows: Sequence[CorpusOp], total: int) -> Html:
    shown = rows[:MOST_BARS]
    rest = f" {len(rows) - len(shown)} more are in the table below." if len(rows) > len(shown) else ""
    most = max(row.host_models for row in shown)
    picture = el(
        "svg",
        *(_bar(row, LINE * index, WIDEST * row.host_models / most) for index, row in enumerate(shown)),
        width="100%",
        height=LINE * len(shown),
        role="img",
        aria_label="Bar chart of the ops on the host; the table holds the same figures",
    )
    said = f"Ops that stay on the host, by how many of the {total} rows have them there.{rest}"
    return el("figure", el("p", said, class_="hint"), picture)


def _bar(row: CorpusOp, y: int, width: float) -> Html:
    models = counted(row.host_models, "row")
    label = f"{models}, {counted(row.host, 'node')}"
    return el(
        "g",
        el("title", f"{row.aten}: {label}"),
        el("text", row.aten, x=0, y=y + 14),
        el("rect", x=0, y=y + 19, width=f"{width:.2f}%", height=14, rx=3, class_="bar host"),
        el("text", label, x=f"{width:.2f}%", dx=6, y=y + 30, class_="value"),
    )


def _table(rows: Sequence[CorpusOp]) -> Html:
    head = el("tr", *(el("th", name, scope="col", title=explain) for name, explain in SUMMARY_COLUMNS.items()))
    body = [
        el(
            "tr",
            el("td", el("code", row.aten)),
            *(el("td", count(n) or "") for n in row.figures),
            el("td", pcc_text(row.pcc) or ""),
        )
        for row in rows
    ]
    return el("div", el("table", el("thead", head), el("tbody", *body)), class_="scroll")
