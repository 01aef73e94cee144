"""The report as Markdown: the table of models, what its columns mean, and each model's op conversion."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from proveout.report.data import OP_COLUMNS
from proveout.report.ledger import caveat, figures, heading
from proveout.report.rows import COLUMNS, OP_STATE, Report, unreadable_lines
from proveout.store import op_rows, variation_rows
from proveout.types import Record


def render(report: Report) -> str:
    columns = [c for c in COLUMNS if "markdown" in c.places]
    models = _table(
        [c.title for c in columns],
        [[escape(c.text(flat)) for c in columns] for flat in report.rows],
        [c.numeric for c in columns],
    )
    parts = [
        "## Supported Models",
        "Each row is one model on one device. Times are `measured` by a clock or `modelled` by the embedded "
        "model of the chip, and say which.",
        models,
        *_unreadable(report),
        "### Explanation of Metrics",
        "\n".join(f"**{c.title}**: {c.explain}  " for c in columns),
        "### Op conversion status per model",
        ", ".join(f"{state.symbol} {state.words}" for state in OP_STATE.values())
        + ". A host op runs in PyTorch on the CPU, with transfers around it. Variations are the different ways "
        "in which an op is called; `ops/` beside this file has a CSV of them for each model, with these columns:",
        "\n".join(f"**{name}**: {explain}  " for name, explain in OP_COLUMNS.items()),
    ]
    for record, flat in zip(report.records, report.rows, strict=True):
        ways = Counter((v["aten"], v["state"], v["reason"]) for v in variation_rows(record) if v["inputs"])
        cells = [
            [
                f"`{op['aten']}`",
                OP_STATE[op["state"]].symbol,
                str(op["count"]),
                str(ways[op["aten"], op["state"], op["reason"]] or ""),
                escape(op["reason"]),
            ]
            for op in op_rows(record)
        ]
        parts += [
            f"#### {escape(flat['model'])} on {escape(flat['device'])}",
            _table(["aten ops", "status", "count", "variations", "reason"], cells, [False, False, True, True, False])
            if cells
            else "No graph was captured.",
            *_ledger(record),
        ]
    return "\n\n".join(parts) + "\n"


def _ledger(record: Record) -> list[str]:
    if not record.fallbacks:
        return []
    titles, rows = figures(record.fallbacks)
    cells = [
        [str(rank), *map(escape, row), escape(line.reason), escape(line.fix)]
        for rank, (line, row) in enumerate(zip(record.fallbacks, rows, strict=True), 1)
    ]
    table = _table(
        ["#", *titles, "Why", "Cheapest fix"], cells, [True, False, *[True] * (len(titles) - 1), False, False]
    )
    return [f"{escape(heading(record))}, most worth changing first. {caveat(record.fallbacks)}".rstrip(), table]


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*\[\]~])|(?<!\w)_|_(?!\w)", lambda found: "\\" + found.group(), line)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    rule = ["---:" if right else ":---" for right in numeric]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))


def _unreadable(report: Report) -> list[str]:
    head, *files = unreadable_lines(report) or [""]
    return [head, "\n".join(f"- {escape(line)}" for line in files)] if files else []
