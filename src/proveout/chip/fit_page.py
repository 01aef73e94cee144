"""Writes what a fit found as a page: errors, intervals, plots, and what is not backed by anything."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout.chip.families import FORMS
from proveout.chip.tables import committed, op_row
from proveout.chip.time import device_op_time

if TYPE_CHECKING:
    from proveout.chip.fit import Fit, Residuals

TARGETS = {"out of the box": 0.10, "tuned": 0.10, "in models": 0.20}
NAMES = {"wormhole_b0": "Wormhole", "blackhole": "Blackhole"}


def write_page(found: Fit, docs: Path) -> None:
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    matmul = [r for r in found.residuals if r.mode != "in models"]
    others = [r for r in found.residuals if r.mode == "in models" and len(r.measured) >= 10]
    (images / "calibration-matmul.svg").write_text(scatter(matmul, "Matrix products"), encoding="utf-8")
    (images / "calibration-families.svg").write_text(scatter(others, "Other families"), encoding="utf-8")
    (docs / "reference" / "calibration.md").write_text(page(found), encoding="utf-8")


def page(found: Fit) -> str:
    document = found.document
    rows = document["errors"]
    backed = [r for r in rows if r["calibrated"]]
    thin = [r for r in rows if not r["calibrated"]]
    missed = [r for r in backed if r["median_error"] > TARGETS[r["mode"]]]
    without = [f for f in FORMS if not any(r["family"] == f for r in rows) and f != "other"]
    low, high = document["uncalibrated"]["low"], document["uncalibrated"]["high"]
    parts = [
        "# How well the modelled times match published ones",
        "Written by `python -m proveout.chip.fit`; do not edit by hand. Every time that Proveout tells for a `sim` "
        "device is **modelled**. This page says how far such a time can be off. It compares predictions with public "
        "measurements that come with the product (`src/proveout/chip/data/`, each row with its source).",
        "Errors are **cross-validated over shapes**: every row is predicted by parameters fitted without any row of "
        "its shape, on any device. An interval spans the middle four fifths of the ratios measured / predicted "
        "(10 % to 90 %). The forms themselves were chosen looking at these tables, so errors on kernels of other "
        "kinds can be larger; the last section is a small check on rows that no fit has seen.",
        "## Calibrated",
        "A prediction is `calibrated` where its family has at least ten measured rows on its architecture and its size "
        "is within a factor of four of the measured ones.",
        _table(backed, interval=True),
        _verdict(missed),
        "Matrix products are timed by the host: *tuned* are published hand-made program configs, *out of the box* "
        "those that ttnn chooses, which is what our Programs run. *In models* are kernel times from profiles of "
        "whole models; matrix products there are the narrow and the batched ones, whose operands come tile by tile.",
        "![Predicted against measured matrix products](../images/calibration-matmul.svg)",
        "![Predicted against measured times of other families](../images/calibration-families.svg)",
        "## Uncalibrated",
        f"Everything else is `uncalibrated`. Its interval is {low:.2f} to {high:.2f} times the prediction: "
        "how far the bare guesses from the engines' rates are from the tables that we do have. Where there are fewer "
        "than ten rows they are used, held close to the guesses:",
        _table(thin, interval=False),
        f"No row at all: {', '.join(without)}, which takes the costs of softmax.",
        "On **Wormhole, the default chip, everything but matrix products is uncalibrated**: its predictions take "
        "Blackhole's cycle counts to Wormhole's clock, cores and DRAM rate.",
        "## What the tables leave open",
        _unrecorded(),
        "Left out of the fit: " + ("; ".join(found.left_out) + "." if found.left_out else "nothing."),
        "Windows, dilations, padding and numbers of groups are not recorded; pools are taken for 3 × 3, group norms "
        "for 32 groups, and a halo's size is told by its output alone. Grids of block-sharded tensors are inferred "
        "from core counts.",
        "A Program's calls become device operations by rule (`kernels/device_ops.py`), as ttnn's own mock device "
        "builds them. Which shards a convolution takes is ttnn's choice at run time; here they are height shards over "
        "all cores, so its parts are calibrated but their shapes are assumed.",
        "## Between kernels",
        _gaps(),
        _transfers(document["transfer"]),
        "Untraced, the host needs 20 to 50 µs for an op (30 is the prediction) and the device overlaps it. A first "
        "call also compiles each distinct kernel; no public figure covers that, so it is not modelled.",
        "## Rows that no fit has seen",
        "Single kernels that the vendor's tests expect, with core counts left to the model. No parameter was fitted on "
        "them; the rule for the grid of block-sharded convolutions was corrected after a first look.",
        _checks(),
        "## Whole models",
        "Public throughputs of whole models are not compared here: they belong to hand-written sharded implementations "
        "with their own program configs, data types and fusions, and their Programs are not ours. A ratio would mix "
        "the two differences and say nothing about either.",
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: list[dict[str, Any]], interval: bool) -> str:
    titles = ["Family", "Chip", "Mode", "Rows", "Shapes", "Median error", "90 % below"]
    titles += ["Interval"] if interval else []
    lines = [" | ".join(titles), " | ".join("---" if i < 3 else "---:" for i in range(len(titles)))]
    for r in rows:
        cells = [r["family"], NAMES[r["arch"]], r["mode"], str(r["rows"]), str(r["shapes"])]
        cells += [f"{r['median_error']:.1%}", f"{r['p90_error']:.0%}"]
        cells += [f"× {r['low']:.2f} to {r['high']:.2f}"] if interval else []
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)


def _verdict(missed: list[dict[str, Any]]) -> str:
    aims = "The aim is a median error of at most 10 % for matrix products and 20 % for other families."
    if not missed:
        return f"{aims} All of the above meet it."
    named = ", ".join(f"{r['family']} on {NAMES[r['arch']]} ({r['median_error']:.0%})" for r in missed)
    return f"{aims} **These miss it:** {named}."


def _unrecorded() -> str:
    """How the rows whose source does not name the architecture compare with Blackhole's."""
    kept: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    total = 0
    for row in committed("op_times.csv"):
        total += row["arch"] == "?"
        key = (row["op_code"].replace("DeviceOperation", ""), row["input0"], row["output0"], row["core_count"])
        if row["input0"]:
            kept[key][row["arch"]] = float(row["kernel_ns_median"])
    ratios = [pair["?"] / pair["blackhole"] for pair in kept.values() if {"?", "blackhole"} <= set(pair)]
    off = statistics.median(abs(r - 1) for r in ratios)
    return (
        f"{total} rows do not say their architecture. {len(ratios)} of them repeat the operation, shapes and cores "
        f"of a Blackhole row, with times that differ by {off:.1%} in the median; they are taken for Blackhole."
    )


def _gaps() -> str:
    rows = [r for r in committed("gaps.csv") if r["unit"].startswith("us")]
    decode = sorted(float(r["value"]) for r in rows if r["category"] == "llama70b_TG_decode_op")
    probes = [float(r["value"]) for r in rows if r["name"] == "official_op2op"]
    return (
        f"Inside a trace, from 0.65 to 2.05 µs pass between ops (1 µs is the prediction): {len(decode)} published gaps "
        f"of one traced model have a median of {statistics.median(decode):.2f} µs, and the vendor's own probe says "
        f"{min(probes):.2f} to {max(probes):.2f} µs."
    )


def _transfers(known: dict[str, Any]) -> str:
    words = [
        f"{NAMES[arch]} {direction} {row['page_ns']:.0f} ns a page (× {row['low']:.2f} to {row['high']:.2f})"
        for arch, found in known.items()
        for direction, row in found.items()
    ]
    return "Transfers go at the bus's rate, or where pages are small at the host's pace: " + ", ".join(words) + "."


def _checks() -> str:
    lines = ["| Operation | Chip | Published | Predicted | Error | Label |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for number, row in enumerate(committed("checks.csv"), 2):
        parsed = op_row(row, f"checks.csv line {number}")
        assert parsed is not None, "a check without tensors"
        assert parsed.ns is not None, "a check without a time"
        time = device_op_time(parsed.op, parsed.chip)
        inside = "inside" if time.low_ns <= parsed.ns <= time.high_ns else "outside"
        label = ("calibrated" if time.calibrated else "uncalibrated") + f", {inside} its interval"
        lines.append(
            f"| {parsed.op.family} {row['op_type']} | {NAMES[parsed.chip.arch]} | {parsed.ns / 1e3:.0f} µs | "
            f"{time.ns / 1e3:.0f} µs | {time.ns / parsed.ns - 1:+.0%} | {label} |"
        )
    return "\n".join(lines)


# ---- plots -----------------------------------------------------------------------------------------------------------


def scatter(groups: list[Residuals], title: str) -> str:
    """Predicted against measured on logarithmic axes, with the diagonal and bands at a factor of 1.2, as SVG."""
    width, height, edge = 760, 520, 60
    values = [float(v) for g in groups for v in (*g.measured, *g.predicted)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(ns: float) -> float:
        return edge + (math.log10(ns) - low) / (high - low) * (height - 2 * edge)

    def y(ns: float) -> float:
        return height - x(ns)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{edge}" y="24" font-size="15">{title}: cross-validated prediction against measurement</text>',
    ]
    for power in range(low, high + 1):
        at, label = 10.0**power, _duration(power)
        parts.append(f'<path d="M{x(at):.1f} {y(10.0**low):.1f}V{y(10.0**high):.1f}" stroke="#e9ecef"/>')
        parts.append(f'<path d="M{x(10.0**low):.1f} {y(at):.1f}H{x(10.0**high):.1f}" stroke="#e9ecef"/>')
        parts.append(f'<text x="{x(at):.1f}" y="{height - edge + 18}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{edge - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{label}</text>')
    start, end = 10.0**low, 10.0**high
    for factor, dash in ((1.0, "none"), (1.2, "4 4"), (1 / 1.2, "4 4")):
        first, last = max(start, start / factor), min(end, end / factor)
        parts.append(
            f'<path d="M{x(first):.1f} {y(first * factor):.1f}L{x(last):.1f} {y(last * factor):.1f}" '
            f'stroke="#868e96" stroke-dasharray="{dash}"/>'
        )
    for index, group in enumerate(groups):
        colour = f"hsl({360 * index // len(groups)} {70 - 25 * (index % 2)}% {38 + 10 * (index % 3)}%)"
        label = f"{group.family}, {NAMES[group.arch]}" + ("" if group.mode == "in models" else f", {group.mode}")
        for measured, predicted in zip(group.measured, group.predicted, strict=True):
            parts.append(
                f'<circle cx="{x(measured):.1f}" cy="{y(predicted):.1f}" r="3" fill="{colour}" opacity="0.6"/>'
            )
        line = 60 + 18 * index
        parts.append(f'<circle cx="{height - 40}" cy="{line}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{height - 30}" y="{line + 4}">{label}</text>')
    middle = height / 2
    parts.append(f'<text x="{middle}" y="{height - 14}" text-anchor="middle">measured</text>')
    parts.append(f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">predicted</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _duration(power: int) -> str:
    for unit, exponent in (("s", 9), ("ms", 6), ("µs", 3)):
        if power >= exponent:
            return f"{10 ** (power - exponent)} {unit}"
    return f"{10**power} ns"
