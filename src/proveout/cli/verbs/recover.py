"""`proveout recover`: the reports of a benchmark whose controller was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.options import CacheDir, Json
from proveout.cli.output import emit, emit_json, note
from proveout.errors import UsageError
from proveout.measure import records, runs
from proveout.measure.reports import get_reports
from proveout.measure.sheet import Report
from proveout.report.bench import table, write_json
from proveout.types import Record


def verb(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]…",
            help="Folders that benchmarks left behind; without any, all there are.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Where to write the reports as JSON."),
    ] = Path("."),
    cache_dir: CacheDir = None,
    as_json: Json = False,
) -> int:
    """Rebuild the reports of a benchmark that was killed.

    A benchmark keeps every call's time in shared memory while it runs. When it is killed (kill -9, out
    of memory), its workers end, the times stay, and this makes partial reports of them. The folder is
    removed once its reports are written; they are kept in the cache too.

    \b
    Examples:
      proveout recover
      proveout recover /dev/shm/proveout-run-ab12 -o results
    """
    runs_left = list(folders or runs.left_behind())
    written, messages, damaged = [], [], []
    for folder in runs_left:
        try:
            kept, reports, text = _recovered(folder)
        except UsageError as error:
            if len(runs_left) == 1:
                raise
            damaged.append({"folder": str(folder), "reason": str(error)})
            continue
        if reason := records.keep(kept, cache_dir):
            note(f"not kept in the cache: {reason}")
        out.mkdir(parents=True, exist_ok=True)
        file = write_json(reports, out / f"{folder.name.replace(runs.PREFIX, 'recovered-')}.json")
        runs.forget(folder)
        written.append({"folder": str(folder), "file": file})
        messages.append(text)
    if as_json:
        emit_json({"recovered": written, "damaged": damaged})
        return 1 if damaged else 0
    if not runs_left:
        emit("No benchmark was left behind.")
    for text, entry in zip(messages, written):
        emit(text)
        note(f"written to {entry['file']}; {entry['folder']} is removed")
    for entry in damaged:
        note(f"not recovered, and left where it is: {entry['reason']}")
    return 1 if damaged else 0


def _recovered(folder: Path) -> tuple[list[Record], list[Report], str]:
    """A folder's Records, reports and their table. What is damaged may show only where it is used."""
    outcomes = runs.recover(folder)
    try:
        kept = records.records(outcomes, [records.named(o.configuration) for o in outcomes])
        reports = get_reports(kept)
        return kept, reports, table(reports)
    except runs.DAMAGE as error:
        raise runs.damaged(folder, error) from error
