"""From scripts to Records, for every verb that runs models: find, skip what is known, prove, keep, show."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.cli.request import SharedOptions, check, chosen_scripts
from proveout.columns.parts import fallback_rows
from proveout.devices.registry import DEFAULT, HOST, find
from proveout.errors import EnvironmentFault, UsageError
from proveout.report.tables import terminal
from proveout.runtimes import check_runtime
from proveout.store import Store
from proveout.sweep import Local, Result, Workers, sweep
from proveout.sweep.cluster import Cluster
from proveout.types import Do, Explain, Record, Runtime, Sequenced, Tune
from proveout.words import counted


def run(
    request: SharedOptions,
    do: tuple[Do, ...],
    artifacts: Path | None = None,
    dump: Path | None = None,
    *,
    runtime: Runtime = "proveout",
    lean: bool = False,
    onnx_opset: int | None = None,
    onnx_build: Literal["export", "convert"] | None = None,
    sequence: Path | None = None,
    explain: Explain | None = None,
    slower_than_ns: int | None = None,
    tune: Tune | None = None,
) -> list[Result]:
    """Serve a request; what is finished is in the store even when this is interrupted."""
    plan = check(request, do, runtime, lean)
    built = Sequenced.of(sequence) if sequence else None
    job = dataclasses.replace(
        plan.job,
        onnx_opset=onnx_opset,
        onnx_build=onnx_build,
        sequence=built,
        explain=explain,
        slower_than_ns=slower_than_ns,
        tune=tune,
    )
    scripts = chosen_scripts(request.scripts, request.search_dir, request.all_scripts, request.labels)
    check_runtime(runtime, [script for script, _ in scripts])
    if all(script.suffix == ".onnx" for script, _ in scripts) and request.device not in (DEFAULT, HOST):
        raise UsageError(f"ONNX Runtime runs {scripts[0][0].name} on the CPU; leave --device {request.device} out.")
    made = [folder for folder in (artifacts, dump) if folder is not None and not folder.exists()]
    check_folder(artifacts)
    check_folder(dump, "--dump DIR")
    plan = dataclasses.replace(
        plan,
        job=job,
        artifacts=artifacts,
        dump=dump,
        alone=frozenset(device for device, _ in plan.targets if not find(device).shared),
    )
    with Progress() as progress:
        results = sweep(plan, scripts, _workers(request, plan.store, [script for script, _ in scripts]), progress)
    for folder in made:
        with contextlib.suppress(OSError):  # one that holds something stays
            folder.rmdir()
    return results


def _workers(request: SharedOptions, store: Store, scripts: Sequence[Path]) -> Workers:
    if request.ray is None:
        return Local(request.jobs, scripts)
    return Cluster(request.ray, store, scripts)


def present(
    verb: str,
    results: Sequence[Result],
    request: SharedOptions,
    details: Callable[[Record], list[str]] | None = None,
) -> int:
    """Show the Records on stdout, what there is to say of each and of their times, and give the exit code."""
    store = Store(request.cache_dir)
    rows = [result.row for result in results]
    failed = sum(result.failed for result in results)
    if request.as_json:
        records = [
            {**vars(r.row), "file": str(r.path), "from_cache": r.from_cache, "fallbacks": fallback_rows(r.record)}
            | ({"trust": r.record.trust} if r.record.trust else {})
            for r in results
        ]
        emit_json({"verb": verb, "cache": str(store.folder), "failed": failed, "records": records})
    else:
        lines = [line for result in results for line in (details(result.record) if details else [])]
        lines += terminal.doubts([result.record for result in results])
        emit("\n".join([terminal.table(rows, colour=colour()), *terminal.reasons(rows), *lines]))
        old = sum(result.from_cache for result in results)
        again = "; --rebuild always makes them anew" if old else ""
        for made_up in sorted({row.random_weights for row in rows if row.random_weights}):
            note(f"{made_up}: random weights, not the published ones")
        note(f"{counted(len(results) - old, 'new result')}, {old} from the cache ({store.folder}){again}")
    return 1 if failed else 0


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
