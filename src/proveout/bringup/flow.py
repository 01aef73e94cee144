"""The table of stages, and how they are run: in order, resumed where they stopped, each failure told and passed by."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from proveout import isolate
from proveout.bringup import (
    card,
    decoder,
    end_to_end,
    graph,
    missing,
    modules,
    op_tests,
    optimise,
    perf,
    reference,
    report,
    summary,
    trace,
)
from proveout.bringup.stage import BringupJob, Files, Folder, Stage, StageRecord, Status, key_of
from proveout.bringup.subject import Subject
from proveout.coding import from_json, to_json
from proveout.errors import ProveoutError, unknown
from proveout.folders import write_whole

STAGES: tuple[Stage, ...] = (
    Stage("card", "Model card", card.run),
    Stage("reference", "Reference outputs", reference.run),
    Stage("graph", "Graph", graph.run),
    Stage("summary", "Summary", summary.run, ("graph",)),
    Stage("op-tests", "Op tests", op_tests.run, ("graph",)),
    Stage("missing", "Missing ops", missing.run, ("graph",)),
    Stage("end-to-end", "End to end", end_to_end.run, ("card", "reference", "graph")),
    Stage("optimise", "Optimise", optimise.run, ("card", "reference", "graph")),
    Stage("modules", "Optimised ttnn model", modules.run, ("reference", "graph", "optimise")),
    Stage("perf", "Perf sheet", perf.run, ("optimise",)),
    Stage("trace", "Trace and queues", trace.run, ("modules", "optimise")),
    Stage("decoder", "Decoder", decoder.run),
    Stage("report", "Report", report.run, always=True),
)
NUMBERS = {stage.name: number for number, stage in enumerate(STAGES, 1)}
RUNNING = ".running"
"""Names the stage that a worker is in: what to blame where it dies."""

Tell = Callable[[StageRecord, bool], None]
"""Called with each stage's outcome, and whether it was there already."""


def find_stage(name: str) -> Stage:
    stage_named = next((stage for stage in STAGES if stage.name == name), None)
    if stage_named is None:
        raise unknown("stage", name, NUMBERS)
    return stage_named


def with_needs(name: str) -> list[str]:
    """A stage and those whose files it reads, in order."""
    needed = {name}
    for stage in reversed(STAGES):
        if stage.name in needed:
            needed.update(stage.needs)
    return [stage.name for stage in STAGES if stage.name in needed]


def bring_up(job: BringupJob, path: Path, only: str | None = None, timeout_s: float = 3600.0) -> list[StageRecord]:
    """Run the stages in a process of their own; whatever happens there, every stage has its outcome and a report."""
    folder = Folder(path)
    wanted = [*with_needs(only), STAGES[-1].name] if only else [stage.name for stage in STAGES]
    running = path / RUNNING
    running.unlink(missing_ok=True)
    for _ in STAGES:  # a worker that dies is replaced by one that passes the stage by
        request = {"job": to_json(job), "folder": str(path), "wanted": wanted}
        outcome = isolate.run_python("proveout.bringup.flow", [], stdin=json.dumps(request), timeout_s=timeout_s)
        if not running.exists():
            break
        stage = find_stage(running.read_text().strip())
        running.unlink()
        lines = tuple(line for line in outcome.log.strip().splitlines()[-3:] if line.strip())
        folder.write(_failed(stage, f"the worker {outcome.story}", lines))
        wanted.remove(stage.name)
    return [kept for s in STAGES if (kept := folder.outcome(NUMBERS[s.name], s.name)) is not None]


def run_stages(
    job: BringupJob, folder: Folder, wanted: Sequence[Stage], tell: Tell = lambda outcome, old: None
) -> None:
    """Run stages in this process; those that are there already, made from the same, are left as they are."""
    subject = Subject(job, folder)
    done: dict[str, StageRecord] = {}
    code = _code()
    for number, stage in enumerate(STAGES, 1):
        record = folder.outcome(number, stage.name)
        key = key_of(stage, job, done, code)
        fresh = record is not None and record.key == key and (record.is_done and folder.has_all(record))
        if stage in wanted and not fresh:
            record = _run(subject, folder, stage, done, key)
            tell(record, False)
        elif record is not None:
            tell(record, True)
        if record is not None:
            done[stage.name] = record


def _run(subject: Subject, folder: Folder, stage: Stage, done: Mapping[str, StageRecord], key: str) -> StageRecord:
    number = NUMBERS[stage.name]
    lacking = [name for name in stage.needs if name not in done or not done[name].is_done]
    running = folder.path / RUNNING
    if lacking and not stage.always:
        outcome, data = _skipped(stage, lacking[0], done), None
    else:
        write_whole(running, stage.name)
        files = Files(folder, number, stage.name)
        try:
            result = stage.run(subject, files)
            kind: Status = "skipped" if result.skipped else "attention" if result.attention else "passed"
            outcome = StageRecord(
                number, stage.name, stage.title, kind, result.headline, result.findings, result.next_step,
                files.commit(), key, not result.skipped,
            )  # fmt: skip
            data = result.data
        except Exception as error:
            files.drop()
            outcome, data = _failed(stage, *_told(error)), None
    folder.write(outcome, data)
    running.unlink(missing_ok=True)
    return outcome


def _told(error: Exception) -> tuple[str, tuple[str, ...]]:
    """An error in a sentence, and where it was raised unless it is one of ours, which says all there is."""
    if isinstance(error, ProveoutError):
        return str(error), ()
    traceback.print_exc()
    first = (str(error).strip().splitlines() or ["no message"])[0]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {first}", (
        f"raised at {Path(frame.filename).name}:{frame.lineno} in {frame.name}",
    )


def _failed(stage: Stage, reason: str, findings: tuple[str, ...] = ()) -> StageRecord:
    step = f"Fix what it names and run the same command again: finished stages are kept, {stage.name!r} is tried again."
    return StageRecord(NUMBERS[stage.name], stage.name, stage.title, "failed", reason, findings, step)


def _skipped(stage: Stage, lacking: str, done: Mapping[str, StageRecord]) -> StageRecord:
    cause = done.get(lacking)
    words = {"failed": "failed", "skipped": "was skipped"}.get(cause.status, "is not done") if cause else "has not run"
    step = "" if cause else f"Run: proveout bringup MODEL.py --stage {lacking}"
    reason = f"needs the stage {lacking!r}, which {words}"
    return StageRecord(NUMBERS[stage.name], stage.name, stage.title, "skipped", reason, (), step)


def _code() -> str:
    """The source of the stages: files of an older version of it are made again."""
    seal = hashlib.sha256()
    for package in ("proveout.bringup", "proveout.cause", "proveout.tune", "proveout.generation"):
        for path in sorted(resources.files(package).iterdir(), key=lambda path: path.name):
            if path.name.endswith((".py", ".js", ".css")):
                seal.update(path.read_bytes())
    return seal.hexdigest()


def _end_with_parent() -> None:
    """A worker whose parent is gone must not go on writing beside the next one."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """The worker's side of `bring_up`: what is asked on stdin, the outcomes in the folder."""
    _end_with_parent()
    request = json.loads(sys.stdin.read())
    job, folder = from_json(BringupJob, request["job"]), Folder(Path(request["folder"]))
    run_stages(job, folder, [find_stage(name) for name in request["wanted"]])


if __name__ == "__main__":
    main()
