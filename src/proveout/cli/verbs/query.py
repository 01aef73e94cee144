"""`proveout query`: the Records of a cache, asked in SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from proveout.cli.options import CacheDir, Json
from proveout.cli.output import colour, emit, emit_json, note
from proveout.errors import UsageError
from proveout.report.cells import render
from proveout.report.tables.terminal import grid
from proveout.store import Store, query


def verb(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="A query in DuckDB's SQL. It can only read.", show_default=False)
    ],
    cache_dir: CacheDir = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV instead of a table.")] = False,
) -> int:
    """Query the results with SQL.

    The tables are records, ops, variations, timings, comparisons and fallbacks.

    \b
    Examples:
      proveout query "describe records"                    the columns of a table
      proveout query "select model, compiled_ms, compiled_kind from records"
      proveout query "select aten, reason from ops where state = 'host'" --csv
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv are two formats; choose one.")
    store = Store(cache_dir)
    records, bad = store.records()
    columns, rows = query(records, sql)
    unreadable = [{"file": path.relative_to(store.folder).as_posix(), "reason": reason} for path, reason in bad]
    if as_json:
        emit_json({"cache": str(store.folder), "columns": columns, "rows": rows, "unreadable": unreadable})
        return 0
    emit(render([columns, *rows]) if as_csv else grid(columns, rows, colour()))
    note(f"cache {store.folder}: {len(records)} read")
    for file in unreadable:
        note(f"could not read {file['file']}: it {file['reason']}")
    return 0
