"""`benchit cache`: what a cache holds, by MLAgility's names."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from proveout.cache import clean, delete
from proveout.cli.benchit import builds, report
from proveout.cli.benchit.benchmark import clean_build
from proveout.cli.options import Json
from proveout.cli.output import emit, emit_json, note
from proveout.cli.verbs import cache as ours
from proveout.coding import to_json
from proveout.columns.table import row
from proveout.columns.words import status_words
from proveout.errors import UsageError
from proveout.store import Store
from proveout.types import Record


class BenchitCacheAction(StrEnum):
    report = "report"
    list = "list"
    stats = "stats"
    print = "print"
    delete = "delete"
    clean = "clean"
    location = "location"
    upgrade = "upgrade"


def verb(
    action: Annotated[BenchitCacheAction, typer.Argument(help="What to do.", show_default=False)],
    name: Annotated[str | None, typer.Argument(metavar="[BUILD]", help="One build.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="With delete and clean: every build.")] = False,
    cache_dir: report.CacheDirs = None,
    report_dir: report.ReportDir = Path(),
    as_json: Json = False,
) -> int:
    """Look into the cache of builds, and thin it out.

    list: their names; stats (or print): all that is known of one; report: a table of all as CSV; delete: forget
    one, or --all; clean: delete a build's ONNX files and compiled Programs, which can be made again; location:
    where the cache is.

    \b
    Examples:
      benchit cache list -d selftest_results
      benchit cache stats linear_0123456789ab
      benchit cache report -d x86_results nvidia_results -r reports
      benchit cache delete --all
    """
    if action is BenchitCacheAction.report:
        return report.write(cache_dir or [], report_dir, as_json)
    if len(cache_dir or []) > 1:
        raise UsageError("several caches are for `benchit cache report`; name one here.")
    folder = cache_dir[0] if cache_dir else None
    store = Store(folder)
    if action is BenchitCacheAction.location:
        emit_json({"cache": str(store.folder)}) if as_json else emit(f"The default cache directory is: {store.folder}")
        return 0
    if action is BenchitCacheAction.upgrade:
        return ours.verb(ours.CacheAction.upgrade, cache_dir=folder, as_json=as_json)
    if name is not None and action is BenchitCacheAction.list:
        raise UsageError("`benchit cache list` lists all builds. One in full: benchit cache stats BUILD")
    if folder is not None and not store.folder.is_dir():
        raise UsageError(f"{store.folder} is not a folder. Name the one that --cache-dir named when benchmarking.")
    document: dict[str, object]
    if action is BenchitCacheAction.list:
        document = {"builds": sorted(builds.builds(store))}
        if not as_json:
            emit("\n".join([f"Builds available in cache {store.folder}:", *document["builds"]]))  # type: ignore[misc]
    elif action in (BenchitCacheAction.stats, BenchitCacheAction.print):
        chosen = builds.named(store, name, False, "stats")
        document = {"records": [to_json(record) for records in chosen.values() for _, record in records]}
        if not as_json:
            emit("\n\n".join(_in_full(build, [r for _, r in records]) for build, records in chosen.items()))
    else:
        chosen = builds.named(store, name, everything, action.value)
        gone = [path for build in chosen for path in clean_build(store.folder, build)]
        if action is BenchitCacheAction.delete:
            gone += delete([entry for records in chosen.values() for entry, _ in records]).files
            for build in chosen:
                builds.forget(store.folder, build)
        elif everything:
            gone += clean(store).files
        document = {"deleted": [str(path) for path in gone]}
        if not as_json:
            action_text = "deleted build" if action is BenchitCacheAction.delete else "removed the build artifacts from"
            emit("\n".join(f"{action_text}: {build}" for build in chosen) or "No builds.")
    if as_json:
        emit_json({"cache": str(store.folder), **document})
    else:
        note(f"cache {store.folder}")
    return 0


def _in_full(build: str, records: list[Record]) -> str:
    """A build as indented lines, `key: value`."""
    workload = records[0].job.workload
    lines = [
        f"build_name: {build}",
        f"script: {workload.script}",
        f"class: {workload.class_name}",
        f"hash: {workload.selector}",
        f"mlagility_hashes: [{', '.join(workload.other_hashes)}]",
        f"parameters: {workload.parameters}",
        "labels:",
        *(f"  {key}: [{', '.join(values)}]" for key, values in workload.labels),
        "inputs:",
        *(f"  {name}: {spec.dtype}{list(spec.shape)}" for name, spec in workload.inputs),
        "records:",
    ]
    for record in records:
        job = record.job
        files = sorted(Path(job.artifacts).glob("*.onnx")) if job.artifacts else []
        lines += [
            f"- key: {job.key}",
            f"  device: {job.device}",
            f"  runtime: {job.runtime}",
            f"  did: {'+'.join(job.do)}",
            f"  sequence: {_sequence(record)}",
            f"  build_status: {_status(record)}",
            *([f"  reason: {record.reason}"] if record.reason else []),
            *([f"  onnx_opset: {_opset(files)}", *(f"  onnx_file: {file}" for file in files)] if files else []),
            *(f"  mean_latency_ms ({t.what}, {t.kind}): {t.mean_ns / 1e6:.6f}" for t in record.timings),
            f"  created: {record.created}",
        ]
    return "\n".join(lines)


def _status(record: Record) -> str:
    words = status_words(row(record)).words
    return f"successful_build ({words})" if record.status in ("passed", "expected_failure") else f"failed ({words})"


def _sequence(record: Record) -> str:
    if record.job.sequence:
        return record.job.sequence.file
    return "export_pytorch" if record.job.runtime == "ort" and not record.job.workload.is_onnx else record.job.runtime


def _opset(files: list[Path]) -> str:
    parts = (part for file in files for part in file.stem.split("-"))
    return ", ".join(dict.fromkeys(part[2:] for part in parts if part[:2] == "op" and part[2:].isdecimal()))
