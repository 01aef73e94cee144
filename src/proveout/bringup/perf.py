"""Stage 10: the perf sheet of the optimised model, with ttnn's own headers, sorted, and what would save more."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from proveout import recording
from proveout.bringup.data import PerfData, PerfRow
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.clock.timing import modelled
from proveout.engine.compiled import compile
from proveout.errors import CompileError
from proveout.report.perf import files as perf
from proveout.report.perf import view as perf_view
from proveout.report.perf.advice import advise, notes
from proveout.report.perf.sheet import Sheet, make_sheet
from proveout.types import Job, Record, Settings, versions

WIDTH = 120


def run(subject: Subject, files: Files) -> StageResult:
    settings = replace(subject.optimised, trace=True, numerics="fast")
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        device = subject.bringup.device
        compiled = compile(subject.model, device=device, settings=settings, record=folder, call=subject.call)
        programs = recording.load(Path(folder))
    if not programs:
        raise CompileError("no op of the model runs on the chip: there is nothing to time.")
    recorded = [replace(r, program=replace(r.program, name=f"graph{n}")) for n, r in enumerate(programs)]
    name = subject.bringup.workload.name.replace("::", ".")
    sheet, advice = make_sheet(name, recorded, len(compiled.coverage.graph_breaks)), advise(recorded)
    # The script's own time: the same folder comes of the same script.
    when = datetime.fromtimestamp(int(Path(subject.bringup.workload.script).stat().st_mtime), UTC)
    staging = files.path("perf/perf.json").parent
    written = perf.write(sheet, advice, staging, when)
    files.text("perf/sheet.txt", perf_view.render(sheet, advice, WIDTH))
    files.json("records/bringup/perf.json", _record(subject, settings, sheet, when))
    lines = perf_view.lines_of(sheet)
    total = sum(line.ns for line in lines) or 1
    rows = [_row(line, sheet, total) for line in lines[:25]]
    top = [f"{r.share:.0%} {r.op} ×{r.count}, {r.cores} cores, {r.bound}" for r in rows[:4]]
    changes = [f"{a.change} saves {perf_view.time(a.saves_ns)}: {a.how}" for a in advice[:5]]
    missing = perf_view.without_host(sheet.num_hosted, sheet.num_breaks)
    return StageResult(
        f"{perf_view.time(sheet.total_ns)} a call{' on the chip' * bool(missing)} in a trace (modelled), "
        f"{len(sheet.device_rows)} device operations{missing and f'; {missing}'}",
        (*top, *changes),
        f"{advice[0].change}: {advice[0].how}" if advice else "",
        data=PerfData(
            total_ns=sheet.total_ns, low_ns=sum(t.low_ns for t in sheet.times),
            high_ns=sum(t.high_ns for t in sheet.times), kernel_ns=sheet.kernel_ns, rows=tuple(rows),
            operations=len(sheet.device_rows), advice=advice, totals=tuple(perf_view.totals(sheet)),
            csv=written["csv"].relative_to(staging.parent).as_posix(),
            num_hosted=sheet.num_hosted + sheet.num_breaks, notes=notes(recorded),
        ),
    )  # fmt: skip


def _record(subject: Subject, settings: Settings, sheet: Sheet, when: datetime) -> Record:
    """The optimised model's time as a Record, or its chip's part of it; `records` is a store like any other."""
    job, times = subject.bringup, sheet.times
    what = "device" if sheet.num_hosted or sheet.num_breaks else "compiled"
    bounds = sum(t.low_ns for t in times), sum(t.high_ns for t in times)
    backed = sum(t.ns for t in times if t.calibrated) / (sum(t.ns for t in times) or 1)
    return Record(
        Job(job.workload, job.device, settings, ("perf",), iterations=1, warmup=0, baseline=False),
        "passed",
        timings=(modelled(what, job.device, sheet.total_ns, bounds, backed),),
        environment=tuple(versions().items()),
        created=when.isoformat(timespec="seconds"),
    )


def _row(line: perf_view.SheetLine, sheet: Sheet, total: int) -> PerfRow:
    row = line.first
    return PerfRow(
        op=row.code, count=len(line.rows), ns=line.ns, share=line.ns / total, cores=row.time.cores,
        utilisation=row.utilisation(sheet.chip), bound=row.bound or row.kind, ideal_ns=row.ideal_ns,
        each_ns=row.time.ns, module=row.step.origin.module, shapes=" · ".join(str(s) for s in row.inputs[:2]),
        calibrated=row.time.calibrated,
    )  # fmt: skip
