"""Stage 13: `report.md` and `report.html`, which tie the folder together, whatever became of the other stages."""

from __future__ import annotations

from collections.abc import Sequence

from proveout.bringup.data import (
    DATA,
    DecoderData,
    EndToEndData,
    GraphData,
    ModulesData,
    OpTestsData,
    OptimiseData,
    PerfData,
    TraceData,
)
from proveout.bringup.report_page import Figure, render
from proveout.bringup.stage import MARKS, Files, Folder, StageRecord, StageResult
from proveout.bringup.subject import Subject
from proveout.columns.words import pcc_text
from proveout.report.perf.view import time
from proveout.words import rounded

WORDS = {"passed": "done", "attention": "needs a look", "failed": "failed", "skipped": "skipped"}


def run(subject: Subject, files: Files) -> StageResult:
    folder = subject.folder
    outcomes = [o for o in folder.outcomes() if o.name in DATA]
    needed = [o for o in outcomes if o.applies]
    data = {o.name: kept for o in outcomes if (kept := folder.data(DATA[o.name])) is not None}
    key_figures = figures(folder)
    files.text("report.md", _markdown(subject, outcomes, key_figures))
    files.text("report.html", render(subject, outcomes, data, key_figures, _svg(folder)))
    bad = [o for o in needed if o.status in ("failed", "skipped")]
    look = [o for o in outcomes if o.status == "attention"]
    first = next((o for o in outcomes if o.status == "failed"), look[0] if look else None)
    done = f"{sum(o.is_done for o in needed)} of {len(DATA) - len(outcomes) + len(needed)} stages done"
    if not first:
        return StageResult(f"{done}; nothing to look at")
    said = f"{len(bad)} failed or skipped, {len(look)} to look at"
    step = f"Stage {first.number}, {first.title}: {first.next_step or first.headline}"
    return StageResult(f"{done}, {said}", (f"first: {first.title}: {first.headline}",), step, attention=True)


def figures(folder: Folder) -> list[Figure]:
    """What a reader wants to know first."""
    drawn: list[Figure] = []
    if (checked := folder.data(EndToEndData)) is not None:
        if checked.lowest_pcc is not None:
            tone = "passed" if all(row.passed for row in checked.outputs) else "failed"
            drawn.append((pcc_text(checked.lowest_pcc) or "", "lowest PCC of an output, before optimising", tone))
        if checked.trust is not None and checked.trust.trusted is not None:
            answer, tone = ("yes", "passed") if checked.trust.trusted else ("no", "failed")
            drawn.append((answer, "the quick mode's PCC can be trusted", tone))
        if checked.accuracy is not None:
            drawn.append((f"{checked.accuracy[0]:.1f} %", f"accuracy; eager {checked.accuracy[1]:.1f} %", "plain"))
    graph = folder.data(GraphData)
    chip = " on the chip, without the host's part" if graph is not None and graph.has_host_part else ""
    if (perf := folder.data(PerfData)) is not None:
        drawn.append((time(perf.total_ns), f"a call{chip}, optimised, in a trace (modelled)", "plain"))
    if (tuned := folder.data(OptimiseData)) is not None:
        drawn.append((f"{tuned.speedup:.2f} ×", f"faster than bfloat16 in DRAM{chip} (modelled)", "plain"))
        if tuned.held_out_pcc is not None:
            drawn.append((pcc_text(tuned.held_out_pcc) or "", "lowest PCC, optimised, on held-out inputs", "plain"))
    if (decoder := folder.data(DecoderData)) is not None:
        one = decoder.rows[0]
        spread = f"{rounded(one.slowest)} to {rounded(one.quickest)}"
        drawn.append((rounded(one.tokens_per_s), f"tokens/s for one user ({spread}, modelled)", "plain"))
    if graph is not None:
        on_host = graph.states.get("host", 0)
        drawn.append((f"{on_host} of {graph.ops}", "ops on the host", "partial" if on_host else "passed"))
    tested = [folder.data(OpTestsData), folder.data(ModulesData), folder.data(TraceData)]
    tests = [stage.tests for stage in tested if stage is not None]
    if any(t.passed or t.failed for t in tests):
        passed, failed = sum(t.passed for t in tests), sum(t.failed for t in tests)
        drawn.append((f"{passed}", f"generated tests pass, {failed} fail", "failed" if failed else "passed"))
    elif tests:
        drawn.append(("—", "generated tests were not run", "plain"))
    return drawn


def _svg(folder: Folder) -> str:
    path = folder.path / "graph.svg"
    return path.read_text() if path.exists() else ""


def _markdown(subject: Subject, outcomes: Sequence[StageRecord], top: Sequence[Figure]) -> str:
    workload = subject.bringup.workload
    lines = [f"# Bring-up of {workload.name} on {subject.bringup.device}", ""]
    lines += [f"- **{figure}** {words}" for figure, words, _ in top]
    lines += ["", "All times are modelled; nothing was measured on hardware.", ""]
    lines += ["| | stage | found | next |", "|---|---|---|---|"]
    for o in outcomes:
        lines.append(f"| {MARKS[o.status]} | {o.number} {o.title} | {o.headline} | {o.next_step} |")
    for o in outcomes:
        lines += ["", f"## {o.number} {o.title}: {WORDS[o.status]}", "", o.headline, ""]
        lines += [f"- {finding}" for finding in o.findings]
        files = [name for name, _ in o.files]
        if files:
            shown = ", ".join(f"[{n}]({n})" for n in files[:6]) + (
                f" and {len(files) - 6} more" if len(files) > 6 else ""
            )
            lines += ["", f"Files: {shown}"]
        if o.next_step:
            lines += ["", f"Next: {o.next_step}"]
    return "\n".join(lines)
