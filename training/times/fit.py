"""Fits the time model: `python training/fit_times.py [FOLDER]` writes `chip/data/fit.json` and the page about it.

FOLDER holds the published tables; without one, the copies that come with the product are taken. Errors are found twice:
with every row's shape left out of the fit, and with its source (the model it was profiled in, else the file).
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from proveout.chip.families import FORMS, features_of, form_of
from proveout.chip.intervals import Residuals, coverage, interval, widths_of
from proveout.chip.table_rows import READERS, gemm_row
from proveout.chip.tables import SWEEPS, TimedRow, kind_of, read
from proveout.errors import EnvironmentFault, UsageError
from times import gemm as products
from times.page import write_page
from times.solve import ARCHES, Array, Parameters, Rows, solve, stacked
from times.transfers import fit_transfers
from times.whole import Profile, fit_shared, new_source, whole_profiles

SCHEMA = 2
TABLES = (
    "op_times", "op_profiles", "matmul_sweeps", "matmul_height_sharded", "unary_exp", "conv_bench", "eltwise_times",
    "softmax_reduce_host",
)  # fmt: skip
SHAPE_FOLDS = 10
CALIBRATED_ROWS = 10
"""A form can be calibrated on an architecture from this many measured rows on."""
CALIBRATED_COVER = 0.70
"""And only where its interval held for this share of rows whose source it had never seen."""
UNRELIABLE_CORES = ("qwen_qwen3_6_27b",)
"""Profiles whose core counts are not the cores used: the same call appears with many counts at one time. Of each call
the row with most cores is fitted."""
EXP_SPREAD = (0.6, 1.8)
"""Rows of the `exp` table this far from the uint16 row of their shape and place have a wrong shape or time."""


@dataclass(frozen=True)
class Measured:
    """One row of a table, its form, and where it stands."""

    row: TimedRow
    form: str
    table: str
    line: int
    text: dict[str, str]


@dataclass(frozen=True)
class Judged:
    """All rows of one form: measured, and predicted with shapes or sources left out."""

    form: str
    measured: tuple[Measured, ...]
    rows: Rows
    parameters: Parameters
    by_shape: Array
    by_source: Array


@dataclass(frozen=True)
class Fit:
    """Everything that is committed, and the rows behind it."""

    document: dict[str, Any]
    judged: tuple[Judged, ...]
    gemm: tuple[products.Held, ...]
    left_out: tuple[str, ...]
    covered: dict[tuple[str, int], tuple[bool, bool]]
    """(table, line) to whether the interval held with its shape, with its source left out."""
    profiles: tuple[Profile, ...]


def fit_all(folder: Path | None = None) -> Fit:
    """Fit every form on the tables of a folder."""
    gemm = [gemm_row(r, f"gemm.csv line {i}") for i, r in enumerate(_table(folder, "gemm"), 2)]
    rows, left_out = usable(list(measured_rows(folder)))
    by_form: dict[str, list[Measured]] = defaultdict(list)
    for row in rows:
        by_form[row.form].append(row)
    judged = tuple(_judge(form, by_form[form]) for form in FORMS if by_form.get(form))
    matmul, held = products.fit(gemm)
    swept = [j for j in judged if all(m.table in SWEEPS for m in j.measured)]
    promised = _promises([j for j in judged if j not in swept])
    for one in swept:
        promised = promised.joined(_promises([one]))
    profiles = whole_profiles(judged, promised.without)
    shared, profiles = fit_shared(profiles)
    summaries = _summaries(judged, promised)
    document = {
        "schema": SCHEMA,
        "matmul": matmul,
        "forms": {j.form: _parameters(j) for j in judged},
        "errors": [*products.summaries(held), *summaries],
        "uncalibrated": _uncalibrated(judged),
        "whole": {"shared": shared, "new_source": _short(new_source(summaries), 2)},
        "transfer": fit_transfers(),
    }
    return Fit(document, judged, held, tuple(left_out), promised.covered, profiles)


def measured_rows(folder: Path | None) -> Iterator[Measured]:
    """Every row of every table that has a time and can be predicted."""
    for name in TABLES:
        rows = _table(folder, name)
        kind = kind_of(rows[0], name)
        for line, text in enumerate(rows, 2):
            row = READERS[kind](text, f"{name}.csv line {line}")
            if row is not None and row.ns is not None:
                yield Measured(row, form_of(row.op, row.chip), name, line, text)


def usable(rows: Sequence[Measured]) -> tuple[list[Measured], list[str]]:
    """The rows to fit on, and why the others are not: impossible times, core counts that the log lost, wrong shapes."""
    kept: list[Measured] = []
    why: dict[str, int] = defaultdict(int)
    most: dict[tuple[str, ...], Measured] = {}
    anchors = {_exp_key(r): r.row.ns for r in rows if r.form == "exp" and r.row.op.first.dtype == "uint16"}
    for r in rows:
        ns = r.row.ns or 0.0
        if features_of(r.row.op, r.row.chip).get("dram", 0.0) > ns and r.form in FORMS and r.table == "op_times":
            why[f"{r.table}.csv line {r.line} ({r.form}): faster than the peak rate of DRAM"] += 1
            continue
        if r.form == "exp":
            anchor = anchors.get(_exp_key(r))
            if anchor and not EXP_SPREAD[0] < ns / anchor < EXP_SPREAD[1]:
                why["unary_exp.csv: far from the uint16 row of the same shape and place"] += 1
                continue
        if r.row.source in UNRELIABLE_CORES:
            call = tuple(v for k, v in r.text.items() if k in CALL_COLUMNS)
            if call not in most or (most[call].row.op.cores or 0) < (r.row.op.cores or 0):
                most[call] = r
            continue
        kept.append(r)
    lost = sum(r.row.source in UNRELIABLE_CORES for r in rows) - len(most)
    if lost:
        why[f"op_profiles.csv, {UNRELIABLE_CORES[0]}: repeated calls with cores missing from the log"] = lost
    return [*kept, *most.values()], [f"{n} rows of {w}" if n > 1 else w for w, n in why.items()]


CALL_COLUMNS = ("op_code", "input0", "input1", "input2", "output0", "program_config", "attributes", "phase", "fused")


def _exp_key(row: Measured) -> tuple[object, ...]:
    return (row.row.op.first.shape, row.row.op.first.memory.buffer)


def _table(folder: Path | None, name: str) -> list[dict[str, str]]:
    root = folder if folder is not None else Path(str(resources.files("proveout.chip") / "data"))
    for ending in (".csv", ".csv.gz"):
        if (root / f"{name}{ending}").exists():
            return read(root / f"{name}{ending}")
    raise UsageError(f"{root} has no {name}.csv. Give the folder with the published tables.")


# ---- forms -----------------------------------------------------------------------------------------------------------


def rows_of(measured: Sequence[Measured]) -> Rows:
    return stacked(
        [features_of(m.row.op, m.row.chip) for m in measured],
        [m.row.ns or 1.0 for m in measured],
        [m.row.chip.arch for m in measured],
        [m.row.source for m in measured],
        [m.row.shape for m in measured],
    )


def _judge(form: str, measured: list[Measured]) -> Judged:
    rows = rows_of(measured)
    by_shape = left_out(rows, rows.shape, SHAPE_FOLDS)
    by_source = left_out(rows, rows.source, len(rows))
    return Judged(
        form, tuple(measured), rows, solve(rows), by_shape, np.where(np.isnan(by_source), by_shape, by_source)
    )


def left_out(rows: Rows, key: Array, folds: int) -> Array:
    """Predictions of every row by parameters that no row of its group had a say in; where all rows are one group there
    is none, and for shapes of a single one the guesses stand in."""
    groups = np.unique(key)
    predicted = np.full(len(rows), np.nan)
    if len(groups) < 2:
        return predicted if key is rows.source else solve(rows).predict(rows)
    for fold in range(min(folds, len(groups))):
        hidden = np.isin(key, groups[fold :: min(folds, len(groups))])
        predicted[hidden] = solve(rows.take(~hidden)).predict(rows.take(hidden))
    return predicted


def _parameters(judged: Judged) -> dict[str, dict[str, list[float]]]:
    return {
        arch: {n: [_short(v), _short(s, 2)] for n, (v, s) in judged.parameters.told(i).items()}
        for i, arch in enumerate(ARCHES)
    }


# ---- errors and intervals --------------------------------------------------------------------------------------------


def timing_of(row: TimedRow) -> str:
    return "host" if row.op.param("host") else "kernel"


@dataclass(frozen=True)
class Promises:
    """Intervals, and whether they held."""

    ends: dict[tuple[str, str, int], tuple[float, float]]
    """(form, how it was timed, architecture) to the logarithms of both ends."""
    covered: dict[tuple[str, int], tuple[bool, bool]]
    without: dict[tuple[str, int], tuple[float, float]]
    """(table, line) to both ends as they were found without its source."""

    def joined(self, other: Promises) -> Promises:
        return Promises(self.ends | other.ends, self.covered | other.covered, self.without | other.without)


def _promises(judged: Sequence[Judged]) -> Promises:
    """The intervals of forms that may borrow from each other; a sweep of one operation stands alone."""
    residuals, keys = _residuals(judged)
    ends: dict[tuple[str, str, int], tuple[float, float]] = {}
    covered: dict[tuple[str, int], tuple[bool, bool]] = {}
    without: dict[tuple[str, int], tuple[float, float]] = {}
    names = list(dict.fromkeys((form, timing) for form, timing, _ in keys))
    for arch in range(len(ARCHES)):
        at = np.flatnonzero(residuals.arch == arch)
        if not len(at):
            continue
        widths = widths_of(residuals, arch)
        held = coverage(residuals, arch, widths)
        for n, place in enumerate(at):
            row = keys[place][2]
            covered[row.table, row.line] = (bool(held.shapes[n]), bool(held.sources[n]))
            without[row.table, row.line] = (float(held.low[n]), float(held.high[n]))
        for index in np.unique(residuals.form[at]):
            ends[(*names[index], arch)] = interval(residuals, int(index), arch, widths)
    return Promises(ends, covered, without)


def _residuals(judged: Sequence[Judged]) -> tuple[Residuals, list[tuple[str, str, Measured]]]:
    parts: list[list[Any]] = [[], [], [], [], [], []]
    keys: list[tuple[str, str, Measured]] = []
    forms: dict[tuple[str, str], int] = {}
    sources: dict[str, int] = {}
    shapes: dict[object, int] = {}
    for j in judged:
        for i, m in enumerate(j.measured):
            name = (j.form, timing_of(m.row))
            ns = j.rows.measured[i]
            values = (
                forms.setdefault(name, len(forms)),
                j.rows.arch[i],
                sources.setdefault(m.row.source, len(sources)),
                shapes.setdefault((j.form, m.row.shape), len(shapes)),
                np.log(ns / j.by_shape[i]),
                np.log(ns / j.by_source[i]),
            )
            for part, value in zip(parts, values, strict=True):
                part.append(value)
            keys.append((*name, m))
    return Residuals(*(np.array(p) for p in parts)), keys


def _summaries(judged: Sequence[Judged], promised: Promises) -> list[dict[str, Any]]:
    summaries = []
    for j in judged:
        for timing in dict.fromkeys(timing_of(m.row) for m in j.measured):
            for arch in range(len(ARCHES)):
                here = [i for i, m in enumerate(j.measured) if timing_of(m.row) == timing and j.rows.arch[i] == arch]
                if here:
                    ends = promised.ends[j.form, timing, arch]
                    summaries.append(_summary(j, timing, arch, np.array(here), ends, promised.covered))
    return summaries


def _summary(
    j: Judged,
    timing: str,
    arch: int,
    here: Array,
    ends: tuple[float, float],
    covered: dict[tuple[str, int], tuple[bool, bool]],
) -> dict[str, Any]:
    measured = j.rows.measured[here]
    shape, source = (np.abs(p[here] / measured - 1) for p in (j.by_shape, j.by_source))
    inside = np.array([covered[j.measured[i].table, j.measured[i].line] for i in here])
    sources = len(np.unique(j.rows.source[here]))
    cover = inside.mean(axis=0)
    held = cover[1] >= CALIBRATED_COVER if sources > 1 else cover[0] >= CALIBRATED_COVER
    return {
        "family": j.form,
        "arch": ARCHES[arch],
        "mode": timing,
        "rows": len(here),
        "shapes": len(np.unique(j.rows.shape[here])),
        "sources": sources,
        "median_error": _short(np.median(shape)),
        "p90_error": _short(np.quantile(shape, 0.9)),
        "source_median_error": _short(np.median(source)),
        "source_p90_error": _short(np.quantile(source, 0.9)),
        "low": _short(np.exp(ends[0])),
        "high": _short(np.exp(ends[1])),
        "cover": _short(cover[0]),
        "source_cover": _short(cover[1]),
        "calibrated": bool(len(here) >= CALIBRATED_ROWS and held),
        "least": _short(measured.min()),
        "most": _short(measured.max()),
    }


def _uncalibrated(judged: Sequence[Judged]) -> dict[str, float]:
    """Of what no table backs: as wide as errors on left-out sources were, over all forms with several."""
    errors = [np.log(j.rows.measured / j.by_source) for j in judged if len(np.unique(j.rows.source)) > 1]
    low, high = np.quantile(np.concatenate(errors), (0.03, 0.97))
    return {"low": _short(np.exp(low)), "high": _short(np.exp(high))}


def _short(value: Any, digits: int = 4) -> float:
    return float(f"{float(value):.{digits}g}")


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        fitted = fit_all(Path(words[0]) if words else None)
    except (EnvironmentFault, UsageError) as fault:
        print(f"fit_times: error: {fault}", file=sys.stderr)
        return fault.exit_code
    tree = Path(__file__).resolve().parents[2]
    (tree / "src/proveout/chip/data/fit.json").write_text(
        json.dumps(fitted.document, indent=1) + "\n", encoding="utf-8"
    )
    write_page(fitted, tree / "docs")
    for row in fitted.document["errors"]:
        print(
            f"{row['family']:24} {row['arch']:12} {row['mode']:15} {row['rows']:4} rows  shapes "
            f"{100 * row['median_error']:5.1f} %  sources {100 * row['source_median_error']:5.1f} %"
        )
    return 0
