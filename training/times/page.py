"""Writes what a fit found as a page: errors on shapes and on sources left out, intervals, and what stays open."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proveout.chip.table_rows import op_row
from proveout.chip.tables import SWEEPS, committed
from proveout.chip.time import device_op_time
from times.plot import NAMES, Group, scatter
from times.solve import ARCHES
from times.whole import SHARES

if TYPE_CHECKING:
    from times.fit import Fit, Judged, Measured

GATED_ROWS = 20
"""A form with this many rows on a chip is held to `HIGHEST`."""
HIGHEST = 0.25
DECODE = ("1D decode product", "DRAM-sharded product")
DECODE_AIM = 0.06
PROFILE_AIMS = {"wormhole_b0": 0.15, "blackhole": 0.11}
EXPERIMENT = {"wormhole_b0": 0.22, "blackhole": 0.13}
"""Median errors of the experiment that this model had to beat, on sources left out."""
SHAPE_COVER, SOURCE_COVER = (0.75, 0.88), 0.70
FIRST_FIT = {
    ("wormhole_b0", "out of the box"): 0.047, ("wormhole_b0", "tuned"): 0.026,
    ("blackhole", "out of the box"): 0.027, ("blackhole", "tuned"): 0.030,
}  # fmt: skip
"""Median errors of the first fit of large products, on shapes left out: later ones may not be worse."""
UNKNOWN_CHIP = ("matmul_height_sharded",)
"""Tables that do not tell the chip: kept apart from both."""

LIMITS: dict[str, str] = {
    "attention": "chunk sizes are missing in half of the rows (one shape took 156 and 202 µs, by its config), and only "
    "one sequence is long",
    "decode attention": "the position in the cache is not told, only its capacity",
    "halo": "window, padding and dilation are not told; its output's size alone says what was added",
    "conv": "the grid of block-sharded convolutions is inferred, and the benchmark does not tell its fidelity",
    "permute": "few rows, none of Wormhole; half do not tell which dimensions move, and shapes have to say it",
    "repeat": "13 rows of 4 sources, most of them gaps in one log",
    "transpose": "rows with one source of 1-row heads, read from padded tiles",
    "tilize": "which bank few wide rows lie on is not told, and all cores wait for it",
    "1D product": "Wormhole's sources share no shapes and differ by stack: 2024 to 2026",
    "2D product": "28 of Wormhole's 34 rows give no program config: 576 x 1024 by 1024 x 4096 on 48 cores took 72 and "
    "236 µs in one model, and 1024 x 768 by 768 x 768 on 72 cores 366 µs in another, ten times the engines' time",
    "DRAM-sharded product": "what short steps along K cost rests on one sweep of one model, 232 of Blackhole's 305 "
    "rows: left out, it is predicted 14 % too short",
    "batched product": "few rows; how ttnn shares a batch out is inferred",
    "sparse product": "how many experts run is not told in half of the rows",
    "fill cache": "one source holds half of the rows; small tensors only",
    "layer norm": "Wormhole's sources are of 2024 (distilbert), 2025 (segformer) and 2026",
    "binary": "Wormhole has few rows a source, of three stacks",
    "unary": "Wormhole has nine kernel times of five sources",
    "softmax": "four kernel times and six of the host's",
    "rotary": "two kernels of the same name: with and without a token index",
    "interleaved to sharded": "Wormhole's sources differ by stack, and row-major shards by their rows' length",
    "sharded to interleaved": "Wormhole's sources differ by stack",
}
"""What is missing in the tables, by form: what the data cannot decide."""


def write_page(fitted: Fit, docs: Path) -> None:
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    large = [Group(f"{NAMES[h.arch]}, {h.mode}", h.measured, h.predicted) for h in fitted.gemm]
    products = [g for j in fitted.judged if "product" in j.form for g in _groups(j)]
    others = [g for j in fitted.judged if "product" not in j.form for g in _groups(j)]
    (images / "calibration-matmul.svg").write_text(scatter([*large, *products], "Matrix products"), encoding="utf-8")
    (images / "calibration-families.svg").write_text(scatter(others, "Other families"), encoding="utf-8")
    (docs / "reference" / "calibration.md").write_text(page(fitted), encoding="utf-8")


def _groups(j: Judged) -> list[Group]:
    groups = []
    for arch, name in enumerate(ARCHES):
        here = np.flatnonzero(j.rows.arch == arch)
        if len(here) >= 10:
            here = here[:: max(1, len(here) // 150)]
            groups.append(Group(f"{j.form}, {NAMES[name]}", j.rows.measured[here], j.by_shape[here]))
    return groups


def page(fitted: Fit) -> str:
    document = fitted.document
    rows = document["errors"]
    many = [r for r in rows if r["rows"] >= GATED_ROWS]
    few = [r for r in rows if r["rows"] < GATED_ROWS]
    low, high = document["uncalibrated"]["low"], document["uncalibrated"]["high"]
    parts = [
        "# How well the modelled times match published ones",
        "Written by `python training/fit_times.py`; do not edit by hand. Every time that Proveout tells for a `sim` "
        "device is **modelled**. This page says how far such a time can be off. It compares predictions with public "
        "measurements that come with the product (`src/proveout/chip/data/`, each row with its source). "
        "`proveout devices predict TABLE` makes the same predictions for any such table.",
        "Every error is told twice. **New shapes**: the row was predicted by parameters fitted without any row of its "
        "operation and inputs. **New sources**: without any row of the model that it was profiled in (or of its file, "
        "where no model is named); that is what to expect of a model that nobody has published. Forms were chosen "
        "looking at these tables, so both are somewhat optimistic.",
        "An **interval** promises four fifths. It spans quantiles of the ratios measured / predicted of left-out rows, "
        "sources weighing more alike than their rows do; forms with few rows borrow from the other chip and from all "
        "forms. *Inside* is the share of rows inside the interval that was found without their shape, without their "
        "source. A prediction is `calibrated` where its form has at least ten rows on its architecture, the interval "
        "held for at least 70 % of rows of sources that it had never seen (of shapes, where there is one source), and "
        "its time is within a factor of four of the measured ones.",
        "## In short",
        _headline(fitted),
        "## Forms with at least 20 rows on a chip",
        _table(many),
        _verdict(many),
        "*kernel* are kernel times from profiles, *host* the host's times of one call. Large matrix products "
        "(*matmul*) are timed by the host: *tuned* are published hand-made program configs, from DRAM or from shards; "
        "*out of the box* those that ttnn chooses, all from DRAM. A Program's product that is cut over a grid is "
        "predicted by these; with a program config or from shards by the former.",
        "![Predicted against measured matrix products](../images/calibration-matmul.svg)",
        "![Predicted against measured times of other families](../images/calibration-families.svg)",
        "## Forms with fewer rows",
        "Listed, not judged: too few rows to say.",
        _table(few),
        f"What no row backs at all is `uncalibrated`: between {low:.2f} and {high:.2f} times the prediction.",
        "## What the tables cannot decide",
        "\n".join(f"- **{form}**: {why}." for form, why in LIMITS.items()),
        "- Stacks differ between sources (2024 to 2026), and a new source is often a new stack: most of the difference "
        "between the two columns of errors is that.",
        _unrecorded(),
        f"{_tensorless()} rows of `op_times.csv` and `op_profiles.csv` have no tensors, or a product only one; nothing "
        "can be predicted of them, and `devices predict` leaves their cells empty and counts them.",
        "Left out of the fit: " + ("; ".join(fitted.left_out) + "." if fitted.left_out else "nothing.") + " They are "
        "predicted like all others.",
        "Windows, dilations, padding and numbers of groups are not recorded; pools are taken for 3 × 3, group norms "
        "for 32 groups. Where a call's core count is below what ttnn would give it, the log has a gap and the larger "
        "count is taken.",
        "A Program's calls become device operations by the rules in their rows (`src/proveout/kernels`), as ttnn's "
        "own mock device builds them. Which shards a convolution takes is ttnn's choice at run time; here they are "
        "height shards over all cores, so its parts are calibrated but their shapes are assumed.",
        "## The form of a time",
        "`launch + (memory⁴ + core⁴ + math⁴)^¼`: bytes in DRAM and interleaved L1 at the chip's DRAM rate; what the "
        "busiest core moves; what its engines compute. `chip/costs.py` names every parameter, `chip/forms/` what each "
        "form counts. Parameters are fitted for each architecture, held weakly to each other and to guesses from the "
        "engines' rates. `proveout devices show sim:n150` lists them with their uncertainty.",
        "## Between kernels",
        _gaps(),
        _transfers(document["transfer"]),
        "Untraced, the host needs 20 to 50 µs for an op (30 is the prediction) and the device overlaps it. A first "
        "call also compiles each distinct kernel; no public figure covers that, so it is not modelled.",
        "## Rows that no fit has seen",
        "Single kernels that the vendor's tests expect, with core counts left to the model. No parameter was fitted on "
        "them.",
        _checks(),
        "## Whole profiles",
        _profiles(fitted),
        "## Whole models",
        "[Predicted beside published](whole-models.md): models written by hand as tt-metal's developers write them, "
        "and what our compiler makes of them.",
    ]
    return "\n\n".join(parts) + "\n"


# ---- in short --------------------------------------------------------------------------------------------------------


def _headline(fitted: Fit) -> str:
    """What was promised of this model, and what it reaches."""
    lines = ["| What | Chip | Rows | New shapes | New sources | Inside, shapes | Inside, sources | Aim | Met |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    for arch in ARCHES:
        decode = _picked(fitted, arch, lambda j, m: j.form in DECODE)
        lines.append(
            _headline_row(
                "decode products", arch, decode, f"≤ {DECODE_AIM:.0%} on new shapes", decode.shape <= DECODE_AIM
            )
        )
    for arch in ARCHES:
        rows = _picked(fitted, arch, lambda j, m: m.table == "op_profiles")
        aim = f"≤ {PROFILE_AIMS[arch]:.0%}; below {EXPERIMENT[arch]:.0%} on new sources"
        met = rows.shape <= PROFILE_AIMS[arch] and rows.source < EXPERIMENT[arch]
        lines.append(_headline_row("`op_profiles.csv`", arch, rows, aim, met))
    for arch in ARCHES:
        rows = _picked(fitted, arch, lambda j, m: m.table not in SWEEPS and m.row.recorded_arch)
        aim = f"inside: {SHAPE_COVER[0]:.0%} to {SHAPE_COVER[1]:.0%} of new shapes, ≥ {SOURCE_COVER:.0%} of new sources"
        met = SHAPE_COVER[0] <= rows.shape_cover <= SHAPE_COVER[1] and rows.source_cover >= SOURCE_COVER
        lines.append(_headline_row("all tables but the two sweeps below", arch, rows, aim, met))
    lines += _large_products(fitted.document["errors"])
    unnamed = _picked(fitted, "blackhole", lambda j, m: m.table not in SWEEPS and not m.row.recorded_arch)
    words = "rows of `op_times.csv` that name no chip"
    lines.append(_headline_row(words, "blackhole", unnamed, "taken for Blackhole", None, "not told"))
    for table, words in (
        ("unary_exp", "sweep of `exp`"),
        ("matmul_height_sharded", "sweep of height-sharded products"),
    ):
        for arch in ARCHES:
            rows = _picked(fitted, arch, lambda j, m, table=table: m.table == table)
            if rows.count:
                chip = "not told" if table in UNKNOWN_CHIP else None
                lines.append(_headline_row(words, arch, rows, "one source", None, chip))
    return "\n".join(lines)


def _large_products(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Products of `gemm.csv`, against what the first fit of them reached."""
    lines = []
    for (arch, mode), first in FIRST_FIT.items():
        (row,) = (r for r in rows if (r["family"], r["arch"], r["mode"]) == ("matmul", arch, mode))
        error, cover = row["median_error"], row["cover"]
        cells = [f"large products, {mode}", NAMES[arch], str(row["rows"]), f"{error:.1%}", "–", f"{cover:.0%}", "–"]
        met = "yes" if error < first + 0.0005 else "**no**"
        lines.append(f"| {' | '.join([*cells, f'first fit: {first:.1%}', met])} |")
    return lines


class _Picked:
    def __init__(self, shape: list[float], source: list[float], inside: list[tuple[bool, bool]]) -> None:
        self.count = len(shape)
        self.shape = float(np.median(shape)) if shape else 0.0
        self.source = float(np.median(source)) if source else 0.0
        self.shape_cover, self.source_cover = (
            float(np.mean([i[side] for i in inside])) if inside else 0.0 for side in (0, 1)
        )


def _picked(fitted: Fit, arch: str, wanted: Any) -> _Picked:
    shape, source, inside = [], [], []
    for j in fitted.judged:
        for i, m in enumerate(j.measured):
            if ARCHES[j.rows.arch[i]] == arch and wanted(j, m):
                shape.append(abs(j.by_shape[i] / j.rows.measured[i] - 1))
                source.append(abs(j.by_source[i] / j.rows.measured[i] - 1))
                inside.append(_inside(fitted, m))
    return _Picked(shape, source, inside)


def _inside(fitted: Fit, measured: Measured) -> tuple[bool, bool]:
    return fitted.covered[measured.table, measured.line]


def _headline_row(what: str, arch: str, rows: _Picked, aim: str, met: bool | None, chip: str | None = None) -> str:
    cells = [what, chip or NAMES[arch], f"{rows.count:,}", f"{rows.shape:.1%}", f"{rows.source:.1%}"]
    cells += [
        f"{rows.shape_cover:.0%}",
        f"{rows.source_cover:.0%}",
        aim,
        "" if met is None else "yes" if met else "**no**",
    ]
    return f"| {' | '.join(cells)} |"


# ---- tables ----------------------------------------------------------------------------------------------------------


def _table(rows: Sequence[dict[str, Any]]) -> str:
    titles = [
        "Form", "Chip", "Timed", "Rows", "Shapes", "Sources", "New shapes: median", "90 % below", "New sources: median",
        "90 % below", "Inside, shapes", "Inside, sources", "Interval", "",
    ]  # fmt: skip
    lines = [" | ".join(titles), " | ".join("---" if i < 3 else "---:" for i in range(len(titles)))]
    for r in rows:
        chip = "not told" if r["family"] == "height-sharded product" else NAMES[r["arch"]]
        cells = [r["family"], chip, r["mode"], str(r["rows"]), str(r["shapes"]), str(r["sources"])]
        cells += [f"{r['median_error']:.1%}", f"{r['p90_error']:.0%}"]
        one = r["sources"] == 1
        cells += ["–", "–"] if one else [f"{r['source_median_error']:.1%}", f"{r['source_p90_error']:.0%}"]
        cells += [f"{r['cover']:.0%}", "–" if one else f"{r['source_cover']:.0%}"]
        cells += [f"× {r['low']:.2f} to {r['high']:.2f}", "calibrated" if r["calibrated"] else ""]
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)


def _verdict(rows: Sequence[dict[str, Any]]) -> str:
    over = [r for r in rows if r["median_error"] > HIGHEST]
    aim = f"The aim is a median error of at most {HIGHEST:.0%} on new shapes for each of these."
    if not over:
        return f"{aim} All meet it."
    named = "; ".join(
        f"{r['family']} on {NAMES[r['arch']]} ({r['median_error']:.0%}): {LIMITS.get(r['family'], 'not explained')}"
        for r in over
    )
    return f"{aim} **These miss it:** {named}."


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
        f"{total} rows of `op_times.csv` do not say their architecture. {len(ratios)} of them repeat the operation, "
        f"shapes and cores of a Blackhole row, with times that differ by {off:.1%} in the median; they are taken for "
        "Blackhole. "
        "The sweep of height-sharded products says neither chip nor data type; it is fitted apart. Every row of "
        "`gemm.csv` is of one version of its report, of July 2026: how times of older stacks differ, no row tells."
    )


def _tensorless() -> int:
    rows = [*committed("op_times.csv"), *committed("op_profiles.csv.gz")]
    return sum(op_row(row, "") is None for row in rows)


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
        for arch, rates in known.items()
        for direction, row in rates.items()
    ]
    return "Transfers go at the bus's rate, or where pages are small at the host's pace: " + ", ".join(words) + "."


def _profiles(fitted: Fit) -> str:
    """Every profile of a model as one sum, predicted without any row of it."""
    lines = [
        "| Profile | Chip | Rows | Predicted / measured | Interval | |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for p in fitted.profiles:
        name = p.source.rpartition("/")[2]
        low, high = p.low / p.measured, p.high / p.measured
        lines.append(
            f"| {name} | {NAMES[p.arch]} | {p.rows} | {p.predicted / p.measured:.2f} | {low:.2f} to {high:.2f} | "
            f"{'' if p.inside else '**outside**'} |"
        )
    off = statistics.median(abs(p.predicted / p.measured - 1) for p in fitted.profiles)
    inside = sum(p.inside for p in fitted.profiles)
    whole = fitted.document["whole"]
    return (
        "All kernels of a profile added up, as often as each was called, with the model left out of the fit and of the "
        f"intervals. The median error is {off:.0%}; {inside} of {len(fitted.profiles)} sums are inside their interval. "
        "In a sum, errors of one form go one way; those of different forms are independent but for a share of "
        f"{whole['shared']:g} that they have in common: the smallest of {', '.join(f'{s:g}' for s in SHARES)} at which "
        "three quarters of these sums are inside. "
        "Whole Programs are told with the same rule. An interval that rests on one source is widened by a factor of "
        f"{whole['new_source']:g} (of its logarithms) in Programs: for three quarters of the forms with several "
        "sources, errors on new sources are larger than on new shapes by at most that.\n\n" + "\n".join(lines)
    )


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
