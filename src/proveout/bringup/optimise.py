"""The optimise stage: the quickest decisions within the PCC budget, from all in bfloat16 and DRAM, with a certificate.

Plans are those of a trace, in which the host's dispatch hides nothing; so is the baseline's. What is found is verified
on inputs that the search has not seen. Without OR-Tools the greedy search alone decides, and the report says so.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from proveout.bringup.data import OptimiseData
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.coding import digest
from proveout.folders import default_folder
from proveout.kernels.cost import memory_use
from proveout.program import DEALLOCATE
from proveout.report.perf.view import faster, signed, time
from proveout.tune.account import NOT_MEASURED
from proveout.tune.certificate import Certificate, Rejected
from proveout.tune.greedy import Trial, Verdict
from proveout.tune.model import Model
from proveout.tune.search import Options, tune
from proveout.types import Settings

MINUTES = 30.0
LEAST_GAIN = 0.002
"""Of what a person will read and keep: layers that are alike stay so, unless it pays."""
MOST_REJECTED = 12


def run(subject: Subject, files: Files) -> StageResult:
    start = replace(subject.bringup.settings, memory="dram", trace=True)
    model = Model(subject.model, subject.call, subject.bringup.device, start)
    kept = default_folder() / "tune" / "searches" / f"{digest([subject.bringup.key, start])[:20]}.json"
    options = Options(minutes=MINUTES, kept=kept, least_gain=LEAST_GAIN, solver=find_spec("ortools") is not None)
    certificate = tune(model, options, name=subject.bringup.workload.name)
    freed = _freed(subject, certificate.settings)
    trials = _trials(certificate)
    files.json("certificate.json", certificate)
    files.json("optimise.json", {"certificate": certificate, "trials": trials, "freed": freed})
    files.text("optimise.md", _page(subject, certificate, trials, freed))
    lowest = min(certificate.verified_pcc[1:], default=None)
    findings = [f"{t.change}: saves {time(t.saves_ns)}" for t in certificate.path]
    off = [r for r in certificate.rejected if r.pcc is not None and r.pcc < certificate.pcc]
    findings += [f"not kept: {r.change}, {r.reason}" for r in off[:4]]
    findings.append(f"held-out inputs: lowest PCC {lowest:.6f}" if lowest is not None else "held-out inputs: none")
    if options.solver:
        proven = f"no combination within the error budget takes less than {time(certificate.bound_ns)}"
        findings.append(f"proven: {proven} (gap {certificate.gap:.1%})")
    findings += [*certificate.notes, freed]
    missing = subject.without_host(certificate.settings)
    return StageResult(
        f"{faster(certificate.speedup, missing)} than bfloat16 in DRAM, modelled: {time(certificate.start_ns)} → "
        f"{time(certificate.verified_ns)} on the chip{f'; {missing}' if missing else ''}",
        tuple(findings),
        _step(certificate)
        if certificate.holds
        else f"It does not keep its budget (PCC {certificate.pcc}, relative L2 {certificate.l2_limit:.3f}): see where "
        "the error comes from (proveout explain), or ask for less with --pcc.",
        attention=not certificate.holds,
        data=OptimiseData(
            speedup=certificate.speedup, start_ns=certificate.start_ns, ns=certificate.verified_ns, held_out_pcc=lowest,
            settings=certificate.settings, trials=tuple(trials), numerics=certificate.numerics, freed=freed,
            bound_ns=certificate.bound_ns, gap=certificate.gap, greedy_ns=certificate.greedy_ns,
            found_by=certificate.found_by,
        ),
    )  # fmt: skip


def _step(certificate: Certificate) -> str:
    names = ("memory", "sharding", "products", "math_fidelity", "weights", "overrides")
    changed = [n for n in names if getattr(certificate.start, n) != getattr(certificate.settings, n)]
    changes = ", ".join(f"{n}={getattr(certificate.settings, n)!r}" for n in changed)
    more = ", per_op=… of certificate.json" if certificate.settings.per_op else ""
    return f"Compile with settings {{precision='bfloat16', {changes}{more}}}." if changes or more else ""


def _trials(certificate: Certificate) -> list[Trial]:
    """What was changed and what was not, as rows of the report."""
    kept = [Trial(t.change, "kept", t.ns, t.saves_ns, t.pcc, certificate.settings) for t in certificate.path]
    added = certificate.found_by == "solver"  # what is told of a value is then what it does on top of those kept
    rejected = [
        Trial(
            r.change, _verdict(r, certificate.pcc), certificate.verified_ns - r.saves_ns if added else None, r.saves_ns,
            r.pcc, certificate.settings,
        )
        for r in certificate.rejected[:MOST_REJECTED]
    ]  # fmt: skip
    return kept + rejected


def _verdict(rejected: Rejected, least: float) -> Verdict:
    """Why a value was not taken, in a few words."""
    if rejected.pcc is None:
        return "out of time" if rejected.reason == NOT_MEASURED else "gain too small"
    return "too far off" if rejected.pcc < least else "others were quicker"


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


def _page(subject: Subject, certificate: Certificate, trials: list[Trial], freed: str) -> str:
    start, ns = time(certificate.start_ns), time(certificate.verified_ns)
    missing = subject.without_host(certificate.settings)
    how = "both modelled, in a trace" + (f"; {missing}" if missing else "")
    lines = [
        f"# Optimising {subject.bringup.workload.name} on {subject.bringup.device}",
        "",
        f"From {start} to {ns} a call, {certificate.speedup:.2f} × ({how}), with a PCC of at least "
        f"{certificate.pcc}. PCCs in the table are what the measured errors add up to; those of the last line are "
        "verified. `certificate.json` holds all of it; `proveout tune --check` replays it.",
        "",
        "| change | time then | saves | PCC | |",
        "|---|---:|---:|---:|---|",
        f"| everything in bfloat16, interleaved in DRAM | {start} | | {certificate.start_pcc:.6f} | start |",
    ]
    for t in trials:
        then, saved = (time(t.ns) if t.ns is not None else "", signed(t.saves_ns) if t.saves_ns else "")
        pcc = f"{t.pcc:.6f}" if t.pcc is not None else ""
        lines.append(f"| {t.change} | {then} | {saved} | {pcc} | {t.verdict} |")
    shown = "; ".join(f"PCC {call.pcc:.6f}, relative L2 {call.l2:.4f}" for call in certificate.calls[1:])
    lines += ["", f"On held-out inputs: {shown}.", "", f"{freed[:1].upper()}{freed[1:]}.", ""]
    if certificate.solver:
        bound = time(certificate.bound_ns)
        lines.append(f"No combination within the error budget takes less than {bound}: {certificate.solver}.")
    return "\n".join(lines)
