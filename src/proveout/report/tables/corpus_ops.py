"""The ops of all models together: per op what became of it, and each way in which it is called; Markdown and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proveout.columns.parts import VariationRow, lowest, variation_rows
from proveout.columns.words import count, pcc_text
from proveout.report.cells import render
from proveout.report.tables.rows import OP_STATE, Report
from proveout.report.tables.text import escape, table
from proveout.types import OpState, Record

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


@dataclass(frozen=True)
class CorpusVariation(VariationRow):
    """One way in which models call an op."""

    models: tuple[str, ...]
    """By name."""


@dataclass(frozen=True)
class CorpusOp:
    """What became of an op's nodes over all models."""

    aten: str
    converted: int
    removed: int
    host: int
    models: int
    host_models: int
    variations: int
    pcc: float | None

    @property
    def figures(self) -> tuple[int, ...]:
        """In the order of the columns."""
        return (self.converted, self.removed, self.host, self.models, self.variations)


def variations(records: Iterable[Record], name: str = "") -> list[CorpusVariation]:
    """Every way in which an op with `name` in its own name is called, by op, then by how often."""
    ways: dict[tuple[str, OpState, str, str], list[tuple[VariationRow, str]]] = {}
    for record in records:
        for row in variation_rows(record):
            if name in row.aten:
                way = (row.aten, row.state, row.reason, row.inputs)
                ways.setdefault(way, []).append((row, record.job.workload.name))
    rows = [
        CorpusVariation(
            *way,
            sum(row.count for row, _ in calls),
            lowest(row.pcc for row, _ in calls),
            tuple(sorted({model for _, model in calls})),
        )
        for way, calls in ways.items()
    ]
    return sorted(rows, key=lambda r: (r.aten, -r.count, r.inputs, r.state, r.reason))


def summary(records: Sequence[Record]) -> list[CorpusOp]:
    """One row an op; those that most models have on the host come first."""
    by_op: dict[str, list[VariationRow]] = {}
    models, host_models = Counter[str](), Counter[str]()
    for record in records:
        rows = variation_rows(record)
        for row in rows:
            by_op.setdefault(row.aten, []).append(row)
        models.update({row.aten for row in rows})
        host_models.update({op.aten for op in record.coverage.on_host})
    ops = [_op(aten, rows, models[aten], host_models[aten]) for aten, rows in by_op.items()]
    return sorted(ops, key=lambda op: (-op.host_models, -op.host, -op.models, op.aten))


def _op(aten: str, rows: Sequence[VariationRow], models: int, host_models: int) -> CorpusOp:
    nodes = Counter[OpState]()
    for row in rows:
        nodes[row.state] += row.count
    ways, pcc = {row.inputs for row in rows} - {""}, lowest(row.pcc for row in rows)
    return CorpusOp(aten, nodes["converted"], nodes["removed"], nodes["host"], models, host_models, len(ways), pcc)


def render_csv(report: Report) -> str:
    """A row for each op, way of calling it, state and reason."""
    rows = [{**vars(r), "models": len(r.models), "first_model": r.models[0]} for r in variations(report.records)]
    return render([list(VARIATION_COLUMNS), *([row[name] for name in VARIATION_COLUMNS] for row in rows)])


def render_markdown(report: Report) -> str:
    """The op table over all models, then each op's most frequent variations, folded."""
    rows = summary(report.records)
    called: dict[str, list[CorpusVariation]] = {}
    for row in variations(report.records):
        if row.inputs:
            called.setdefault(row.aten, []).append(row)
    parts = [
        "## Ops over all models",
        "Those that most models have on the host come first.",
        table(list(SUMMARY_COLUMNS), [_cells(row) for row in rows], [False, *[True] * (len(SUMMARY_COLUMNS) - 1)]),
        "### Explanation of columns",
        "\n".join(f"**{name}**: {explain}  " for name, explain in SUMMARY_COLUMNS.items()),
        "## Input variations per op",
        f"At most the {MOST_VARIATIONS} most frequent of each op; `ops.csv` has all of them.",
        *(_variations(row.aten, called[row.aten]) for row in rows if row.aten in called),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(op: CorpusOp) -> list[str]:
    return [f"`{op.aten}`", *(count(n) or "" for n in op.figures), pcc_text(op.pcc) or ""]


def _variations(aten: str, rows: Sequence[CorpusVariation]) -> str:
    cells = [
        [
            escape(row.inputs),
            OP_STATE[row.state].symbol,
            str(row.count),
            str(len(row.models)),
            pcc_text(row.pcc) or "",
            escape(row.reason),
        ]
        for row in rows[:MOST_VARIATIONS]
    ]
    titles = ["called with", "status", "count", "models", "PCC", "reason"]
    body = table(titles, cells, [False, False, True, True, True, False])
    return f"<details><summary><code>{aten}</code>: {len(rows):,}</summary>\n\n{body}\n\n</details>"
