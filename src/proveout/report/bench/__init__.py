"""A benchmark's reports outside of Python: the printed table, CSV, strict JSON, one HTML page, and a Chrome trace.

Each file is written whole or not at all. A file that cannot be written costs nothing else: the reports stay in memory,
`save` writes the other formats, and the error says what is missing and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from proveout.errors import EnvironmentFault, UsageError, unknown
from proveout.folders import file_name
from proveout.measure.outcome import Outcome
from proveout.measure.sheet import Report
from proveout.report.bench import page as bench_page
from proveout.report.bench import trace as bench_trace
from proveout.report.cells import render
from proveout.store import write_text

PRINT_COLS = (
    "throughput_avg",
    "latency_ms_p50",
    "latency_ms_p99",
    "n_models",
    "pipeline_size",
    "workers_per_model",
    "batch_size",
    "model_filename",
)
GENERATION_COLS = (
    "tokens_per_s",
    "decode_tokens_per_s",
    "ttft_avg_ms",
    "gap_ms_p50",
    "gap_ms_p99",
    "batch_size",
    "model_name",
)
_FRONT = (
    "tag", "status", "verdict", "model_name", "model_filename", "device_type", "n_models", "live_models",
    "workers_per_model", "pipeline_size", "batch_size", "load_mode", "throughput_avg", "throughput_avg_low",
    "throughput_avg_high", "throughput_peak",
)  # fmt: skip
NOTHING = "–"
REAL_NUMBERS = 4
"""Significant digits of the printed table."""


def print_reports(
    reports: Sequence[Report] | Report,
    cols: Sequence[str] | None = None,
    sort_by: str | None = None,
    reverse: bool = False,
    verbosity: int = 1,
) -> None:
    """Print a table, sorted by any field; verbosity 2 adds the configurations and each worker's start and end.

    Without `cols` and `sort_by`: NeuronPerf's eight columns by peak throughput, or those of text generation.
    What is not there is a dash, and below the table stands why: refused percentiles, INVALID rows, failures.
    """
    print(table(reports, cols, sort_by, reverse, verbosity))


print_results = print_reports
"""As NeuronPerf's guide also calls it."""


def table(
    reports: Sequence[Report] | Report,
    cols: Sequence[str] | None = None,
    sort_by: str | None = None,
    reverse: bool = False,
    verbosity: int = 1,
) -> str:
    """What `print_reports` prints."""
    reports = _several(reports)
    if not reports:
        return "There are no reports: nothing was benchmarked."
    generation = "decode_tokens_per_s" in reports[0]
    cols = cols or (GENERATION_COLS if generation else PRINT_COLS)
    ordered = _sorted(reports, sort_by or ("tokens_per_s" if generation else "throughput_peak"), reverse)
    for column in cols:
        if not any(column in report for report in ordered):
            raise unknown("column", column, ordered[0])
    rows = [[_cell(report.get(column)) for column in cols] for report in ordered]
    widths = [max(len(line[i]) for line in [list(cols), *rows]) for i in range(len(cols))]
    lines = [" ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in [list(cols), *rows]]
    lines += [line for report in ordered for line in _remarks(report, cols, several=len(ordered) > 1)]
    if verbosity >= 2:
        lines += [line for report in ordered for line in _details(report)]
    return "\n".join(lines)


def render_csv(reports: Sequence[Report], cols: Sequence[str] | None = None) -> str:
    """One row a report. Without `cols`: every field that is one value, those one looks for first in front."""
    if cols is None:
        flat = [name for report in reports for name, value in report.items() if not isinstance(value, dict | list)]
        cols = [*_FRONT, *(name for name in dict.fromkeys(flat) if name not in _FRONT)]
    return render([cols, *(["" if report.get(c) is None else report.get(c) for c in cols] for report in reports)])


def render_json(reports: Sequence[Report]) -> str:
    """Strict JSON: what is no number is null, and its report's `reasons` say so."""
    return json.dumps([_strict(report) for report in reports], indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_csv(
    reports: Sequence[Report] | Report, filename: str | Path | None = None, cols: Sequence[str] | None = None
) -> str:
    """Write the reports as CSV and return the file's name; None names it after the model and the time."""
    reports = _several(reports)
    return _write(reports, filename, "csv", render_csv(reports, cols))


def write_json(reports: Sequence[Report] | Report, filename: str | Path | None = None) -> str:
    """Write everything in the reports as strict JSON and return the file's name."""
    reports = _several(reports)
    return _write(reports, filename, "json", render_json(reports))


def write_html(reports: Sequence[Report], filename: str | Path | None = None) -> str:
    """Write one page that opens offline: table, verdicts, latency distribution, throughput over time."""
    return _write(reports, filename, "html", bench_page.render(reports))


def write_series(reports: Sequence[Report], filename: str | Path | None = None) -> str:
    """Write throughput and latency over time as CSV: one row a window and report."""
    return _write(reports, filename, "series.csv", render_series(reports))


def render_series(reports: Sequence[Report]) -> str:
    names = ("from_s", "to_s", "throughput", "latency_ms_avg", "latency_ms_max")
    rows = [{"tag": report["tag"], **window} for report in reports for window in report.get("series", ())]
    return render_csv(rows, ("tag", *names))


def write_trace(outcomes: Sequence[Outcome], filename: str | Path | None = None) -> str:
    """Write what each worker did when, from the raw results, for chrome://tracing or ui.perfetto.dev."""
    outcomes = [getattr(outcome, "outcome", outcome) for outcome in outcomes]
    if any(not isinstance(outcome, Outcome) for outcome in outcomes):
        raise UsageError(
            "a trace shows single calls, which reports do not hold: give benchmark(…, return_timers=True)."
        )
    named = [{"model_name": outcome.configuration.model_name} for outcome in outcomes]
    return _write(named, filename, "trace.json", bench_trace.render(outcomes))


FORMATS: dict[str, Callable[[Sequence[Report], Path], str]] = {
    "json": write_json,
    "csv": write_csv,
    "html": write_html,
    "series.csv": write_series,
}


def save(reports: Sequence[Report], folder: str | Path, formats: Sequence[str] = tuple(FORMATS)) -> list[str]:
    """Write the reports in each format to a folder. One that fails does not stop the others; the error names both."""
    for name in formats:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    written, failed = [], []
    for name in formats:
        try:
            written.append(FORMATS[name](reports, Path(folder) / f"{_file_name(reports)}.{name}"))
        except EnvironmentFault as error:
            failed.append(str(error))
    if failed:
        kept = f" Written: {', '.join(written)}." if written else ""
        raise EnvironmentFault(" ".join(failed) + kept)
    return written


def _several(reports: Sequence[Report] | Report) -> Sequence[Report]:
    """Reports, of which one alone may be given as it is."""
    return [reports] if isinstance(reports, dict) else reports


def _write(reports: Sequence[Report], filename: str | Path | None, suffix: str, text: str) -> str:
    path = Path(filename) if filename else Path(f"{_file_name(reports)}.{suffix}")
    try:
        write_text(path, text)
    except OSError as error:
        why = error.strerror or str(error)
        raise EnvironmentFault(
            f"cannot write {path}: {why}. What was measured is not lost: write it elsewhere."
        ) from error
    return str(path)


def _file_name(reports: Sequence[Report]) -> str:
    if not reports:
        raise UsageError("there are no reports to write.")
    name = file_name(str(reports[0].get("model_name", "")))
    return f"{name}.results-{datetime.now():%Y%m%d-%H%M%S}"


def _strict(report: Report) -> Any:
    reasons = dict(report.get("reasons", {}))

    def clean(value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return {str(k): clean(v, f"{name}.{k}" if name else str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [clean(v, name) for v in value]
        if hasattr(value, "item"):
            value = value.item()  # a numpy scalar that a user's own field may hold
        if isinstance(value, float) and not math.isfinite(value):
            reasons.setdefault(name, f"{value} is no number")
            return None
        return value if value is None or isinstance(value, str | int | float) else str(value)

    cleaned = {name: clean(value, name) for name, value in report.items() if name != "reasons"}
    return cleaned | {"reasons": reasons}


def _sorted(reports: Sequence[Report], sort_by: str, reverse: bool) -> list[Report]:
    """Reports that lack the field come last either way, so that the best and the worst stay at an end."""
    if not any(sort_by in report for report in reports):
        raise unknown("field to sort by", sort_by, reports[0])
    known = [r for r in reports if r.get(sort_by) is not None]
    return sorted(known, key=lambda r: r[sort_by], reverse=reverse) + [r for r in reports if r.get(sort_by) is None]


def _cell(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.{max(0, REAL_NUMBERS - 1 - math.floor(math.log10(abs(value))))}f}" if value else "0"
    return str(value)


def _remarks(report: Report, cols: Sequence[str], several: bool) -> list[str]:
    who = f"{report.get('tag', '')}: " if several else ""
    reasons = report.get("reasons", {})
    refused = dict.fromkeys(reasons[c] for c in cols if report.get(c) is None and c in reasons)
    problems = [
        f"{report['verdict']}: {p['found']}. {p['advice']}." for p in report.get("verdict_reasons", ()) if p["found"]
    ]
    return [f"  {who}{line}" for line in [*refused, *problems, *report.get("notes", ())]]


def _details(report: Report) -> list[str]:
    lines = [f"configuration: {json.dumps(report.get('configuration', {}))}"]
    for worker in report.get("workers", ()):
        name = f"  model {worker['model']}, worker {worker['worker']} (process {worker['pid']})"
        if worker["start_s"] is None:
            lines.append(f"{name}: completed no call. {worker['reason']}".rstrip())
            continue
        ran = f"started at {worker['start_s']:.3f} s, ended at {worker['end_s']:.3f} s after {worker['calls']} calls"
        lines.append(f"{name}: {ran}. {worker['reason']}".rstrip())
    return lines
