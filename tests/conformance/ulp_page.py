"""`python tests/conformance/ulp_page.py SILICON.csv > PAGE.md`: our functions' ULP beside silicon's.

The table has columns arch, dtype, op, variant, max_ulp, mean_ulp_where_inexact, source: published measurements.
"""

from __future__ import annotations

import csv
import functools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ulp import Wrong, measure
from ulp_ops import OPS, WITH_NUMBERS, Op, find

from proveout.kernels.arithmetic.bits import Arch
from proveout.kernels.arithmetic.functions import Sfpu

ARCHES: tuple[Arch, ...] = ("wormhole", "blackhole")
SAMPLE = "ours is the largest error that a sample and a search around its worst numbers met"
OTHER = "the published kernel (2026-08-22) is not the one that was measured, or we read it otherwise"
WHY: dict[str, str] = {
    "acosh": f"float32: {SAMPLE}",
    "atanh": f"float32: {SAMPLE}",
    "cos": "bfloat16: far out nothing is left of the reduced argument; which of the errors beyond what float32 holds "
    "count decides the maximum",
    "sin": "far out nothing is left of the reduced argument; which of the errors beyond what float32 holds count "
    "decides the maximum",
    "erf": f"float32: {SAMPLE}",
    "floor_div": f"float32: off by one where the quotient is nearly whole; {SAMPLE}",
    "ldexp": f"bfloat16: {OTHER}; a mean error of 94.5 is no rounding",
    "lerp": f"where the result cancels; {SAMPLE}",
    "logaddexp2": f"float32: where the result crosses 0; {SAMPLE}",
    "multigammaln": f"near 1.5; {OTHER}",
    "pow": f"far from 1; {OTHER}",
    "sigmoid_accurate": f"float32: {SAMPLE}",
    "softsign": f"float32: {SAMPLE}",
    "tanh": f"float32: {SAMPLE}",
    "tanhshrink": "the published kernel (2026-08-22) has a polynomial for small numbers; what was measured lost digits "
    "there, as x less tanh's result does",
}
UNKNOWN = "its sequence is not modelled: faithful computes it as torch does, rounded once"


@dataclass(frozen=True)
class Row:
    """One published measurement, and ours."""

    arch: str
    dtype: str
    op: str
    silicon: float
    ours: Wrong | None

    @property
    def verdict(self) -> str:
        if self.ours is None:
            return "not modelled"
        if self.silicon <= 1:
            return "equal" if self.ours.largest == self.silicon else "differs"
        return "within 10 %" if abs(self.ours.largest / self.silicon - 1) <= 0.1 else "differs"


def rows(table: Path) -> Iterator[Row]:
    with table.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            op = line["op"] + ("" if line["variant"] == "default" else f" {line['variant']}")
            known = find(op)
            ours = wrong(known, line["arch"], line["dtype"]) if known else None  # type: ignore[arg-type]
            yield Row(line["arch"], line["dtype"], op, float(line["max_ulp"]), ours)


def wrong(known: Op, arch: Arch, dtype: str) -> Wrong:
    return measure(functools.partial(known.ours, Sfpu(arch, dtype == "float32")), known.exact, dtype, known.operands)


def untold(measured: list[Row]) -> dict[str, list[float]]:
    """What each operation that no row has comes to: both data types on both chips."""
    told = {r.op.partition(" ")[0].removesuffix("_") for r in measured}
    others = sorted(op for op in {*OPS, *WITH_NUMBERS} if op.partition(" ")[0] not in told)
    known = {op: find(op) or WITH_NUMBERS[op]() for op in others}
    return {
        op: [wrong(one, arch, dtype).largest for dtype in ("bfloat16", "float32") for arch in ARCHES]
        for op, one in known.items()
    }


def section(untold: Mapping[str, list[float]]) -> list[str]:
    """The lines about operations that no row has."""
    return [
        "",
        "## Operations that the table does not have",
        "",
        "The largest errors that our sequences give for the other operations, for whoever measures them to compare.",
        "",
        "| operation | bfloat16, Wormhole | bfloat16, Blackhole | float32, Wormhole | float32, Blackhole |",
        "|---|---:|---:|---:|---:|",
        *(f"| {op} | {' | '.join(f'{largest:.4g}' for largest in found)} |" for op, found in untold.items()),
    ]


def page(measured: list[Row], untold: Mapping[str, list[float]]) -> str:
    modelled = [r for r in measured if r.ours is not None]
    small, large = ([r for r in modelled if (r.silicon <= 1) == few] for few in (True, False))
    lines = [
        "# How wrong functions are: ours beside silicon's",
        "",
        "Largest error in units in the last place, and its mean where there is one, against float64. Silicon's",
        "figures: tenstorrent/tt-eltwise-accuracy-report (`tests/data/eltwise_accuracy.csv` names commit and path of",
        "each). Ours: the sequences of tt-metal's published kernels in the vector unit's arithmetic, for every",
        "bfloat16; float32 and functions of several operands by a sample and a search around its worst numbers, so",
        "that these maxima are lower bounds.",
        "",
        "Made by `python tests/conformance/ulp_page.py tests/data/eltwise_accuracy.csv`.",
        "",
        f"Of {len(measured)} published rows {len(modelled)} are modelled. Of those where silicon is off by at most 1,",
        f"{sum(r.verdict == 'equal' for r in small)} of {len(small)} are equal; of the others "
        f"{sum(r.verdict != 'differs' for r in large)} of {len(large)} are within 10 %.",
        "",
        "| operation | dtype | chip | silicon | ours | mean | worst at | |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for r in modelled:
        assert r.ours is not None
        mean = "" if r.ours.mean is None else f"{r.ours.mean:.3g}"
        lines.append(
            f"| {r.op} | {r.dtype} | {r.arch} | {r.silicon:.4g} | {r.ours.largest:.4g} | {mean} | "
            f"{r.ours.worst_at:.4g} | {r.verdict} |"
        )
    lines += ["", "## Rows that differ, and why", ""]
    different = sorted({r.op for r in modelled if r.verdict == "differs"})
    lines += [f"- `{op}`: {WHY.get(op, 'not known yet')}" for op in different] or ["None."]
    lines += section(untold)
    lines += ["", "## Operations that are not modelled", ""]
    others = sorted({r.op for r in measured if r.ours is None})
    lines += [f"- `{op}`: {UNKNOWN}" for op in others] or ["None."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    table = list(rows(Path(sys.argv[1])))
    print(page(table, untold(table)), end="")
