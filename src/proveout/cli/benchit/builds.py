"""Builds, as MLAgility calls what a cache holds of one model: its Records and its ONNX files, by script and hash."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proveout.cache import Entry, entries
from proveout.cli.benchit.listing import measured_of
from proveout.compat.onnxflow import filesystem
from proveout.compat.onnxflow.build import Config, State, Status, load_state, output_dir, state_file
from proveout.devices.registry import HOST
from proveout.errors import UsageError, unknown
from proveout.store import Store, read_record
from proveout.types import Record

TYPES = {HOST: "x86", "cuda": "nvidia"}
"""What MLAgility calls the devices that it has."""


def builds(store: Store) -> dict[str, list[tuple[Entry, Record]]]:
    """The Records of every build, by its name; the models of a script that failed have no hash."""
    grouped: dict[str, list[tuple[Entry, Record]]] = {}
    for entry in entries(store):
        record = read_record(entry.path)
        grouped.setdefault(record.job.workload.build_name, []).append((entry, record))
    return dict(sorted(grouped.items()))


def named(store: Store, name: str | None, everything: bool, verb: str) -> dict[str, list[tuple[Entry, Record]]]:
    """One build by its name, by MLAgility's own hash in it, or by its model's name; or all of them."""
    if (name is None) != everything:
        raise UsageError(f"name one build, or say --all: benchit cache {verb} NAME. They are in: benchit cache list")
    known = builds(store)
    if name is None:
        return known
    chosen = {build: records for build, records in known.items() if _is_called(name, build, records)}
    if not chosen:
        raise unknown(f"build in the cache {store.folder}:", name, known)
    return chosen


def _is_called(name: str, build: str, records: Sequence[tuple[Entry, Record]]) -> bool:
    workload = records[0][1].job.workload
    script = filesystem.clean_script_name(workload.script)
    stems = (script, build.removesuffix(f"_{workload.build_hash}"))
    hashes = (workload.selector, *workload.other_hashes)
    spelled = {build, workload.name, *(f"{stem}_{one}" for stem in stems for one in hashes)}
    return name in spelled


def leave(cache: Path, record: Record, name: str = "") -> None:
    """A build's files as MLAgility's users read them, beside its ONNX files: its state, its statistics, its times."""
    workload = record.job.workload
    name = name or workload.build_name
    filesystem.make_build_dir(cache, name)
    filesystem.CacheDatabase(cache).add_build(filesystem.clean_script_name(workload.script), name)
    state = _state(cache, name, record)
    stats: dict[str, Any] = {
        "hash": workload.model_hash,
        "parameters": workload.parameters,
        "script": workload.script,
        "class": workload.class_name,
        "labels": {key: list(values) for key, values in workload.labels},
        **state.info.onnx,
    }
    filesystem.save_stats(cache, name, stats)
    measured = measured_of(record)
    if measured is None or record.status not in ("passed", "expected_failure"):
        return
    timing = {
        "device": measured.device,
        "runtime": measured.runtime,
        "runtime_version": measured.version,
        "kind": measured.timing.kind,
        "mean_latency": measured.timing.mean_ns / 1e6,
        "latency_units": "milliseconds (ms)",
        "throughput": 1e9 / measured.timing.mean_ns,
        "throughput_units": "inferences per second (IPS)",
    }
    filesystem.add_sub_stat(cache, name, "performance", measured.where, timing)
    kind = TYPES.get(record.job.device.partition(":")[0])
    if kind is not None and record.job.runtime == "ort":
        outputs = output_dir(cache, name) / f"{kind}_benchmark" / "outputs.json"
        outputs.parent.mkdir(exist_ok=True)
        figures = {"Mean Latency(ms)": timing["mean_latency"], "Throughput": timing["throughput"]}
        outputs.write_text(json.dumps(figures | {"CPU Name": measured.device}, indent=1) + "\n", encoding="utf-8")


def forget(cache: Path, name: str) -> None:
    """Delete the build's folder, and its line in the list of scripts."""
    shutil.rmtree(output_dir(cache, name), ignore_errors=True)
    filesystem.CacheDatabase(cache).remove_build(name)


def _state(cache: Path, name: str, record: Record) -> State:
    """As the stages left it; of a build without ONNX files, what its Record says."""
    built = record.status in ("passed", "expected_failure")
    if state_file(cache, name).is_file() and (built or record.job.runtime != "ort"):
        return load_state(cache, name)
    state = State(Config(name, True), str(cache))
    state.build_status = Status.SUCCESSFUL_BUILD if built else Status.FAILED_BUILD
    log = output_dir(cache, name) / "log_build.txt"
    log.write_text(record.log or f"{record.status}\n", encoding="utf-8")
    state.save()
    return state
