"""`proveout report`: everything the cache knows, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.request import CacheDir, Json

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the report's files go.")]


def verb(cache_dir: CacheDir = None, output: Output = Path("proveout-report"), as_json: Json = False) -> int:
    """Show all results, and write them as files.

    Prints the table of models and writes it as Markdown, CSV, JSON and one HTML page that opens offline, and each
    model's ops with their input variations as CSV.

    \b
    Example:
      proveout report -o proveout-report
    """
    from proveout.cli.output import colour, emit, emit_json, note
    from proveout.report import load, save, terminal
    from proveout.store import Store

    store = Store(cache_dir)
    report = load(store)
    files = [str(path) for path in save(report, output)]
    if as_json:
        unreadable = [{"file": path, "reason": reason} for path, reason in report.unreadable]
        emit_json({"cache": str(store.folder), "files": files, "records": report.rows, "unreadable": unreadable})
    else:
        emit(terminal.render(report, colour=colour()))
        note(f"cache {store.folder}: {len(report.records)} read")
        main = [file for file in files if Path(file).parent == output.expanduser()]
        more = f" and {len(files) - len(main)} op reports in {output / 'ops'}" if len(files) > len(main) else ""
        note(f"wrote {', '.join(main)}{more}")
    return 0
