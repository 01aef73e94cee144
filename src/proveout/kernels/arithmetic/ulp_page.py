"""`python -m proveout.kernels.arithmetic.ulp_page SILICON.csv > PAGE.md`: our functions' ULP beside silicon's.

The table has columns arch, dtype, op, variant, max_ulp, mean_ulp_where_inexact, source: published measurements.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from proveout.kernels.arithmetic.bits import Arch, Tensor
from proveout.kernels.arithmetic.functions import FUNCTIONS, Sfpu
from proveout.kernels.arithmetic.ulp import Wrong, measure

Exact = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Op:
    """A function of one operand: what the vector unit does, what is exact."""

    ours: Callable[[Sfpu, Tensor], Tensor]
    exact: Exact


def _sequence(name: str, exact: Exact) -> Op:
    return Op(FUNCTIONS[name], exact)


def _cut(function: Callable[[Sfpu, Tensor], Tensor], exact: Exact) -> Op:
    """A kernel that does not round."""
    return Op(lambda sfpu, x: sfpu.cut(function(sfpu, x)), exact)


def _plain(exact: Exact) -> Op:
    """No arithmetic, or none that rounds: the exact function itself."""
    return Op(lambda sfpu, x: exact(x), exact)


OPS: dict[str, Op] = {
    "elu": _sequence("elu", F.elu),
    "erf": _sequence("erf", torch.erf),
    "expm1": _sequence("expm1", torch.expm1),
    "gelu": _sequence("gelu", F.gelu),
    "log": _sequence("log", torch.log),
    "log10": _sequence("log10", torch.log10),
    "reciprocal": _sequence("reciprocal", torch.reciprocal),
    "sigmoid_accurate": _sequence("sigmoid", torch.sigmoid),
    "sin": _sequence("sin", torch.sin),
    "cos": _sequence("cos", torch.cos),
    "softsign": _sequence("softsign", F.softsign),
    "square": _sequence("square", torch.square),
    "tanh": _sequence("tanh", torch.tanh),
    "deg2rad": _cut(lambda s, x: s.mul(x, math.pi / 180), torch.deg2rad),
    "rad2deg": _cut(lambda s, x: s.mul(x, 180 / math.pi), torch.rad2deg),
    "leaky_relu negative_slope=0.01": _cut(
        lambda s, x: torch.where(x < 0, s.mul(x, 0.01), x), lambda x: F.leaky_relu(x, 0.01)
    ),
    "prelu weight=0.25": _cut(lambda s, x: torch.where(x < 0, s.mul(x, 0.25), x), lambda x: F.leaky_relu(x, 0.25)),
    "softshrink": _cut(
        lambda s, x: torch.where(x > 0.5, s.add(x, -0.5), torch.where(x < -0.5, s.add(x, 0.5), 0.0)), F.softshrink
    ),
    "abs": _plain(torch.abs),
    "ceil": _plain(torch.ceil),
    "clamp min=-1.0,max=1.0": _plain(lambda x: x.clamp(-1.0, 1.0)),
    "clip min=-1.0,max=1.0": _plain(lambda x: x.clamp(-1.0, 1.0)),
    "floor": _plain(torch.floor),
    "frac": _plain(torch.frac),
    "hardshrink": _plain(F.hardshrink),
    "hardtanh": _plain(F.hardtanh),
    "heaviside value=0.5": _plain(lambda x: torch.heaviside(x, torch.tensor(0.5, dtype=x.dtype))),
    "neg": _plain(torch.neg),
    "relu": _plain(torch.relu),
    "relu6": _plain(F.relu6),
    "relu_max upper_limit=1.0": _plain(lambda x: x.clamp(0.0, 1.0)),
    "relu_min lower_limit=1.0": _plain(lambda x: x.clamp(min=1.0)),
    "round": _plain(torch.round),
    "threshold threshold=0.5,value=0.0": _plain(lambda x: F.threshold(x, 0.5, 0.0)),
    "trunc": _plain(torch.trunc),
}
WHY: dict[str, str] = {
    "gelu": "float32: its worst point is one of few below -5.5, which a sample seldom meets",
    "erf": "float32: ours is the maximum of a sample",
    "tanh": "float32: ours is the maximum of a sample",
    "sigmoid_accurate": "float32: ours is the maximum of a sample",
    "softsign": "float32: ours is the maximum of a sample",
    "cos": "bfloat16: its largest error that float32 can still hold is at another point",
}
UNKNOWN = "its sequence is not modelled: faithful computes it as torch does, rounded once"
PAIRS = "a function of two or three operands, not measured here"
BINARY = frozenset(
    {
        "addalpha", "atan2", "bias_gelu", "div", "div_no_nan", "divide", "floor_div", "ge_", "gt_", "hypot", "l1_loss",
        "ldexp", "le_", "lerp", "logaddexp2", "logical_xor_", "maximum", "minimum", "multiply", "pow", "rsub",
        "squared_difference", "subtract",
    }
)  # fmt: skip


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
        for given in csv.DictReader(file):
            op = given["op"] + ("" if given["variant"] == "default" else f" {given['variant']}")
            ours = wrong(op, given["arch"], given["dtype"]) if op in OPS else None  # type: ignore[arg-type]
            yield Row(given["arch"], given["dtype"], op, float(given["max_ulp"]), ours)


def wrong(op: str, arch: Arch, dtype: str) -> Wrong:
    known = OPS[op]
    return measure(lambda x: known.ours(Sfpu(arch, dtype == "float32"), x), known.exact, dtype)


def page(found: list[Row]) -> str:
    modelled = [r for r in found if r.ours is not None]
    small, large = ([r for r in modelled if (r.silicon <= 1) == few] for few in (True, False))
    lines = [
        "# How wrong functions are: ours beside silicon's",
        "",
        "Largest error in units in the last place, and its mean where there is one, against float64. Silicon's",
        "figures: tenstorrent/tt-eltwise-accuracy-report (`tests/data/eltwise_accuracy.csv` names commit and path of",
        "each). Ours: `kernels/arithmetic/functions.py`, every bfloat16, and for float32 a sample, so that maxima are",
        "lower bounds.",
        "",
        "Made by `python -m proveout.kernels.arithmetic.ulp_page tests/data/eltwise_accuracy.csv`.",
        "",
        f"Of {len(found)} published rows {len(modelled)} are modelled. Of those where silicon is off by at most 1,",
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
    lines += ["", "## Operations that are not modelled", ""]
    others = sorted({r.op for r in found if r.ours is None})
    lines += [f"- `{op}`: {PAIRS if op.split()[0] in BINARY else UNKNOWN}" for op in others]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(list(rows(Path(sys.argv[1])))), end="")
