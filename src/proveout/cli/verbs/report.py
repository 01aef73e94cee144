"""`proveout report`: everything the cache knows, in every format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.options import CacheDir, Json
from proveout.cli.output import colour, emit, emit_json, note
from proveout.errors import UsageError
from proveout.report import load, save, save_tables
from proveout.report.tables import terminal
from proveout.report.tables.readme import default_output, write_readme
from proveout.store import Store
from proveout.words import counted

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where its files go.")]


Readme = Annotated[
    Path | None,
    typer.Option(
        "--readme",
        metavar="TEMPLATE",
        help="Paste the tables between a template's markers: docs/README.md.in makes README.md.",
        show_default=False,
    ),
]
ReadmeOutput = Annotated[
    Path | None,
    typer.Option("--readme-output", metavar="FILE", help="Where the filled template goes.", show_default=False),
]


Tables = Annotated[
    bool, typer.Option("--tables", help="Write report.md and ops.md alone, without links: what a repository keeps.")
]


def verb(
    cache_dir: CacheDir = None,
    output: Output = Path("proveout-report"),
    tables: Tables = False,
    readme: Readme = None,
    readme_output: ReadmeOutput = None,
    as_json: Json = False,
) -> int:
    """Show all results, and write them as files.

    Prints the table of models and writes it as Markdown with a page for each model, CSV, JSON and one HTML page that
    opens offline; and the ops of all models, and of each, with their input variations.

    \b
    Examples:
      proveout report -o proveout-report
      proveout report -o docs/report --tables --readme docs/README.md.in
    """
    if readme_output and not readme:
        raise UsageError("--readme-output needs the template that fills it: --readme TEMPLATE")
    store = Store(cache_dir)
    report = load(store)
    files = save_tables(report, output) if tables else save(report, output)
    if readme:
        files.append(write_readme(report, readme, readme_output or default_output(readme), None if tables else output))
    if as_json:
        unreadable = [{"file": path, "reason": reason} for path, reason in report.unreadable]
        names = [str(path) for path in files]
        emit_json({"cache": str(store.folder), "files": names, "records": report.rows, "unreadable": unreadable})
    else:
        emit(terminal.render(report, colour=colour()))
        note(f"{counted(len(report.records), 'result')} in the cache ({store.folder})")
        main = [str(path) for path in files if path.parent == output.expanduser() or (path == files[-1] and readme)]
        note(f"wrote {', '.join(main)}" + "".join(_how_many(files, output / name) for name in ("models", "ops")))
    return 0


def _how_many(files: Sequence[Path], folder: Path) -> str:
    num_own = sum(path.parent == folder.expanduser() for path in files)
    return f"; {counted(num_own, 'file')} in {folder}" if num_own else ""
