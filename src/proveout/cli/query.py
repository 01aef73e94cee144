"""`proveout query`: the Records of a cache, asked in SQL."""

from __future__ import annotations

import csv
import io
from typing import Annotated

import typer

from proveout.cli.request import CacheDir, Json
from proveout.errors import UsageError


def verb(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Any DuckDB query.", show_default=False)],
    cache_dir: CacheDir = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV instead of a table.")] = False,
) -> int:
    """Ask the results in SQL.

    The tables are records, ops, timings and comparisons; a mistake in the SQL lists their columns.

    \b
    Examples:
      proveout query "select model, compiled_ms, compiled_kind from records"
      proveout query "select aten, reason from ops where state = 'host'" --csv
    """
    from proveout.cli.output import colour, emit, emit_json, note
    from proveout.report.terminal import grid
    from proveout.store import Store, query

    if as_json and as_csv:
        raise UsageError("--json and --csv are two formats; choose one.")
    store = Store(cache_dir)
    records, bad = store.records()
    columns, rows = query(records, sql)
    unreadable = [{"file": path.relative_to(store.folder).as_posix(), "reason": reason} for path, reason in bad]
    if as_json:
        emit_json({"cache": str(store.folder), "columns": columns, "rows": rows, "unreadable": unreadable})
        return 0
    emit(_csv(columns, rows) if as_csv else grid(columns, rows, colour()))
    note(f"cache {store.folder}: {len(records)} read")
    for file in unreadable:
        note(f"could not read {file['file']}: it {file['reason']}")
    return 0


def _csv(columns: list[str], rows: list[tuple[object, ...]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return out.getvalue()
