"""What a report says, whatever its format: the rows, the columns as data and the words for each value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from proveout.columns.column import Place, Shown
from proveout.columns.table import Row, row, shown
from proveout.columns.words import NOTHING, STATUS, ShownStatus, StatusWords, number
from proveout.errors import UsageError
from proveout.store import Store
from proveout.types import PROMISED, OpState, Record, Timing
from proveout.words import counted


@dataclass(frozen=True)
class Report:
    """The Records of a store, their flat rows in the same order, and the files nobody could read."""

    records: tuple[Record, ...]
    rows: tuple[Row, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    """(file below the store's folder, reason)."""


def load(store: Store) -> Report:
    """Read a whole store; an empty one is a UsageError that says how to fill it."""
    records, bad = store.records()
    if not records and not bad:
        raise UsageError(f"there are no results in {store.folder}. Run: proveout benchmark SCRIPT.py")
    unreadable = tuple((path.relative_to(store.folder).as_posix(), reason) for path, reason in bad)
    return Report(tuple(records), tuple(map(row, records)), unreadable)


OP_STATE: dict[OpState, StatusWords] = {
    "converted": StatusWords("✅", "✓", "converted"),
    "removed": StatusWords("✂", "✂", "removed"),
    "host": StatusWords("✘", "✘", "host"),
}


def interval(timing: Timing, between: str = " – ") -> str | None:
    """The interval of a timing, in ms."""
    return None if timing.interval_ns is None else between.join(number(ns / 1e6) or "0" for ns in timing.interval_ns)


def promised(timing: Timing) -> str | None:
    """The interval with how often the truth lies in it: `0.3 – 0.5 (80 %)`."""
    return f"{interval(timing)} ({PROMISED[timing.kind] * 100:.0f} %)" if timing.interval_ns else None


def script_name(path: str) -> str:
    """A script as seen from the folder the report is made in, where it lies below it: reports travel."""
    script = PurePath(path)
    return script.relative_to(Path.cwd()).as_posix() if script.is_relative_to(Path.cwd()) else str(script)


COLUMNS = shown()


def columns_for(place: Place, rows: Sequence[Row]) -> list[Shown]:
    """The columns of one place for these rows. Markdown has the empty ones too: there the columns are a format."""
    return [
        c
        for c in COLUMNS
        if place in c.places
        and (place == "markdown" or any(c.value(flat) != NOTHING for flat in rows))
        and not (c.distinguishes and len({c.value(flat) for flat in rows}) < 2)
    ]


def counts(report: Report) -> list[tuple[str, ShownStatus, int]]:
    """How many rows have each status by its words, in the order of `STATUS`; what was only compiled is told apart, and
    passes and failures are told even where there are none."""
    rows = Counter(flat.status for flat in report.rows)
    return [(words.words, s, rows[s]) for s, words in STATUS.items() if rows[s] or s in ("passed", "failed")]


def different(report: Report) -> int:
    """How many different results the rows are."""
    return len({result_of(record, flat) for record, flat in zip(report.records, report.rows, strict=True)})


def sentence(report: Report) -> str:
    """How many rows there are, and how many results they are in truth."""
    rows, results = counted(len(report.rows), "row"), different(report)
    return f"{rows}, all different." if results == len(report.rows) else f"{rows}, {results:,} different results."


def made(report: Report) -> str:
    """Of how many scripts the rows are, when they were made and with which versions; nothing where no Record tells."""
    known = [(record.created[:10], dict(record.environment)) for record in report.records if record.environment]
    if not known:
        return ""
    days = sorted({day for day, _ in known})
    versions = {name: sorted({e[name] for _, e in known if name in e}) for name in ("torch", "transformers")}
    with_ = " and ".join(f"{name} {', '.join(found)}" for name, found in versions.items() if found)
    scripts = counted(len({record.job.workload.script for record in report.records}), "script")
    return f"Of {scripts}; made on {' to '.join(dict.fromkeys((days[0], days[-1])))} with {with_}."


def result_of(record: Record, flat: Row) -> object:
    """What makes a result another one: the Programs that ran, the device and the settings; of a model without a
    Program, the model."""
    programs = tuple(fingerprint for fingerprint, _ in record.programs)
    return programs or (flat.model, flat.script), flat.device, flat.settings, flat.did


def unreadable_lines(report: Report) -> list[str]:
    """The files that could not be read, one line each below a heading; nothing when all could."""
    bad = report.unreadable
    if not bad:
        return []
    head = "1 file could not be read:" if len(bad) == 1 else f"{len(bad)} files could not be read:"
    return [head, *(f"{path} {reason}" for path, reason in bad)]
