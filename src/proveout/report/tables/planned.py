"""Models at their true size, planned and not run: a line for each corpus, and the table of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import median

from proveout.columns.table import Row
from proveout.columns.words import called, corpus, count, number
from proveout.report.tables.rows import Report, different, interval, made
from proveout.report.tables.text import escape, table
from proveout.types import META, Record, Timing
from proveout.words import counted

HEADING = "## Models at their true size, planned"

GLANCE_COLUMNS = {
    "corpus": "The folder of the models' scripts.",
    "device": "The modelled chip.",
    "models": "Rows of the table of models at their true size.",
    "distinct": "Different results: rows whose models compile to the same Programs count once.",
    "planned": "Compiled and planned, not run.",
    "failed": "Those that were not; the table of models has the reason of each.",
    "failed as expected": "Scripts labelled `expect::fail` that failed.",
    "fit": "Planned models that the chip's memories hold.",
    "ops off the host (%)": "ATen nodes that became device kernels or need none, of all nodes.",
    "transfers (median)": "Between host and device at every call.",
    "weights up to (MB)": "On the device: the largest model planned.",
    "with a time": "Planned models whose whole call is predicted: nothing of it stays on the host.",
    "predicted (ms), median and range": "One call of those, modelled.",
}

COLUMNS = {
    "Model": "Its name and the arguments of its script.",
    "Corpus": "The folder of its script.",
    "Device": "The modelled chip.",
    "Parameters": "At its true size.",
    "ATen ops": "Nodes of its graphs.",
    "On the host": "Of those, how many no kernel serves.",
    "Transfers": "Between host and device at every call.",
    "Weights (MB)": "On the device.",
    "Peak DRAM (MB)": "Modelled.",
    "Peak SRAM (MB)": "Of all cores; modelled.",
    "Fits": "Whether the chip's memories hold it.",
    "Predicted (ms)": "One call, modelled. None where the host has a part in it, whose time nothing here knows.",
    "80 % between (ms)": "Where four of five measured times would lie, as far as calibration tells.",
    "Chip alone (ms)": "Where the host has a part in a call: the chip's part of it, modelled; no time of a call.",
    "Reason": "Why a model could not be planned.",
}


def parted(report: Report) -> tuple[Report, Report]:
    """The models that were planned at their true size and not run, and the other Records. A model is one row: that of
    shapes alone where they were enough, else that of values where it was tried with them."""
    pairs = list(zip(report.records, report.rows, strict=True))
    planned, ran = ([pair for pair in pairs if _is_planned(pair[0]) == wanted] for wanted in (True, False))
    by_values = {_who(r) for r, _ in planned if r.job.workload.weights != META}
    by_shapes = {_which(r) for r, _ in planned if r.job.workload.weights == META and r.status == "passed"}

    def is_shown(record: Record) -> bool:
        if record.job.workload.weights == META:
            return record.status == "passed" or _who(record) not in by_values
        return _which(record) not in by_shapes

    planned = [(r, f) for r, f in planned if is_shown(r)]
    first, second = (Report(tuple(r for r, _ in some), tuple(f for _, f in some)) for some in (planned, ran))
    return first, replace(second, unreadable=report.unreadable)


def _is_planned(record: Record) -> bool:
    workload = record.job.workload
    drawn = workload.weights == "random" and "--small" not in workload.script_args.split()
    return workload.weights == META or (drawn and record.job.do == ("compile",))


def _who(record: Record) -> tuple[str, str, str]:
    return record.job.workload.script, record.job.workload.script_args, record.job.device


def _which(record: Record) -> tuple[str, ...]:
    return *_who(record), record.job.workload.name


def glance(report: Report) -> list[str]:
    """A line for each corpus and device, of the models in this report that were planned at their true size."""
    planned, _ = parted(report)
    groups: dict[tuple[str, str], list[tuple[Record, Row]]] = {}
    for pair in zip(planned.records, planned.rows, strict=True):
        groups.setdefault((corpus(pair[1]), pair[1].device), []).append(pair)
    rows = [[escape(name), escape(device), *_cells(pairs)] for (name, device), pairs in sorted(groups.items())]
    return [
        HEADING,
        _sentence(planned),
        table(list(GLANCE_COLUMNS), rows, [False, False, *[True] * (len(GLANCE_COLUMNS) - 2)]),
        "\n".join(f"**{name}**: {explain}  " for name, explain in GLANCE_COLUMNS.items()),
    ]


DONE = ("passed", "compiled")
"""A plan is a dry run, or what a run left."""


def _cells(pairs: list[tuple[Record, Row]]) -> list[str]:
    rows = [flat for _, flat in pairs]
    done = [flat for flat in rows if flat.status in DONE]
    status = Counter(flat.status for flat in rows)
    before, remain = sum(flat.ops_before or 0 for flat in done), sum(flat.ops_remain or 0 for flat in done)
    share = f"{100 * (before - remain) / before:.1f}" if before else ""
    times = sorted(t.median_ns / 1e6 for record, _ in pairs if (t := record.timing("compiled")))
    span = f"{number(median(times))} ({number(times[0])} – {number(times[-1])})" if times else ""
    distinct = different(Report(tuple(record for record, _ in pairs), tuple(rows)))
    failed, expected = status["failed"] + status["partial"], status["expected_failure"]
    fit = sum(bool(flat.fits) for flat in done)
    counts = (len(rows), distinct, len(done), failed, expected, fit)
    transfers = [flat.transfers for flat in done if flat.transfers is not None]
    weights = max((flat.weight_bytes or 0 for flat in done), default=None)
    middle = f"{median(transfers):g}" if transfers else ""
    return [*(count(n) or "0" for n in counts), share, middle, _megabytes(weights), count(len(times)) or "0", span]


def models(report: Report) -> list[str]:
    """A row for each model: shapes alone tell ops, transfers, memory and time."""
    rows = []
    for record, flat in zip(report.records, report.rows, strict=True):
        whole, alone = record.timing("compiled"), record.timing("device")
        megabytes = [_megabytes(size) for size in (flat.weight_bytes, flat.dram_peak_bytes, flat.l1_peak_bytes)]
        known = flat.ops_before is not None and flat.status in DONE
        fits = ("yes" if flat.fits else "no") if known and flat.l1_peak_bytes is not None else ""
        figures = [count(n) or "0" if known else "" for n in (flat.ops_before, flat.ops_remain, flat.transfers)]
        times = [_milliseconds(whole), interval(whole) or "" if whole else "", _milliseconds(alone)]
        names = [escape(called(flat)), escape(corpus(flat)), escape(flat.device), count(flat.parameters) or ""]
        rows.append([*names, *figures, *megabytes, fits, *times, escape(flat.reason)])
    numeric = [name not in ("Model", "Corpus", "Device", "Fits", "Reason") for name in COLUMNS]
    return [
        *glance(report),
        "### Each model at its true size",
        table(list(COLUMNS), rows, numeric),
        "\n".join(f"**{name}**: {explain}  " for name, explain in COLUMNS.items()),
    ]


def _sentence(report: Report) -> str:
    if not report.rows:
        return "None yet. Run: `proveout compile --dry-run --all --weights meta`"
    done = [r for r in report.records if r.status == "passed"]
    values = sum(r.job.workload.weights != META for r in done)
    shapes = f"{len(done) - values} from shapes alone"
    drawn = f", {values} with seeded random values, without which PyTorch could not capture them" if values else ""
    return (
        f"{len(done)} of {counted(len(report.rows), 'model')} planned: {shapes}{drawn} ({different(report):,} "
        "different results; `proveout compile --dry-run --weights meta`). No trained weight was loaded and nothing "
        f"was run: nothing here is checked or measured. All figures are modelled or counted. {made(report)}"
    ).rstrip()


def _milliseconds(timing: Timing | None) -> str:
    return (number(timing.median_ns / 1e6) or "") if timing else ""


def _megabytes(size: int | None) -> str:
    return "" if size is None else number(size / 1e6) or "0"
