"""Stage 13: `report.md` and `report.html`, which tie the folder together, whatever became of the other stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proveout.bringup.report_page import render
from proveout.bringup.stage import MARKS, Files, Folder, StageRecord, StageResult
from proveout.bringup.subject import Subject
from proveout.columns.words import pcc_text
from proveout.report.perf.view import time

WORDS = {"passed": "done", "attention": "needs a look", "failed": "failed", "skipped": "skipped"}


def run(subject: Subject, files: Files) -> StageResult:
    from proveout.bringup.flow import STAGES

    folder = subject.folder
    names = [stage.name for stage in STAGES[:-1]]
    outcomes = [o for i, name in enumerate(names, 1) if (o := folder.outcome(i, name)) is not None]
    needed = [o for o in outcomes if o.applies]
    data = {o.name: folder.data(o.number, o.name) for o in outcomes}
    key_figures = figures(data)
    files.text("report.md", _markdown(subject, outcomes, data, key_figures))
    files.text("report.html", render(subject, outcomes, data, key_figures, _svg(folder)))
    bad = [o for o in needed if o.status in ("failed", "skipped")]
    look = [o for o in outcomes if o.status == "attention"]
    first = next((o for o in outcomes if o.status == "failed"), look[0] if look else None)
    done = f"{sum(o.is_done for o in needed)} of {len(names) - len(outcomes) + len(needed)} stages done"
    if not first:
        return StageResult(f"{done}; nothing to look at")
    said = f"{len(bad)} failed or skipped, {len(look)} to look at"
    step = f"Stage {first.number}, {first.title}: {first.next_step or first.headline}"
    return StageResult(f"{done}, {said}", (f"first: {first.title}: {first.headline}",), step, attention=True)


def figures(data: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    """(figure, what it is, tone): what a reader wants to know first."""
    drawn: list[tuple[str, str, str]] = []
    lowest, perf, tuned = (data.get(name, {}) for name in ("end-to-end", "perf", "optimise"))
    if lowest.get("lowest_pcc") is not None:
        rows = lowest.get("outputs", [])
        tone = "passed" if all(row["passed"] for row in rows) else "failed"
        drawn.append((pcc_text(lowest["lowest_pcc"]) or "", "lowest PCC of an output, before optimising", tone))
    modes = lowest.get("trust")
    if modes and modes["trusted"] is not None:
        tone = "passed" if modes["trusted"] else "failed"
        drawn.append(("yes" if modes["trusted"] else "no", "fast's PCC can be trusted", tone))
    if lowest.get("accuracy"):
        drawn.append((f"{lowest['accuracy'][0]:.1f} %", f"accuracy; eager {lowest['accuracy'][1]:.1f} %", "plain"))
    if perf:
        drawn.append((time(perf["total_ns"]), "a call, optimised, in a trace (modelled)", "plain"))
    if tuned:
        drawn.append((f"{tuned['speedup']:.2f} ×", "faster than bfloat16 in DRAM (modelled)", "plain"))
        if tuned.get("held_out_pcc") is not None:
            drawn.append((pcc_text(tuned["held_out_pcc"]) or "", "lowest PCC, optimised, on held-out inputs", "plain"))
    decoder = data.get("decoder", {})
    if decoder:
        one = decoder["rows"][0]
        spread = f"{one['slowest']:.3g} to {one['quickest']:.3g}"
        drawn.append((f"{one['tokens_per_s']:.3g}", f"tokens/s for one user ({spread}, modelled)", "plain"))
    graph = data.get("graph", {})
    if graph:
        on_host = graph["states"].get("host", 0)
        drawn.append((f"{on_host} of {graph['ops']}", "ops on the host", "partial" if on_host else "passed"))
    tests = [data[name]["tests"] for name in ("op-tests", "modules", "trace") if data.get(name, {}).get("tests")]
    if tests:
        passed, failed = (sum(t[key] for t in tests) for key in ("passed", "failed"))
        if passed or failed:
            drawn.append((f"{passed}", f"generated tests pass, {failed} fail", "failed" if failed else "passed"))
        else:
            drawn.append(("—", "generated tests were not run", "plain"))
    return drawn


def _svg(folder: Folder) -> str:
    path = folder.path / "graph.svg"
    return path.read_text() if path.exists() else ""


def _markdown(
    subject: Subject, outcomes: Sequence[StageRecord], data: dict[str, dict[str, Any]], top: list[tuple[str, str, str]]
) -> str:
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
