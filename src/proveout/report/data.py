"""The report for other programs: CSV, a row a Record, and strict JSON with everything below it."""

from __future__ import annotations

import csv
import io
import json

from proveout.report.rows import Report
from proveout.store import TABLES, comparison_rows, fallback_rows, op_rows, timing_rows
from proveout.types import SCHEMA, to_json


def render_csv(report: Report) -> str:
    """Flat columns; a file that could not be read is a row with the status `unreadable`."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(TABLES["records"]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(report.rows)
    writer.writerows({"key": path, "status": "unreadable", "reason": reason} for path, reason in report.unreadable)
    return out.getvalue()


def render_json(report: Report) -> str:
    document = {
        "schema": SCHEMA,
        "records": [
            {
                **flat,
                "ops": op_rows(record),
                "timings": timing_rows(record),
                "comparisons": comparison_rows(record),
                "fallbacks": fallback_rows(record),
                "graph_breaks": record.coverage.graph_breaks,
            }
            for record, flat in zip(report.records, report.rows, strict=True)
        ],
        "unreadable": [{"file": path, "reason": reason} for path, reason in report.unreadable],
    }
    return json.dumps(to_json(document), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
