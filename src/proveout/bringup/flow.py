"""How the stages are run: in order, resumed where they stopped, each failure told and passed by."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from proveout.bringup.stage import BringupJob, Files, Folder, StageRecord, Status, key_of
from proveout.bringup.stages import NUMBERS, STAGES, Stage, find_stage, with_needs
from proveout.coding import from_json, to_json
from proveout.errors import Crash, EnvironmentFault, ProveoutError, of_a_disk
from proveout.folders import write_whole
from proveout.sweep.tasks import libraries, wants_fresh
from proveout.sweep.warm import WarmServer

if TYPE_CHECKING:
    from proveout.bringup.subject import Subject

BESIDE = ("optimise", "modules", "perf", "trace")
"""Stages that need nothing of those between the graph and them: they run beside these, on another core."""
FEW_PARAMETERS = 500_000_000
"""A model of more is not loaded twice at once."""

Tell = Callable[[StageRecord, bool], None]
"""Called with each stage's outcome, and whether it was there already."""


def warm_server(script: Path) -> WarmServer:
    """For `bring_up`, and for the search for the script's models before it: imports are paid once."""
    stages = [f"{__package__}.{stage.module}" for stage in STAGES]
    tests = ["pytest"] if find_spec("pytest") else []
    return WarmServer([*tests, *libraries([script]), *stages])


def bring_up(
    job: BringupJob,
    path: Path,
    only: str | None = None,
    timeout_s: float = 3600.0,
    server: WarmServer | None = None,
) -> list[StageRecord]:
    """Run the stages in processes of their own; whatever happens there, every stage has its outcome and a report."""
    folder, until = Folder(path), time.monotonic() + timeout_s
    wanted = [*with_needs(only), STAGES[-1].name] if only else [stage.name for stage in STAGES]
    for name in folder.running():
        folder.mark_of(name).unlink()
    script = Path(job.workload.script)
    warm, fresh = server or warm_server(script), wants_fresh(script)

    def work(names: Sequence[str], threads: int = 0) -> None:
        """In one worker; one that dies is replaced by another, which passes the stage by."""
        left = [name for name in names if name in wanted]
        while left:
            request = json.dumps({"job": to_json(job), "folder": str(path), "wanted": left, "threads": threads})
            rest_s = max(1.0, until - time.monotonic())
            outcome = warm.run("proveout.bringup.flow", [], stdin=request, timeout_s=rest_s, fresh=fresh)
            died = next((name for name in folder.running() if name in left), None)
            if died is None and outcome.ok:
                return
            if died is None:  # between two stages: it could not say which is next
                said = outcome.log.strip().rpartition("\n")[2]
                if outcome.returncode == EnvironmentFault.exit_code:
                    raise EnvironmentFault(f"cannot write to {path}: {said}")
                raise Crash(f"bring-up's worker {outcome.story}: {said}")
            folder.mark_of(died).unlink()
            lines = tuple(line for line in outcome.log.strip().splitlines()[-3:] if line.strip())
            folder.write(_failed(find_stage(died), f"the worker {outcome.story}", lines))
            left.remove(died)

    try:
        *most, last = (stage.name for stage in STAGES)
        first = most[: NUMBERS["graph"]]
        rest = [name for name in most if name not in first]
        work(first)
        if _fit_twice(job):
            with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as until_done:
                until_done.callback(warm.stop)  # Ctrl-C: nobody waits for the workers
                groups = ([name for name in rest if (name in BESIDE) == beside] for beside in (False, True))
                list(pool.map(lambda names: work(names, _half_of_the_cores()), groups))
                until_done.pop_all()
        else:
            work(rest)
        work([last])
    finally:
        warm.stop()
    return folder.outcomes()


def _fit_twice(job: BringupJob) -> bool:
    """Whether two workers may hold the model at once, and have a core each."""
    return (job.workload.parameters or 0) < FEW_PARAMETERS and len(os.sched_getaffinity(0)) > 1


def _half_of_the_cores() -> int:
    """Threads for each of two workers: threads that wait for a core which the other has cost more than they bring."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def run_stages(
    job: BringupJob, folder: Folder, wanted: Sequence[Stage], tell: Tell = lambda outcome, old: None
) -> None:
    """Run stages in this process; those that are there already, made from the same, are left as they are."""
    from proveout.bringup.subject import Subject  # brings torch with it, which the parent of the workers does not need

    subject = Subject(job, folder)
    done: dict[str, StageRecord] = {}
    code = _code()
    for stage in STAGES:
        record = folder.outcome(stage.name)
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
    lacking = [name for name in stage.needs if name not in done or not done[name].is_done]
    if lacking and not stage.always:
        outcome, data = _skipped(stage, lacking[0], done), None
    else:
        write_whole(folder.mark_of(stage.name), stage.name)
        files = Files(folder, stage.name)
        try:
            result = stage.run(subject, files)
            kind: Status = "skipped" if result.skipped else "attention" if result.attention else "passed"
            outcome = StageRecord(
                NUMBERS[stage.name], stage.name, stage.title, kind, result.headline, result.findings,
                result.next_step, files.commit(), key, not result.skipped,
            )  # fmt: skip
            data = result.data
        except Exception as error:
            files.drop()
            outcome, data = _failed(stage, *_sentence(error)), None
    folder.write(outcome, data)
    folder.mark_of(stage.name).unlink(missing_ok=True)
    return outcome


def _sentence(error: Exception) -> tuple[str, tuple[str, ...]]:
    """An error in a sentence, and where it was raised unless it is one of ours, which says all there is."""
    if isinstance(error, ProveoutError):
        return str(error), ()
    if words := of_a_disk(error):
        return words, ()
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


def _use(threads: int) -> None:
    """Here, and in the tests that are run from here."""
    import torch

    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(min(threads, torch.get_num_threads()))


def main() -> None:
    """The worker's side of `bring_up`: what is asked on stdin, the outcomes in the folder."""
    _end_with_parent()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of the tests that are run, nothing stays
    request = json.loads(sys.stdin.read())
    if request["threads"]:
        _use(request["threads"])
    job, folder = from_json(BringupJob, request["job"]), Folder(Path(request["folder"]))
    try:
        run_stages(job, folder, [find_stage(name) for name in request["wanted"]])
    except OSError as error:
        words = of_a_disk(error)
        if not words:
            raise
        print(words)
        sys.exit(EnvironmentFault.exit_code)


if __name__ == "__main__":
    main()
