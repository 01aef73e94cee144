"""The report as Markdown: the table of models, what its columns mean, each model's ops, and a page a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proveout.columns.parts import op_rows, timing_rows, variation_rows
from proveout.columns.read import GENERATION
from proveout.columns.table import Row
from proveout.columns.words import NOTHING, called, corpus, count, number, numbers, pcc_text, status_words
from proveout.report.tables import planned
from proveout.report.tables.data import OP_COLUMNS, page_name
from proveout.report.tables.ledger import caveat, figures, heading
from proveout.report.tables.rows import (
    OP_STATE,
    Report,
    columns_for,
    made,
    promised,
    result_of,
    script_name,
    sentence,
    unreadable_lines,
)
from proveout.report.tables.text import escape, table
from proveout.types import Record

PAGES = "models"
"""The folder of the models' pages, seen from the report."""


def render(report: Report, pages: str = PAGES) -> str:
    """The whole report: each row links to the page of its model, and each model's ops follow. Without pages, the
    tables of models alone."""
    true_size, ran = planned.parted(report)
    parts = planned.models(true_size) if true_size.records else []
    if ran.records or not true_size.records:
        parts += [*at_a_glance(ran), *supported_models(ran, pages), *(op_status(ran, pages) if pages else [])]
    return "\n\n".join(parts) + "\n"


GLANCE_COLUMNS = {
    "corpus": "The folder of the models' scripts.",
    "device": "The device they were compiled for.",
    "rows": "Of the table of models.",
    "distinct": "Different results: rows whose models compile to the same Programs for the same settings count once. "
    "At `--small`, checkpoints that differ in size alone can be one.",
    "passed": "Those that compiled, ran, and gave every output within its PCC threshold.",
    "failed": "Those that did not, or were interrupted.",
    "failed as expected": "Scripts labelled `expect::fail` that failed.",
    "only compiled": "Those that were compiled and not run.",
    "lowest PCC": "Of all outputs of those that passed.",
    "ops off the host (%)": "ATen nodes that became device kernels or need none, of all nodes.",
}


def at_a_glance(report: Report) -> list[str]:
    """A line for each corpus and device."""
    groups: dict[tuple[str, str], list[Row]] = {}
    results: dict[tuple[str, str], set[object]] = {}
    for record, flat in zip(report.records, report.rows, strict=True):
        groups.setdefault((corpus(flat), flat.device), []).append(flat)
        results.setdefault((corpus(flat), flat.device), set()).add(result_of(record, flat))
    rows = []
    for (folder, device), rows_of_group in sorted(groups.items()):
        ran = [flat for flat in rows_of_group if flat.status == "passed"]
        pcc = min((flat.pcc for flat in ran if flat.pcc is not None), default=None)
        before = sum(flat.ops_before or 0 for flat in rows_of_group)
        remain = sum(flat.ops_remain or 0 for flat in rows_of_group)
        expected = sum(flat.status == "expected_failure" for flat in rows_of_group)
        compiled = sum(flat.status == "compiled" for flat in rows_of_group)
        share = f"{100 * (before - remain) / before:.1f}" if before else ""
        failed = sum(flat.status in ("failed", "partial") for flat in rows_of_group)
        numbers_ = (len(rows_of_group), len(results[folder, device]), len(ran), failed, expected, compiled)
        counts = [count(n) or "0" for n in numbers_]
        rows.append([escape(folder), escape(device), *counts, pcc_text(pcc) or "", share])
    return [
        "## At a glance",
        f"{sentence(report)} {made(report)}".rstrip(),
        table(list(GLANCE_COLUMNS), rows, [False, False, *[True] * (len(GLANCE_COLUMNS) - 2)]),
        "\n".join(f"**{name}**: {explain}  " for name, explain in GLANCE_COLUMNS.items()),
    ]


def supported_models(report: Report, pages: str) -> list[str]:
    """The table of models and the explanation of its columns. `pages`: where the models' pages are."""
    columns = columns_for("markdown", report.rows)
    rows = [
        [_link(record, flat, pages), *(escape(c.text(flat)) for c in columns[1:])]
        for record, flat in zip(report.records, report.rows, strict=True)
    ]
    return [
        "## Supported Models",
        f"Each row is one model on one device: {sentence(report)} Times are `measured` by a clock or `modelled` by the "
        "embedded model of the chip, and say which.",
        table([c.title for c in columns], rows, [c.numeric for c in columns]),
        *_unreadable(report),
        "### Explanation of Metrics",
        "\n".join(f"**{c.title}**: {c.explain}  " for c in columns),
    ]


HAS_THEM = "a model's page has them, as has its CSV in `ops/`, with these columns:"
CAN_HAVE_THEM = "`proveout report` leaves them in a page and a CSV file for each model."


def op_status(report: Report, pages: str) -> list[str]:
    """Each model's ATen ops with what became of them."""
    parts = [
        "### Op conversion status per model",
        ", ".join(f"{state.symbol} {state.words}" for state in OP_STATE.values())
        + ". A host op runs in PyTorch on the CPU, with transfers around it. Variations are the different ways "
        f"in which an op is called; {HAS_THEM if pages else CAN_HAVE_THEM}",
    ]
    if pages:
        parts.append("\n".join(f"**{name}**: {explain}  " for name, explain in OP_COLUMNS.items()))
    for record, flat in zip(report.records, report.rows, strict=True):
        parts += [f"#### {_link(record, flat, pages)} on {escape(flat.device)}", _ops(record)]
    return parts


def render_model(record: Record, flat: Row) -> str:
    """The page of one model."""
    facts = {
        "Status": f"{status_words(flat).symbol} {flat.reason}",
        "Device": f"{flat.device} {numbers(flat)}",
        "Script": script_name(flat.script),
        "Class": flat.class_name,
        "Inputs": ", ".join(f"{name}: {spec}" for name, spec in record.job.workload.inputs),
        "Labels": ", ".join(f"{key}: {' '.join(values)}" for key, values in record.job.workload.labels),
        "Parameters": count(flat.parameters),
        "Machine": flat.machine,
        "Made": flat.created,
    }
    columns = [c for c in columns_for("markdown", [flat]) if c.key not in ("model", "device", "status", "reason")]
    rows = [[name, escape(value.strip())] for name, value in facts.items() if value]
    rows += [[c.title, escape(c.text(flat))] for c in columns if c.value(flat) != NOTHING]
    parts = [
        f"# {escape(called(flat))}",
        table(["what", "value"], rows, [False, False]),
        "## Op conversion status",
        _ops(record),
        *_ledger(record),
        *_section("Graph breaks", "\n".join(f"- {escape(why)}" for why in record.coverage.graph_breaks)),
        *_section("Chips", "\n".join(f"- {escape(note)}" for note in record.coverage.parallel)),
        *_section("Input variations per op", _variations(record)),
        *_section("Outputs against the reference", _outputs(record)),
        *_section("Timings", _timings(record)),
    ]
    return "\n\n".join(parts) + "\n"


def _link(record: Record, flat: Row, pages: str) -> str:
    name = escape(called(flat))
    return f"[{name}](<{pages}/{page_name(record)}.md>)" if pages else name


def _section(title: str, content: str) -> list[str]:
    return [f"## {title}", content] if content else []


def _ops(record: Record) -> str:
    ways = Counter((v.aten, v.state, v.reason) for v in variation_rows(record) if v.inputs)
    cells = [
        [
            f"`{op.aten}`",
            OP_STATE[op.state].symbol,
            str(op.count),
            str(ways[op.aten, op.state, op.reason] or ""),
            escape(op.reason),
        ]
        for op in op_rows(record)
    ]
    no_ops = "A generation's Record lists no ops." if record.job.do == GENERATION else "No graph was captured."
    titles = ["aten ops", "status", "count", "variations", "reason"]
    return table(titles, cells, [False, False, True, True, False]) if cells else no_ops


def _variations(record: Record) -> str:
    cells = [
        [f"`{v.aten}`", escape(v.inputs), OP_STATE[v.state].symbol, str(v.count), pcc_text(v.pcc) or ""]
        for v in variation_rows(record)
        if v.inputs
    ]
    titles = ["aten op", "called with", "status", "count", "PCC"]
    return table(titles, cells, [False, False, False, True, True]) if cells else ""


def _outputs(record: Record) -> str:
    cells = [
        [
            escape(c.name),
            "✅" if c.passed else "✘",
            pcc_text(c.pcc) or NOTHING,
            number(c.threshold) or "0",
            number(c.rel_l2) or NOTHING,
            number(c.max_abs) or NOTHING,
            escape(c.reason),
        ]
        for c in record.comparisons
        if c.scope == "output"
    ]
    titles = ["output", "close", "PCC", "at least", "relative L2", "max abs", "reason"]
    return table(titles, cells, [False, False, True, True, True, True, False]) if cells else ""


def _timings(record: Record) -> str:
    cells = [
        [
            t.what,
            t.kind,
            t.device,
            *(NOTHING if ns is None else number(ns / 1e6) or "" for ns in (t.median_ns, t.mean_ns, t.p95_ns)),
            promised(timing) or NOTHING,
            str(t.n),
            escape(f"{t.verdict}: {t.why}" if t.why else t.verdict),
        ]
        for t, timing in zip(timing_rows(record), record.timings, strict=True)
    ]
    titles = ["what", "kind", "device", "median ms", "mean ms", "95th percentile ms", "interval", "samples"]
    numeric = [False, False, False, True, True, True, True, True, False]
    return table([*titles, "verdict"], cells, numeric) if cells else ""


def _ledger(record: Record) -> list[str]:
    if not record.fallbacks:
        return []
    titles, rows = figures(record.fallbacks)
    cells = [
        [str(rank), *map(escape, row), escape(line.reason), escape(line.fix)]
        for rank, (line, row) in enumerate(zip(record.fallbacks, rows, strict=True), 1)
    ]
    numeric: Sequence[bool] = [True, False, *[True] * (len(titles) - 1), False, False]
    return [
        "## Fallback ledger",
        f"{escape(heading(record))}, most worth changing first. {caveat(record.fallbacks)}".rstrip(),
        table(["#", *titles, "Why", "Cheapest fix"], cells, numeric),
    ]


def _unreadable(report: Report) -> list[str]:
    head, *files = unreadable_lines(report) or [""]
    return [head, "\n".join(f"- {escape(line)}" for line in files)] if files else []
