"""Predicts a whole table of published times, of any kind that `tables.py` knows, with four columns added."""

from __future__ import annotations

import csv
import io
import statistics
from dataclasses import dataclass
from pathlib import Path

from proveout.chip.table_rows import READERS, gemm_row
from proveout.chip.tables import kind_of, plain_columns, plain_row, read
from proveout.chip.time import TimeEstimate, device_op_time, product_call_time
from proveout.errors import UsageError

ADDED = ("predicted_ns", "low_ns", "high_ns", "calibrated")


@dataclass(frozen=True)
class Prediction:
    """A table as CSV text with its predictions, and what they come to."""

    text: str
    rows: int
    unpredicted: int
    unreadable: tuple[str, ...]
    """Of those, rows that could not be read: a sentence each, with its line."""
    calibrated: int
    median_error: float | None
    """Against the table's own measured times, where it has any."""


def predict_table(path: Path) -> Prediction:
    """Read a table and predict each of its rows; one that cannot be read keeps no other from its prediction."""
    rows = read(path)
    if not rows:
        raise UsageError(f"{path} has no rows. Give a CSV file with a header line and at least one row.")
    plain = plain_columns(rows[0], str(path))
    kind = kind_of(plain.values(), str(path))
    times: list[TimeEstimate | None] = []
    errors = []
    unreadable = []
    for number, row in enumerate(rows, 2):
        line = f"{path} line {number}"
        try:
            if None in row or None in row.values():
                raise UsageError(f"{line} has {'more' if None in row else 'fewer'} cells than the header.")
            measured, time = _predict(kind, plain_row(row, plain), line)
        except UsageError as refused:
            unreadable.append(str(refused))
            measured, time = None, None
        times.append(time)
        if measured is not None and time is not None:
            errors.append(abs(time.ns / measured - 1))
    if unreadable and all(t is None for t in times):
        raise UsageError(unreadable[0])
    out = io.StringIO()
    columns = [c for c in rows[0] if c not in ADDED]
    writer = csv.DictWriter(out, [*columns, *ADDED], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row, time in zip(rows, times, strict=True):
        writer.writerow(row | dict(zip(ADDED, _cells(time), strict=True)))
    return Prediction(
        out.getvalue(),
        len(rows),
        sum(t is None for t in times),
        tuple(unreadable),
        sum(t is not None and t.calibrated for t in times),
        statistics.median(errors) if errors else None,
    )


def _predict(kind: str, row: dict[str, str], line: str) -> tuple[float | None, TimeEstimate | None]:
    if kind == "gemm":
        product = gemm_row(row, line)
        return product.ns, product_call_time(product.product, product.chip, product.tuned, product.traced)
    parsed = READERS[kind](row, line)
    if parsed is None:
        return None, None
    time = device_op_time(parsed.op, parsed.chip)
    if not parsed.recorded_arch and time.calibrated:
        time = TimeEstimate(time.ns, time.low_ns, time.high_ns, False)
    return parsed.ns, time


def _cells(time: TimeEstimate | None) -> tuple[str, ...]:
    if time is None:
        return ("", "", "", "False")
    return (str(time.ns), str(time.low_ns), str(time.high_ns), str(time.calibrated))
