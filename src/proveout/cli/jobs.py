"""From scripts to Records, for every verb that runs models: find, skip what is known, prove, keep, show."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.cli.request import Checked, Rebuild, Request, check
from proveout.errors import EnvironmentFault, ProveoutError, UsageError
from proveout.store import Store, fallback_rows, row
from proveout.types import Job, Record, Settings, Workload, versions

if TYPE_CHECKING:
    from proveout.capture import Discovery

Do = tuple[Literal["compile", "run", "export", "check", "benchmark", "perf"], ...]


class Interrupted(ProveoutError):
    exit_code = 130


@dataclass(frozen=True)
class Result:
    """One Record of this command, and whether it was there before."""

    record: Record
    from_cache: bool

    @property
    def failed(self) -> bool:
        return self.record.status in ("failed", "partial")


def run(request: Request, do: Do, artifacts: Path | None = None, dump: Path | None = None) -> list[Result]:
    """Serve a request; what is finished is in the store even when this is interrupted."""
    from proveout.capture import resolve

    checked = check(request)
    check_folder(artifacts)
    check_folder(dump, "--dump DIR")
    scripts = resolve(request.scripts or [], request.search_dir or [], request.all_scripts)
    jobs, results = _find(checked, scripts, do, artifacts)
    jobs = [_in_folder(job, "dump", dump) for job in jobs]
    known = {job.key: _known(checked.store, job, request.rebuild) for job in jobs}
    if request.rebuild is Rebuild.never:
        _refuse_missing([job for job in jobs if known[job.key] is None], len(jobs), checked.store)
    return [*results, *_prove_all(checked.store, jobs, known)]


def present(
    verb: str,
    results: Sequence[Result],
    request: Request,
    details: Callable[[Record], list[str]] | None = None,
) -> int:
    """Show the Records on stdout and give the exit code."""
    from proveout.report import terminal

    store = Store(request.cache_dir)
    rows = [row(result.record) for result in results]
    failed = sum(result.failed for result in results)
    if request.as_json:
        files = [str(store.path(result.record.job)) for result in results]
        records = [
            {**flat, "file": file, "from_cache": result.from_cache, "fallbacks": fallback_rows(result.record)}
            for flat, file, result in zip(rows, files, results, strict=True)
        ]
        emit_json({"verb": verb, "cache": str(store.folder), "failed": failed, "records": records})
    else:
        lines = [line for result in results for line in (details(result.record) if details else [])]
        emit("\n".join([terminal.table(rows, colour=colour()), *terminal.reasons(rows), *lines]))
        old = sum(result.from_cache for result in results)
        again = " (run again with --rebuild always)" if old else ""
        note(f"cache {store.folder}: {len(results) - old} new, {old} read{again}")
    return 1 if failed else 0


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


# -------------------------------------------------------------------------------------------- finding


def _find(
    checked: Checked, scripts: Sequence[tuple[Path, tuple[str, ...]]], do: Do, artifacts: Path | None
) -> tuple[list[Job], list[Result]]:
    """Jobs for every model of every script, and a failed Record for every script that gave none."""
    from proveout.capture import discover

    request, jobs, failures = checked.request, [], []
    with Progress(len(scripts)) as progress:
        for script, selectors in scripts:
            progress.start(f"looking for models in {script.name}")
            try:
                discovery = discover(script, script_args=request.script_args, timeout_s=request.timeout)
            except KeyboardInterrupt:
                raise Interrupted("interrupted while looking for models; run the same command to continue.") from None
            workloads = _selected(discovery, script, selectors)
            progress.done(_found_line(script, workloads, discovery.error))
            for device, settings in checked.targets:
                failure = _job(request, _no_model(discovery, script, request.script_args), device, settings, do, None)
                if workloads:
                    checked.store.remove(failure)
                    jobs += [_job(request, w, device, settings, do, artifacts) for w in workloads]
                else:
                    failures.append(_keep(checked.store, _script_failure(failure, discovery)))
    return jobs, failures


def _selected(discovery: Discovery, script: Path, selectors: tuple[str, ...]) -> tuple[Workload, ...]:
    found = {w.selector: w for w in discovery.workloads}
    for selector in selectors if found else ():
        if selector not in found:
            raise UsageError(f"{script.name} has no model {selector}; it has {', '.join(found)}.")
    return tuple(w for w in discovery.workloads if not selectors or w.selector in selectors)


def _found_line(script: Path, workloads: Sequence[Workload], error: str) -> str:
    what = f"{len(workloads)} model{'' if len(workloads) == 1 else 's'}"
    return f"{script.name}: {what}" + (f"; {error}" if error else "")


def _job(request: Request, workload: Workload, device: str, settings: Settings, do: Do, artifacts: Path | None) -> Job:
    job = Job(workload, device, settings, do, request.iterations, request.warmup, request.timeout)
    return _in_folder(job, "artifacts", artifacts)


def _in_folder(job: Job, what: Literal["artifacts", "dump"], folder: Path | None) -> Job:
    """The Job with a folder of its own below one that the user named."""
    if folder is None:
        return job
    name = re.sub(r"[^\w.-]+", "-", f"{job.workload.name}-{job.workload.selector}-{job.device}")
    path = str(folder.absolute() / name)
    return dataclasses.replace(job, artifacts=path) if what == "artifacts" else dataclasses.replace(job, dump=path)


def _no_model(discovery: Discovery, script: Path, script_args: str) -> Workload:
    return Workload(script.stem, discovery.script, "", labels=discovery.labels, script_args=script_args)


def _script_failure(job: Job, discovery: Discovery) -> Record:
    reason = discovery.error or "no model was called"
    return Record(
        job,
        "failed",
        reason,
        failure="script",
        log=discovery.log,
        environment=tuple(versions().items()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


# ------------------------------------------------------------------------------------------- proving


def _known(store: Store, job: Job, rebuild: Rebuild) -> Record | None:
    """The Record that makes a Job unnecessary."""
    if rebuild is Rebuild.always or job.dump or (job.artifacts and not any(Path(job.artifacts).rglob("program.json"))):
        return None
    record = store.get(job)
    if record is None or record.status == "partial":
        return None
    if record.failure == "timeout" and job.timeout_s > record.job.timeout_s:
        return None
    workload = dataclasses.replace(record.job.workload, labels=job.workload.labels)
    return settle(dataclasses.replace(record, job=dataclasses.replace(record.job, workload=workload)))


def _prove_all(store: Store, jobs: Sequence[Job], known: dict[str, Record | None]) -> list[Result]:
    results: list[Result] = []
    try:
        with Progress(len(jobs)) as progress:
            for job in jobs:
                progress.start(f"{job.workload.name} on {job.device}: {', '.join(job.do)}")
                started = time.monotonic()
                results.append(_prove(store, job, known[job.key]))
                progress.done(_done_line(results[-1], time.monotonic() - started))
    except KeyboardInterrupt:
        done = f"{len(results)} of {len(jobs)} done"
        raise Interrupted(f"interrupted: {done}, kept in {store.folder}; run the same command to continue.") from None
    return results


def _prove(store: Store, job: Job, known: Record | None) -> Result:
    from proveout.prove import prove

    if known is None:
        return _keep(store, prove(job))
    if known != store.get(job):
        store.write(known)
    return Result(known, from_cache=True)


def _keep(store: Store, record: Record) -> Result:
    record = settle(record)
    store.write(record)
    return Result(record, from_cache=False)


def _done_line(result: Result, seconds: float) -> str:
    from proveout.report.rows import STATUS

    record = result.record
    how = "from the cache" if result.from_cache else f"{seconds:.1f} s"
    line = f"{record.job.workload.name} on {record.job.device}: {STATUS[record.status].words} ({how})"
    return f"{line}: {record.reason}" if record.reason else line


def _refuse_missing(missing: Sequence[Job], total: int, store: Store) -> None:
    if missing:
        names = ", ".join(sorted({job.workload.name for job in missing})[:5])
        raise UsageError(
            f"{len(missing)} of {total} Records are not in the cache {store.folder} ({names}),"
            " and --rebuild never forbids making them. Use --rebuild if_needed."
        )


def check_folder(folder: Path | None, option: str = "-o DIR") -> None:
    """Refuse a folder that cannot be made, before any work."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write to {folder}: {error.strerror}. Choose another folder with {option}."
        ) from error
