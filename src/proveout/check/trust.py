"""Can the PCC of `fast` numerics be trusted? Both modes against one reference, and where they differ.

A PCC is asked for one thing: whether outputs are close enough on the chip. Fast's may stand for the chip's where both
modes give the same verdict, and where the threshold is at least `MARGIN` times as far from fast's PCC as the two modes
are from each other: one input was looked at, and on others their distance varies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from proveout.check.compare import relative_l2
from proveout.check.exact import joined
from proveout.columns.words import pcc_text
from proveout.devices.execute import fast, on_chips, run_step
from proveout.program import Program, Step
from proveout.types import Comparison, ModeGap, StepGap, Trust

MARGIN = 2
SHOWN = 5
"""Steps that are told where the modes differ."""
LIMIT_S = 60.0
"""Where nobody asked for `faithful`, it is run if it should take no longer than this."""
NS_A_PRODUCT = 1.5
"""A multiply-add in `faithful` on one core: HiFi4's, the slowest (tests/bench/faithful.py prints it)."""
RUNS = 2
"""Calls that a comparison makes in `faithful`: one for the outputs, one Step by Step."""


def estimated_s(flops: float) -> float:
    """How long a comparison should take, from a call's floating-point operations, 2 a product."""
    return RUNS * flops / 2 * NS_A_PRODUCT / 1e9


def too_long(flops: float) -> Trust | None:
    """The answer for a model that is too large to be run in `faithful` unasked."""
    seconds = estimated_s(flops)
    if seconds <= LIMIT_S:
        return None
    return Trust(
        None,
        f"the chip's own rules would take about {seconds:,.0f} s here ({flops / 2e9:,.3g} billion products), more than "
        f"{LIMIT_S:.0f} s. Run: proveout check SCRIPT --set numerics=faithful",
    )


@dataclass
class Gaps:
    """Looks at every Step of a replay in `faithful`: how far `fast` is on the same operands, and the erratum."""

    steps: list[StepGap] = field(default_factory=list)

    def __call__(
        self, program: Program, step: Step, values: Mapping[str, Any], results: tuple[Any, ...], errata: int
    ) -> None:
        others = run_step(step, {n: values[n] for n in step.uses}, on_chips(fast(program), program.chips))
        pairs = [(joined(a), joined(b)) for a, b in zip(results, others)]
        gaps = [relative_l2(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and a.is_floating_point()]
        rel_l2 = None if None in gaps else max((g for g in gaps if g is not None), default=0.0)
        if rel_l2 != 0.0 or errata:
            self.steps.append(StepGap(step.kernel, step.origin, rel_l2, errata))


def judged(fast: Sequence[Comparison], faithful: Sequence[Comparison], gaps: Sequence[StepGap]) -> Trust:
    """Both modes' outputs against the same reference, and what a replay's `Gaps` saw."""
    second = {c.name: c for c in faithful if c.scope == "output"}
    outputs = tuple(_output(c, second[c.name]) for c in fast if c.scope == "output" and c.name in second)
    largest = sorted(gaps, key=lambda g: -1.0 if g.rel_l2 is None else -g.rel_l2)[:SHOWN]
    errata = tuple(g for g in gaps if g.errata)
    doubted = [o for o in outputs if not o.trusted]
    if not outputs:
        return Trust(None, "no output was compared in both modes", outputs, tuple(largest), errata)
    shown = doubted[0] if doubted else min(outputs, key=_left)
    name = "" if shown.name == "output" else "output "
    return Trust(not doubted, f"{name}{shown.name}: {shown.reason}", outputs, tuple(largest), errata)


def _left(output: ModeGap) -> float:
    if output.fast_pcc is None or output.faithful_pcc is None:
        return 2.0
    return abs(output.fast_pcc - output.threshold) - MARGIN * abs(output.fast_pcc - output.faithful_pcc)


def _output(fast: Comparison, faithful: Comparison) -> ModeGap:
    """One output's verdict and its reason."""

    def gap(trusted: bool, reason: str) -> ModeGap:
        return ModeGap(fast.name, fast.pcc, faithful.pcc, fast.threshold, trusted, reason)

    if fast.passed != faithful.passed:
        ends = {True: "passes", False: "fails"}
        reason = faithful.reason or fast.reason
        return gap(False, f"fast {ends[fast.passed]} and faithful {ends[faithful.passed]}: {reason}")
    if fast.pcc is None or faithful.pcc is None:
        return gap(True, f"both modes {'pass' if fast.passed else 'fail'}; there is no PCC to compare")
    apart, room = abs(fast.pcc - faithful.pcc), abs(fast.pcc - fast.threshold)
    figures = (
        f"PCC {pcc_text(fast.pcc)} fast, {pcc_text(faithful.pcc)} faithful: {apart:.2g} apart, and fast's is "
        f"{room:.2g} {'above' if fast.pcc >= fast.threshold else 'below'} {fast.threshold:g}"
    )
    if MARGIN * apart <= room:
        return gap(True, figures)
    return gap(False, f"{figures}, less than {MARGIN} times as much: other inputs may fail where fast passes")
