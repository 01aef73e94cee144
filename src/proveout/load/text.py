"""A report under load for a terminal: percentiles with intervals, rates, goodput, and what speaks against them."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.load.capacity import GoodputCapacity
from proveout.measure.sheet import Report
from proveout.words import rounded

ROWS = (
    ("ttft", "time to first token"),
    ("tpot", "time per output token"),
    ("itl", "gap between tokens"),
    ("latency", "whole response"),
)
PERCENTS = ("50", "90", "99")
NOTHING = "–"


def text(report: Report) -> str:
    """The whole report."""
    head = ["ms", *(f"p{p}" for p in PERCENTS), "most", f"{report['kind']}"]
    rows = [
        [NAMES[name], *(_cell(report, f"{name}_ms_p{p}") for p in PERCENTS), _number(report[f"{name}_ms_p100"]), words]
        for name, words in ROWS
    ]
    lines = [*_columns([head, *rows]), ""]
    kind = "" if report["kind"] == "measured" else ", modelled"
    lines.append(f"requests/s    {_cell(report, 'throughput_avg')}{kind}  ({report['answered']} answered in "
                 f"{report['total_s']:.4g} s, {report['errors']} failed)")  # fmt: skip
    lines.append(f"tokens/s      {_number(report['tokens_per_s'])} in all, "
                 f"{_number(report['tokens_per_s_per_user'])} per user")  # fmt: skip
    if report["slo"]:
        share, low, high = (report[f"good_share{end}"] for end in ("", "_low", "_high"))
        interval = "" if low is None else f" [{low:.1%}, {high:.1%}]"
        lines.append(
            f"goodput       {_cell(report, 'goodput')} requests/s: {share or 0:.1%}{interval} kept {report['slo']}"
        )
    if report["cpu_share"] is not None:
        lines.append(f"client        one request in 100 was sent {_number(report['sent_late_ms'])} ms late or more; "
                     f"{report['cpu_share']:.0%} of a core")  # fmt: skip
    if ends := report.get("prediction"):
        spans = [f"{word} {_number(ends[f'{name}_ms_p50'][0])} to {_number(ends[f'{name}_ms_p50'][1])} ms"
                 for name, word in (("ttft", "TTFT"), ("tpot", "TPOT"))]  # fmt: skip
        lines.append(f"prediction    with every step at either end of its interval, medians are {', '.join(spans)}")
    refused = {name: report["reasons"].get(f"{name}_ms_p{p}", "") for name, _ in ROWS for p in PERCENTS}
    lines += [f"{NAMES[name]}: {why}" for name, why in refused.items() if why]
    lines += [f"{error['requests']} × {error['error']}" for error in report["error_kinds"]]
    lines.append(report["verdict"])
    lines += [f"  {p['found']}. {p['advice']}." for p in report["verdict_reasons"]]
    return "\n".join(lines)


def capacity_text(capacity: GoodputCapacity) -> str:
    """Every rate that was tried, and the answer."""
    rows = [["requests/s", "kept all limits", "goodput/s", ""]]
    for tried in capacity.runs:
        good = tried.good_share
        share = NOTHING if good.value is None else f"{good.value:.2%}"
        share += "" if good.low is None or good.high is None else f" [{good.low:.2%}, {good.high:.2%}]"
        verdict = {True: "met", False: "missed", None: "not known"}[tried.met]
        rows.append(
            [f"{tried.rate:.5g}", share, f"{tried.goodput:.4g}", ": ".join(filter(None, (verdict, tried.reason)))]
        )
    lines = [*_columns(rows), ""]
    if capacity.rate is None:
        lines.append(f"Capacity: not known: {capacity.reason}.")
        return "\n".join(lines)
    missed = f"; {capacity.missed_rate:.5g} is too many" if capacity.missed_rate else ""
    lines.append(
        f"Capacity: {capacity.rate:.5g} requests/s with {capacity.slo} kept by {capacity.attain:.4g} of them{missed}."
    )
    shown = f"at {capacity.shown_rate:.5g}" if capacity.shown_rate else "at no rate: run each for longer"
    lines.append(f"The 95 % interval lies within the limits {shown}.")
    return "\n".join([*lines, *([capacity.reason + "."] if capacity.reason else [])])


NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "response"}


def _number(value: float | None) -> str:
    return NOTHING if value is None else rounded(value, 4)


def _cell(report: Report, name: str) -> str:
    """The value, and its interval where it has one."""
    value, low, high = (report.get(f"{name}{end}") for end in ("", "_low", "_high"))
    return _number(value) if low is None or high is None else f"{_number(value)} [{_number(low)}, {_number(high)}]"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
