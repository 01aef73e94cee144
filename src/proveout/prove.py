"""The spine: one Job in, one Record out.

Job ─ capture ─▶ model and inputs ─ compile ─▶ Programs ─ device ─▶ outputs + timings ─ check · measure ─▶ Record
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout import isolate, limits
from proveout.capture.discovery import discover
from proveout.capture.named import Named
from proveout.capture.running import failure_of
from proveout.coding import from_json, to_json
from proveout.errors import ProveoutError, of_a_disk
from proveout.types import META, Job, Record, Workload

if TYPE_CHECKING:
    from proveout.capture import LiveModel
    from proveout.subject import Watch


def prove(job: Job, run: isolate.Runner | None = None) -> Record:
    """Do a Job in a process of its own, started by `run`. Whatever happens there, a Record comes back."""
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        result = Path(folder, "record.json")
        outcome = (run or isolate.run_python)(
            "proveout.prove", [str(result)], stdin=json.dumps(to_json(job)), timeout_s=job.timeout_s
        )
        if os.path.lexists(result):
            try:
                record = from_json(Record, isolate.read_answer(result))
                if record.job.key != job.key:
                    raise ValueError("the worker left the Record of another Job")
            except ValueError as error:
                return settle(failed(job, "crash", f"{error}: its script changed what it says", outcome.log))
            return dataclasses.replace(record, job=job, log="" if record.status == "passed" else outcome.log)
    return settle(failed(job, outcome.failure, f"the worker {outcome.story}", outcome.log))


def prove_here(job: Job, live: LiveModel | None = None, wanted: Any = None, watch: Watch | None = None) -> Record:
    """Do a Job in this process. `live` is its model where the caller has it; `wanted` the outputs to compare with,
    where they have the structure of eager's."""
    stage = "script"
    try:
        from proveout.clock.conditions import environment  # here: whoever only starts workers needs no torch
        from proveout.stages import STAGES, stages_of
        from proveout.subject import Subject, Watch

        watch = watch or Watch()
        subject = Subject(job, live, wanted, watch)
        obstacle = subject.captured.workload.obstacle
        if obstacle:
            subject = Subject(dataclasses.replace(job, runtime="eager"), subject.captured, watch=watch)
        record = Record(job, "passed")
        only = tuple(do for do in job.do if do == "benchmark")  # what cannot be compiled can be timed
        for stage in stages_of(only if obstacle else job.do):
            watch.stage(stage)
            record = STAGES[stage](subject, record)
        if obstacle:
            record = dataclasses.replace(record, status="failed", failure="capture", reason=obstacle)
        return settle(dataclasses.replace(record, environment=environment(), created=_now()))
    except ProveoutError as error:
        return settle(failed(job, error.failure, str(error) + _blame(error)))
    except Exception as error:
        traceback.print_exc()
        cause = getattr(error, "inner_exception", None) or error  # Dynamo's own sentence only says that there is one
        if words := of_a_disk(cause):
            return settle(failed(job, "environment", f"{stage}: {words}"))
        first = (str(cause).strip().splitlines() or [""])[0]
        if job.workload.weights == META and isinstance(cause, (NotImplementedError, RuntimeError)) and "meta" in first:
            return settle(failed(job, "capture", f"{NEEDS_VALUES} ({first.partition(',')[0][:120]})"))
        failure = "memory" if failure_of(error) == "memory" else FAILURE_OF_STAGE.get(stage, "internal")
        return settle(failed(job, failure, f"{stage}: {type(cause).__name__}: {first}{_blame(error)}"))


def prove_named(model: Named, job_of: Callable[[Workload], Job], timeout_s: float) -> list[Record]:
    """Do a Job with each model that a name stands for; a script without any gives one failed Record."""
    discovery = discover(model.script, script_args=model.script_args, timeout_s=timeout_s)
    if not discovery.workloads:
        none = Workload(model.name, discovery.script, "", labels=discovery.labels, script_args=model.script_args)
        reason = discovery.error or "no model was called"
        return [settle(failed(job_of(none), discovery.failure or "script", reason, discovery.log))]
    return [prove(job_of(dataclasses.replace(w, name=model.call(w.name)))) for w in discovery.workloads]


def settle(record: Record) -> Record:
    """The Record's status in the light of its script's labels: `expect::fail` turns the verdict round."""
    if record.status == "partial":
        return record
    expects_failure = record.job.workload.expects_failure
    if record.status != "passed" and record.failure != "expectation":
        return dataclasses.replace(record, status="expected_failure" if expects_failure else "failed")
    if expects_failure:
        reason = "was expected to fail, but passed"
        return dataclasses.replace(record, status="failed", failure="expectation", reason=reason)
    reason = "" if record.failure == "expectation" else record.reason
    return dataclasses.replace(record, status="passed", failure="", reason=reason)


def _blame(error: BaseException) -> str:
    """Which of the compiler's passes an error comes from, where it comes from one; Dynamo may have wrapped it."""
    chain: list[BaseException] = [error]
    while (inner := getattr(chain[-1], "inner_exception", None) or chain[-1].__cause__) and inner not in chain:
        chain.append(inner)
    notes = [note for e in chain for note in getattr(e, "__notes__", ())]
    return f" ({notes[0]})" if notes else ""


NEEDS_VALUES = (
    "its graph depends on the numbers in a tensor, which shapes alone do not tell. Plan it with --weights random"
)

FAILURE_OF_STAGE = {
    "script": "script",
    "model": "script",
    "compile": "lowering",
    "export": "lowering",
    "trace": "lowering",
    "run": "device",
    "check": "numerics",
    "explain": "numerics",
    "minimize": "internal",
    "benchmark": "device",
}


def failed(job: Job, failure: str, reason: str, log: str = "") -> Record:
    """The Record of a Job that gave nothing else."""
    return Record(job, "failed", reason=reason, failure=failure, log=log, created=_now())


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def main(arguments: Sequence[str]) -> None:
    """The worker's side of `prove`: a Job on stdin, the Record into the file named by the only argument."""
    job = from_json(Job, json.loads(sys.stdin.read()))
    path = Path(arguments[0])

    def write(record: Record) -> None:
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(to_json(record), allow_nan=False))
        partial.rename(path)

    try:
        limits.impose(
            job.limits,
            scratch=str(path.parent),
            stopping=lambda why: write(failed(job, "crash", why)),
            outputs=tuple(filter(None, (job.artifacts, job.dump))),
        )
    except ProveoutError as error:
        write(failed(job, error.failure, str(error)))
        return
    if job.lean or job.limits.sandbox:
        os.environ["PROVEOUT_CACHE"] = str(path.parent)  # gone with this folder
    write(prove_here(job))


if __name__ == "__main__":
    main(sys.argv[1:])
