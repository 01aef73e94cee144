"""A benchmark's reports as one HTML file that opens offline: table, distributions, throughput over time, details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proveout.columns.words import number
from proveout.measure.sheet import PERCENTS, Report
from proveout.report.drawing.assets import STYLE
from proveout.report.drawing.element import Html, el, join, page
from proveout.report.drawing.lines import STYLE as LINES_STYLE
from proveout.report.drawing.lines import Axis, Line, axis, chart
from proveout.report.tables.details import badge
from proveout.words import counted

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
OWN_STYLE = """
.status.VALID { color: var(--good); background: var(--good-soft); }
.status.INVALID { color: var(--bad); background: var(--bad-soft); }
.status.skipped { color: var(--dim); background: var(--ground); }
.interval { display: block; color: var(--dim); font-size: 12px; white-space: nowrap; }
.why { display: block; color: var(--dim); font-size: 12px; min-width: 110px; max-width: 170px; margin-left: auto; }
#configurations td:first-child { min-width: 210px; } #configurations .status { margin-right: 4px; }
.percentiles { width: auto; } .percentiles td:first-child { padding-right: 40px; }
ul.found { margin: 8px 0 0; padding-left: 20px; }
"""
NOTHING = "–"
DRAWN = 0.999
TINY = 1e-6
"""One ns in ms: what a logarithmic axis shows instead of 0."""
COLUMNS = (
    ("throughput_avg", "Throughput, items/s"),
    ("throughput_peak", "Peak second, items/s"),
    ("latency_ms_p50", "p50, ms"),
    ("latency_ms_p99", "p99, ms"),
    ("e2e_avg_ms", "mean, ms"),
)
DEVICE_TIMES = (("device_measured_ms_p50", "measured"), ("device_modelled_ms_p50", "modelled"))
WHOLE = ("passed", "finished")
"""Statuses that need no word: ours, and NeuronPerf's."""


def render(reports: Sequence[Report]) -> str:
    """The page; the same reports give the same bytes."""
    details = (_details(r, i) for i, r in enumerate(reports))
    return page(
        "Proveout benchmark",
        STYLE + LINES_STYLE + OWN_STYLE,
        POLICY,
        el("header", el("h1", "Proveout benchmark"), el("p", _subtitle(reports), class_="hint")),
        el("main", _table(reports), _distribution(reports), _over_time(reports), *details),
    )


def _subtitle(reports: Sequence[Report]) -> str:
    models, devices = (sorted({str(r[key]) for r in reports}) for key in ("model_name", "device_type"))
    count = counted(len(reports), "configuration")
    valid = sum(r["verdict"] == "VALID" for r in reports)
    return " · ".join([count, ", ".join(models), ", ".join(devices), f"{valid} valid"])


def _table(reports: Sequence[Report]) -> Html:
    with_device = any(r.get(name) is not None for r in reports for name, _ in DEVICE_TIMES)
    heads = ["Configuration", "Verdict", *(words for _, words in COLUMNS), *(["Device p50, ms"] if with_device else [])]
    rows = [
        el(
            "tr",
            el("td", el("a", _name(r, reports), href=f"#r{i}"), el("small", r["reason"] or r["model_name"])),
            el("td", _chip(r["verdict"]), Html("") if r["status"] in WHOLE else _chip(r["status"])),
            *(el("td", _figure(r, name), class_="number") for name, _ in COLUMNS),
            *([el("td", _device_time(r), class_="number")] if with_device else []),
        )
        for i, r in enumerate(reports)
    ]
    head = el("tr", *(el("th", h, scope="col", class_="number" if i > 1 else None) for i, h in enumerate(heads)))
    note = "Below each number stands its 95 % interval, or why there is none. Latency is measured on the host."
    table = el("table", el("thead", head), el("tbody", *rows))
    return el(
        "section",
        el("h2", "Configurations"),
        el("div", table, class_="scroll"),
        el("p", note, class_="hint"),
        class_="card",
        id="configurations",
    )


def _name(report: Report, reports: Sequence[Report]) -> str:
    """Models, workers and batch size, and what else differs between these reports."""
    models, workers = report["n_models"], report["workers_per_model"]
    parts = [f"{_several(models, 'model')} × {_several(workers, 'worker')}", f"batch {report['batch_size']}"]
    if report["pipeline_size"] > 1:
        parts.append(f"pipeline of {report['pipeline_size']}")
    if report["load_mode"] != "closed":
        parts.append(f"{report['load_mode']} {report['configuration']['load']['rate']:g}/s".replace(" 0/s", ""))
    for key in ("model_name", "device_type"):
        if len({r[key] for r in reports}) > 1:
            parts.insert(0, str(report[key]))
    return ", ".join(parts)


def _several(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _figure(report: Report, name: str) -> Html:
    value, low, high = (report.get(name + end) for end in ("", "_low", "_high"))
    if value is None:
        told_once = report["status"] in ("failed", "skipped", "error")
        return join(NOTHING, Html("") if told_once else el("span", report["reasons"].get(name, ""), class_="why"))
    interval = f"{number(low)} … {number(high)}" if low is not None and high is not None else ""
    return join(number(value) or NOTHING, el("span", interval, class_="interval") if interval else Html(""))


def _device_time(report: Report) -> Html:
    shown = [
        join(number(report[name]) or "", " ", badge(kind))
        for name, kind in DEVICE_TIMES
        if report.get(name) is not None
    ]
    return join(*shown) if shown else Html(NOTHING)


def _chip(word: str) -> Html:
    return el("span", word, class_=f"status {word}")


def _distribution(reports: Sequence[Report]) -> Html:
    """Up to the share `DRAWN`: a single stall would press all the rest into one corner."""
    lines = [
        Line(_name(r, reports), tuple((max(ms, TINY), share) for share, ms in r["cdf"] if share <= DRAWN))
        for r in reports
        if r["cdf"]
    ]
    times = [ms for line in lines for ms, _ in line.points]
    if not times:
        return Html("")
    note = f"Share of the calls that took at most so long. The slowest {1 - DRAWN:.1%} are not drawn, but counted."
    return chart("Latency distribution", lines, axis(times), Axis(0, 1), "latency, ms", "share of calls", note)


def _over_time(reports: Sequence[Report]) -> Html:
    lines = [
        Line(_name(r, reports), tuple(((w["from_s"] + w["to_s"]) / 2, w["throughput"]) for w in r["series"]))
        for r in reports
        if r["series"]
    ]
    if not lines:
        return Html("")
    ends = [w["to_s"] for r in reports for w in r["series"]]
    rates = [rate for line in lines for _, rate in line.points]
    note = "Items completed in each window, by its length; a stall is a dip."
    x, y = axis([0.0, *ends], from_zero=True), axis([0.0, *rates], from_zero=True)
    return chart("Throughput over time", lines, x, y, "seconds", "items per second", note)


def _details(report: Report, index: int) -> Html:
    problems = [f"{p['found']}. {p['advice']}." for p in report["verdict_reasons"]]
    sentences = [*problems, *report["notes"]]
    percentiles = [
        el("tr", el("td", label), el("td", _figure(report, name), class_="number"))
        for label, name in [
            ("fastest", "latency_ms_p0"),
            *((f"p{p:g}", f"latency_ms_p{p:g}".replace(".", "_")) for p in PERCENTS),
            ("slowest", "latency_ms_p100"),
        ]
    ]
    return el(
        "details",
        el("summary", el("b", report["tag"]), _chip(report["verdict"]), _chip(report["status"])),
        el("ul", *(el("li", line) for line in sentences), class_="found") if sentences else Html(""),
        el("h3", "Latency, ms"),
        el("div", el("table", el("tbody", *percentiles), class_="percentiles"), class_="scroll"),
        el("h3", "Numbers"),
        _facts(report),
        el("h3", "Workers"),
        _workers(report),
        el("h3", "Conditions"),
        _pairs(report["conditions"]),
        class_="card model",
        id=f"r{index}",
        open=bool(problems),
    )


def _facts(report: Report) -> Html:
    shown = {
        name: value
        for name, value in report.items()
        if isinstance(value, int | float | str)
        and not name.startswith(("latency_ms_p", "service_ms", "waited_ms"))
        and not name.endswith(("_low", "_high"))
        and value != ""
    }
    return _pairs({name: _plain(value) for name, value in shown.items()})


def _pairs(pairs: dict[str, Any]) -> Html:
    return el("dl", *(el("div", el("dt", k), el("dd", str(v))) for k, v in pairs.items()), class_="facts")


def _workers(report: Report) -> Html:
    names = ("model", "worker", "calls", "start_s", "end_s", "load_ms", "errors", "exit_code", "reason")
    rows = [el("tr", *(el("td", _plain(w[name])) for name in names)) for w in report["workers"]]
    logs = [el("pre", w["log"]) for w in report["workers"] if w["log"]]
    head = el("thead", el("tr", *(el("th", n) for n in names)))
    return join(el("div", el("table", head, el("tbody", *rows)), class_="scroll"), *logs)


def _plain(value: Any) -> str:
    if value is None:
        return NOTHING
    return number(value) or NOTHING if isinstance(value, float) else str(value)
