"""Stage 11: the written model without trace, in a trace, with two queues, and with both: tests and modelled times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from proveout.bringup.data import TraceData, TraceRow
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.bringup.testing import run_tests, written_module
from proveout.bringup.trace_text import RUNNER, TESTS
from proveout.bringup.tree import parts_of
from proveout.compiler.plan import make_plan
from proveout.program import Program
from proveout.report.perf.view import faster, time
from proveout.report.script import in_words

MODES: tuple[tuple[str, bool, int], ...] = (
    ("none", False, 1),
    ("trace", True, 1),
    ("2 queues", False, 2),
    ("trace and 2 queues", True, 2),
)
BYTES_PER_CALL = 4 * 4096
"""Of the trace region, for each call of the body: a call is up to four device operations."""


def run(subject: Subject, files: Files) -> StageResult:
    folder = subject.folder.path
    programs = [r.variant.compiled.program for r in subject.runs(subject.optimised)]
    blocked = [step for program in programs for step in parts_of(program).off_device]
    region = 65536 + BYTES_PER_CALL * max(len(program.body) for program in programs)
    files.text("ttnn_trace.py", RUNNER.format(name=in_words(subject.bringup.workload.name), region=region))
    script = files.path("ttnn_trace.py")
    modes = [m for m in MODES if not blocked or not m[1]]
    test = files.path("tests/test_trace.py")
    test.write_text(TESTS.format(name=in_words(subject.bringup.workload.name), modes=[m[0] for m in modes]))
    tests = run_tests(test, subject.bringup.tests, folder)
    measured = {} if blocked else _times(script, folder)
    plans = _plans(programs, subject)
    rows = [TraceRow(name, plans.get(name), measured.get(name), trace, queues) for name, trace, queues in MODES]
    best = min(plans, key=lambda name: plans[name])
    missing = subject.without_host(subject.optimised)
    gain = f"{faster(plans['none'] / plans[best], missing)} with {best}: " if plans[best] else ""
    where = " on the chip" if missing else ""
    findings = [f"{name}: {time(ns)} a call{where}, optimised (modelled)" for name, ns in plans.items()]
    findings.append(f"tests: {tests}")
    if blocked:
        kinds = ", ".join(dict.fromkeys(s.kernel for s in blocked))
        findings.append(f"no trace of the whole model: {kinds} are not the device's; each stretch between them has one")
    wrong = tests.failed > 0 or (bool(tests.why) and subject.bringup.tests)
    step = (
        "Bring the ops of the stage 'missing' to the device: only then is the whole model one trace." if blocked else ""
    )
    said = ("; in several traces, with host ops between them" if blocked else "") + (f"; {missing}" if missing else "")
    return StageResult(
        f"{gain}{time(plans[best])} a call{where} (modelled){said}",
        tuple(findings),
        "Run: pytest tests/test_trace.py" if wrong else step,
        attention=wrong or bool(blocked),
        data=TraceData(tuple(rows), tests, tuple(s.kernel for s in blocked)),
    )


def _plans(programs: Sequence[Program], subject: Subject) -> dict[str, int]:
    """The written model's own Programs in each mode: compiled anew for a mode, they could be others."""
    tuned = subject.optimised
    how = {name: replace(tuned, trace=trace, queues=queues) for name, trace, queues in MODES}  # type: ignore[arg-type]
    return {
        name: sum(make_plan(program, subject.chip, settings, remedies=()).total_ns for program in programs)
        for name, settings in how.items()
    }


def _times(script: Path, folder: Path) -> dict[str, int]:
    """What the modelled clock of the written model says, a call."""
    with written_module(script, folder) as module:
        return {name: module.time_of(name) for name, _, _ in MODES}
