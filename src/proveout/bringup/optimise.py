"""Stage 9: the quickest settings within the PCC budget, from everything in bfloat16 and DRAM, each step told.

Plans are those of a trace, in which the host's dispatch hides nothing; so is the baseline's. What is found is verified
on inputs that the search has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from proveout.bringup.reference import HELD_OUT
from proveout.bringup.stage import Files, Found
from proveout.bringup.subject import Subject
from proveout.check import compare_outputs
from proveout.kernels.cost import memory_use
from proveout.program import DEALLOCATE
from proveout.report.perf.view import time
from proveout.subject import Call
from proveout.tune import Trial, Tuned, search
from proveout.types import Settings

WITH_WEIGHTS = ("aten.addmm.default", "aten.mm.default", "aten.bmm.default", "aten.convolution.default")
FAITHFUL_FLOPS = 1e9
"""Above this a call is not computed by the chip's own rules while searching: it takes too long."""
VERIFIED_FLOPS = 3e10
"""Above this not even when what was found is verified."""


def run(subject: Subject, files: Files) -> Found:
    flops = subject.folder.data(1, "card").get("flops", 0)
    numerics: Literal["fast", "faithful"] = "faithful" if flops <= FAITHFUL_FLOPS else "fast"
    start = replace(subject.asked.settings, memory="dram", trace=True, numerics=numerics)
    costs = _Costs(subject)
    tuned = search(start, costs, subject.asked.settings.pcc)
    by_rules = flops <= VERIFIED_FLOPS
    least = subject.asked.settings.pcc
    tuned, checks, dropped = _verified(subject, tuned, least, by_rules)
    held = [pcc for pcc in checks if pcc is not None]
    lowest = min(held, default=None)
    holds = lowest is None or lowest >= least
    freed = _freed(subject, tuned.settings)
    document = {"tuned": tuned, "held_out_pcc": checks, "numerics": numerics, "freed": freed}
    files.json("optimise.json", document)
    files.text("optimise.md", _page(subject, tuned, checks, freed))
    findings = [f"{t.change}: saves {time(t.saves_ns)}, PCC {t.pcc:.5f}" for t in tuned.kept if t.pcc is not None]
    findings += [f"not kept: {t.change}, {t.verdict}" for t in tuned.trials if t.verdict == "too far off"][:4]
    findings.append(f"held-out inputs: lowest PCC {lowest:.6f}" if lowest is not None else "held-out inputs: exact")
    findings += [f"taken back when verified: {t.change}" for t in dropped]
    findings.append(freed)
    if numerics == "fast":
        seen = "what was found is verified by the chip's own rules" if by_rules else "its rounding was not looked at"
        findings.append(f"the search computed products in float32, where fidelity rounds nothing; {seen}")
    return Found(
        f"{tuned.speedup:.2f} × faster than bfloat16 in DRAM, modelled: {time(tuned.start_ns)} → {time(tuned.ns)}",
        tuple(findings),
        _step(tuned) if holds else "On inputs it has not seen the PCC is below the budget: raise --pcc and run again.",
        attention=not holds,
        data={
            "speedup": tuned.speedup, "start_ns": tuned.start_ns, "ns": tuned.ns, "held_out_pcc": lowest,
            "settings": tuned.settings, "trials": tuned.trials, "numerics": numerics, "freed": freed,
        },
    )  # fmt: skip


def _step(tuned: Tuned) -> str:
    start, found = tuned.start, tuned.settings
    names = ("memory", "sharding", "products", "math_fidelity", "weights", "overrides")
    changed = [n for n in names if getattr(start, n) != getattr(found, n)]
    given = ", ".join(f"{n}={getattr(found, n)!r}" for n in changed)
    return f"Compile with settings {{precision='bfloat16', {given}}}." if given else ""


@dataclass
class _Costs:
    """The subject's plans and outputs, as the search asks for them."""

    subject: Subject
    _ns: dict[Settings, int | None] = field(default_factory=dict)
    _pcc: dict[Settings, float] = field(default_factory=dict)

    def ns(self, settings: Settings) -> int | None:
        if settings not in self._ns:
            self._ns[settings] = self.subject.planned_ns(settings)
        return self._ns[settings]

    def pcc(self, settings: Settings) -> float:
        if settings not in self._pcc:
            found = _lowest(self.subject, settings, self.subject.call)
            self._pcc[settings] = 1.0 if found is None else found
        return self._pcc[settings]

    def weights(self) -> dict[str, int]:
        modules = dict(self.subject.model.named_modules())
        found = {op.module for op in self.subject.compiled().coverage.ops if op.aten in WITH_WEIGHTS}
        sizes = {
            path: sum(p.numel() for p in modules[path].parameters(recurse=False)) for path in found if path in modules
        }
        return {path: size for path, size in sorted(sizes.items()) if size}


def _lowest(subject: Subject, settings: Settings, call: Call) -> float | None:
    """The lowest PCC over outputs; 0 where one fails for another reason than its PCC."""
    compared = compare_outputs(subject.on_device(call, settings), subject.eager(call), -1.0)
    if not all(c.passed for c in compared):
        return 0.0
    return min((c.pcc for c in compared if c.pcc is not None), default=None)


def _verified(
    subject: Subject, tuned: Tuned, least: float, by_rules: bool
) -> tuple[Tuned, list[float | None], list[Trial]]:
    """What was found, less the last changes that do not hold on inputs that the search has not seen."""
    calls = subject.held_out(HELD_OUT)[: 1 if by_rules and tuned.start.numerics == "fast" else None]
    dropped: list[Trial] = []
    while True:
        final = replace(tuned.settings, numerics="faithful" if by_rules else "fast")
        checks = [_lowest(subject, final, call) for call in calls]
        if all(pcc is None or pcc >= least for pcc in checks) or not tuned.kept:
            return tuned, checks, dropped
        dropped.append(tuned.kept[-1])
        tuned = tuned.without_last()


def _freed(subject: Subject, settings: Settings) -> str:
    """What freeing each value after its last use is worth: the L1 peak with and without."""
    with_it = without = 0
    for graph in subject.compiled(settings).graphs:
        if graph.chip is None:
            continue
        kept = replace(graph.program, body=tuple(s for s in graph.program.body if s.kernel != DEALLOCATE))
        with_it = max(with_it, memory_use(graph.program, graph.chip, settings).l1_peak_per_core_bytes)
        without = max(without, memory_use(kept, graph.chip, settings).l1_peak_per_core_bytes)
    kib = f"{with_it / 1024:.0f} KiB of L1 a core at the peak, {without / 1024:.0f} without"
    return f"deallocation after each last use: {kib}"


def _page(subject: Subject, tuned: Tuned, checks: list[float | None], freed: str) -> str:
    lines = [f"# Optimising {subject.asked.workload.name} on {subject.asked.device}", ""]
    lines += [
        f"From {time(tuned.start_ns)} to {time(tuned.ns)} a call, {tuned.speedup:.2f} × (both modelled, in a trace), "
        f"with a PCC of at least {subject.asked.settings.pcc}.",
        "",
        "| tried | time then | saves | PCC | |",
        "|---|---:|---:|---:|---|",
        f"| everything in bfloat16, interleaved in DRAM | {time(tuned.start_ns)} | | {tuned.start_pcc:.6f} | start |",
    ]
    for t in tuned.trials:
        then, saved = (time(t.ns), _signed(t.saves_ns)) if t.ns is not None else ("", "")
        pcc = f"{t.pcc:.6f}" if t.pcc is not None else ""
        lines.append(f"| {t.change} | {then} | {saved} | {pcc} | {t.verdict} |")
    shown = ", ".join("exact" if c is None else f"{c:.6f}" for c in checks)
    lines += ["", f"On held-out inputs: PCC {shown}.", "", f"{freed[:1].upper()}{freed[1:]}."]
    return "\n".join(lines)


def _signed(ns: int) -> str:
    return time(ns) if ns >= 0 else f"-{time(-ns)}"
