"""The report for other programs: CSV, a row a Record, and strict JSON with everything below it."""

from __future__ import annotations

import json

from proveout.coding import digest, to_json
from proveout.columns.parts import comparison_rows, fallback_rows, op_rows, timing_rows, variation_rows
from proveout.folders import file_name
from proveout.report.cells import render
from proveout.report.tables.rows import Report
from proveout.store import TABLES
from proveout.types import SCHEMA, Record


def render_csv(report: Report) -> str:
    """Flat columns; a file that could not be read is a row with the status `unreadable`."""
    columns = list(TABLES["records"])
    bad = [{"key": path, "status": "unreadable", "reason": reason} for path, reason in report.unreadable]
    return render([columns, *([row.get(name) for name in columns] for row in (*map(vars, report.rows), *bad))])


OP_COLUMNS = {
    "aten": "The ATen op, with its overload.",
    "state": "`converted` to device kernels; on the `host`; or `removed`: folded, fused, shared, or nothing to do.",
    "reason": "Why it is on the host, or what removed it.",
    "inputs": "One way it is called: each argument by name, tensors as dtype and shape, the others by value.",
    "count": "Its nodes over all graphs of the model that are called in this way and ended in this state.",
    "pcc": "The lowest PCC of the device Steps it became against their reference; empty where none was compared.",
}
"""The columns of a model's op report, and what they say."""


def render_ops_csv(record: Record) -> str:
    """The op report of one model: a row for each op, state, reason and input variation."""
    return render([list(OP_COLUMNS), *([getattr(row, name) for name in OP_COLUMNS] for row in variation_rows(record))])


def page_name(record: Record) -> str:
    """Names a model's page and op report: which model and device, and a digest that tells settings and machines
    apart."""
    plain = file_name(f"{record.job.workload.name[:120]}-{record.job.device}")
    return f"{plain}-{digest([record.job.key, dict(record.environment).get('machine', '')])[:8]}"


def render_json(report: Report) -> str:
    document = {
        "schema": SCHEMA,
        "records": [
            {
                **vars(flat),
                "ops": op_rows(record),
                "variations": variation_rows(record),
                "timings": timing_rows(record),
                "comparisons": comparison_rows(record),
                "fallbacks": fallback_rows(record),
                "graph_breaks": record.coverage.graph_breaks,
                "parallel": record.coverage.parallel,
            }
            for record, flat in zip(report.records, report.rows, strict=True)
        ],
        "unreadable": [{"file": path, "reason": reason} for path, reason in report.unreadable],
    }
    return json.dumps(to_json(document), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
