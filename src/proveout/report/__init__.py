"""Turns a store of Records into tables: terminal, Markdown, CSV, JSON and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from proveout.errors import EnvironmentFault, unknown
from proveout.report.tables import corpus_ops, data, html, markdown
from proveout.report.tables.rows import Report, load
from proveout.store import Store, write_text

FORMATS: dict[str, Callable[[Report], str]] = {
    "md": markdown.render,
    "csv": data.render_csv,
    "json": data.render_json,
    "html": html.render,
}


def write(store: Store, folder: str | Path, formats: Sequence[str] = tuple(FORMATS)) -> list[Path]:
    """Read a store and write `report.<format>` for each format; with Markdown a page a model, and with both it and CSV
    the ops of all models together.

    The same Records give the same bytes."""
    return save(load(store), folder, formats)


def save(report: Report, folder: str | Path, formats: Sequence[str] = tuple(FORMATS)) -> list[Path]:
    """Write a report that is loaded already."""
    folder = Path(folder).expanduser()
    texts: dict[Path, str] = {}
    for name in formats:
        if name not in FORMATS:
            raise unknown("report format", name, FORMATS)
        texts[folder / f"report.{name}"] = FORMATS[name](report)
    if "md" in formats:
        texts[folder / "ops.md"] = corpus_ops.render_markdown(report)
        for record, flat in zip(report.records, report.rows, strict=True):
            page = folder / markdown.PAGES / f"{data.page_name(record)}.md"
            texts[page] = markdown.render_model(record, flat)
    if "csv" in formats:
        texts[folder / "ops.csv"] = corpus_ops.render_csv(report)
        for record in report.records:
            if record.coverage.ops:
                texts[folder / "ops" / f"{data.page_name(record)}.csv"] = data.render_ops_csv(record)
    return _written(texts)


def save_tables(report: Report, folder: str | Path) -> list[Path]:
    """Write `report.md` and `ops.md` alone, which lead to no other file: what a repository keeps."""
    folder = Path(folder).expanduser()
    return _written(
        {folder / "report.md": markdown.render(report, ""), folder / "ops.md": corpus_ops.render_markdown(report)}
    )


def _written(texts: Mapping[Path, str]) -> list[Path]:
    for path, text in texts.items():
        try:
            write_text(path, text)
        except OSError as error:
            why = error.strerror or str(error)
            raise EnvironmentFault(f"cannot write {path}: {why}. Choose another folder with -o DIR.") from error
    return list(texts)


__all__ = ["FORMATS", "Report", "load", "save", "save_tables", "write"]
