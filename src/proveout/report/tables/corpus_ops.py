"""The ops of all models together: per op what became of it, and each way in which it is called; Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from proveout.columns.words import Row, count, pcc_text
from proveout.report.tables.rows import OP_STATE, Report
from proveout.report.tables.text import escape, table
from proveout.store import variation_rows
from proveout.types import Record

SUMMARY_COLUMNS = {
    "aten op": "The ATen op, with its overload.",
    "converted": "Its nodes, over all graphs of all models, that became device kernels.",
    "removed": "Its nodes that need no kernel: folded, fused, shared, or nothing to do.",
    "host": "Its nodes that stay on the host.",
    "models": "Models (with their configurations) that call it.",
    "variations": "Different ways in which it is called.",
    "PCC": "The lowest PCC of the device Steps it became against their reference; empty where none was compared.",
}
VARIATION_COLUMNS = {
    "aten": "The ATen op, with its overload.",
    "inputs": "One way it is called: each argument by name, tensors as dtype and shape, the others by value.",
    "state": "`converted` to device kernels; on the `host`; or `removed`: folded, fused, shared, or nothing to do.",
    "count": "Its nodes over all models that are called in this way and ended in this state.",
    "models": "How many models, by name, call it so.",
    "pcc": "The lowest PCC of the device Steps it became against their reference; empty where none was compared.",
    "reason": "Why it is on the host, or what removed it.",
    "first_model": "The first of those models by name.",
}
MOST_VARIATIONS = 20
"""Of one op in Markdown, most called first; the CSV has them all."""


def variations(records: Iterable[Record], name: str = "") -> list[Row]:
    """Every way in which an op with `name` in its own name is called, by op, then by how often."""
    merged: dict[tuple[str, ...], Row] = {}
    for record in records:
        for row in variation_rows(record):
            if name in row["aten"]:
                key = tuple(row[k] for k in ("aten", "state", "reason", "inputs"))
                seen = merged.setdefault(key, {**row, "count": 0, "pcc": None, "models": set()})
                seen["count"] += row["count"]
                seen["models"].add(record.job.workload.name)
                seen["pcc"] = _lowest((seen["pcc"], row["pcc"]))
    rows = sorted(merged.values(), key=lambda r: (r["aten"], -r["count"], r["inputs"], r["state"], r["reason"]))
    return [{**row, "models": sorted(row["models"])} for row in rows]


def summary(records: Sequence[Record]) -> list[Row]:
    """One row an op; those that most models have on the host come first."""
    by_op: dict[str, Row] = {}
    for record in records:
        callers: set[str] = set()
        for row in variation_rows(record):
            seen = by_op.setdefault(
                row["aten"],
                {"aten": row["aten"], **dict.fromkeys(OP_STATE, 0), "models": 0, "host_models": 0, "variations": set(),
                 "pcc": None},
            )  # fmt: skip
            seen[row["state"]] += row["count"]
            seen["variations"].add(row["inputs"])
            seen["pcc"] = _lowest((seen["pcc"], row["pcc"]))
            seen["models"] += row["aten"] not in callers
            callers.add(row["aten"])
        for aten in {op.aten for op in record.coverage.on_host}:
            by_op[aten]["host_models"] += 1
    rows = [{**row, "variations": len(row["variations"] - {""})} for row in by_op.values()]
    return sorted(rows, key=lambda r: (-r["host_models"], -r["host"], -r["models"], r["aten"]))


def render_csv(report: Report) -> str:
    """A row for each op, way of calling it, state and reason."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(VARIATION_COLUMNS), lineterminator="\n")
    writer.writeheader()
    for row in variations(report.records):
        writer.writerow({**row, "models": len(row["models"]), "first_model": row["models"][0]})
    return out.getvalue()


def render_markdown(report: Report) -> str:
    """The op table over all models, then each op's most frequent variations, folded."""
    rows = summary(report.records)
    called: dict[str, list[Row]] = {}
    for row in variations(report.records):
        if row["inputs"]:
            called.setdefault(row["aten"], []).append(row)
    parts = [
        "## Ops over all models",
        "Those that most models have on the host come first.",
        table(list(SUMMARY_COLUMNS), [_cells(row) for row in rows], [False, *[True] * (len(SUMMARY_COLUMNS) - 1)]),
        "### Explanation of columns",
        "\n".join(f"**{name}**: {explain}  " for name, explain in SUMMARY_COLUMNS.items()),
        "## Input variations per op",
        f"At most the {MOST_VARIATIONS} most frequent of each op; `ops.csv` has all of them.",
        *(_variations(row["aten"], called[row["aten"]]) for row in rows if row["aten"] in called),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(row: Row) -> list[str]:
    figures = (*(row[state] for state in ("converted", "removed", "host")), row["models"], row["variations"])
    return [f"`{row['aten']}`", *(count(n) or "" for n in figures), pcc_text(row["pcc"]) or ""]


def _variations(aten: str, rows: Sequence[Row]) -> str:
    cells = [
        [
            escape(row["inputs"]),
            OP_STATE[row["state"]].symbol,
            str(row["count"]),
            str(len(row["models"])),
            pcc_text(row["pcc"]) or "",
            escape(row["reason"]),
        ]
        for row in rows[:MOST_VARIATIONS]
    ]
    titles = ["called with", "status", "count", "models", "PCC", "reason"]
    body = table(titles, cells, [False, False, True, True, True, False])
    return f"<details><summary><code>{aten}</code>: {len(rows):,}</summary>\n\n{body}\n\n</details>"


def _lowest(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
