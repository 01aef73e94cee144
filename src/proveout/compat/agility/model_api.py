"""`benchmark_model`: a live model and the inputs of a call, timed in this process."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proveout.capture import LiveModel
from proveout.capture.identity import workload_of
from proveout.cli.benchit import targets
from proveout.cli.benchit.builds import leave
from proveout.cli.benchit.listing import PACKAGES
from proveout.compat.agility.performance import MeasuredPerformance
from proveout.compat.agility.script_api import benchmark_script
from proveout.compat.onnxflow.buildit import build_model
from proveout.compat.onnxflow.filesystem import DEFAULT_CACHE_DIR
from proveout.compat.onnxflow.stage import Sequence as BuildSequence
from proveout.devices.registry import HOST, settings_for
from proveout.errors import ProveoutError, UsageError
from proveout.folders import file_name
from proveout.prove import prove_here
from proveout.store import Store
from proveout.types import Job


def benchmark_model(
    model: Any,
    inputs: Mapping[str, Any] | None,
    build_name: str | None = None,
    script_name: str | None = None,
    cache_dir: str | Path = DEFAULT_CACHE_DIR,
    device: str = "x86",
    runtime: str | None = None,
    backend: str = "local",
    build_only: bool = False,
    export_only: bool = False,
    lean_cache: bool = False,
    rebuild: str = "if_needed",
    onnx_opset: int | None = None,
    groq_compiler_flags: Sequence[str] | None = None,
    groq_assembler_flags: Sequence[str] | None = None,
    groq_num_chips: int | None = None,
    groqview: bool = False,
    sequence: BuildSequence | None = None,
    iterations: int = 100,
) -> MeasuredPerformance | None:
    """Build and time a model; its times are printed and given back, its Record is kept in the cache.

    With `build_only` or `export_only`, the ONNX files alone. A path is taken as an ONNX file.
    """
    if backend != "local":
        raise UsageError(f"backend={backend!r}: only 'local' is served; for other machines: benchit … --ray ADDRESS")
    name = build_name or Path(script_name or sys.argv[0] or "model").stem
    (target,) = targets.targets(device, [runtime] if runtime else [])
    if isinstance(model, (str, Path)):
        benchmark_script(str(model), cache_dir=str(cache_dir), build_only=build_only, iterations=iterations)
        return None
    if build_only or export_only or sequence is not None:
        build_model(model, dict(inputs or {}), name, cache_dir, True, rebuild, sequence, None, onnx_opset, export_only)
        if lean_cache:
            _forget_files(Path(cache_dir).expanduser() / file_name(name))
        if build_only or export_only:
            return None
    args: tuple[Any, ...] = () if isinstance(inputs, Mapping) else tuple(inputs or ())
    kwargs = dict(inputs) if isinstance(inputs, Mapping) else {}
    workload = dataclasses.replace(workload_of(model, args, kwargs, name), script=f"{name}.py")
    onnx = "" if lean_cache or target.runtime != "ort" else str(Path(cache_dir).expanduser() / file_name(name) / "onnx")
    job = Job(
        workload,
        target.device,
        settings_for(target.device, None),
        ("check", "benchmark"),
        iterations=iterations,
        runtime=target.runtime,
        artifacts=onnx,
        onnx_opset=onnx_opset if target.runtime == "ort" else None,
        onnx_build="convert" if onnx else None,
    )
    record = prove_here(job, LiveModel(workload, model, args, kwargs))
    store = Store(cache_dir)
    store.check_writable()
    store.write(record)
    timing = record.timing("eager" if target.runtime == "eager" else "compiled")
    if record.status != "passed" or timing is None:
        raise ProveoutError(f"{name} on {target.device}: {record.reason or 'it has no time'}")
    leave(store.folder, record, name)
    facts = dict(record.environment)
    performance = MeasuredPerformance(
        throughput=1e9 / timing.mean_ns,
        mean_latency=timing.mean_ns / 1e6,
        device=facts.get("cpu", target.device) if target.device == HOST else target.device,
        runtime=runtime or target.runtime,
        runtime_version=facts.get(PACKAGES.get(target.runtime, ""), ""),
        device_type=device,
        build_name=name,
        kind=timing.source,
    )
    performance.print()
    return performance


def _forget_files(folder: Path) -> None:
    for path in folder.rglob("*.onnx"):
        path.unlink()


__all__ = ["benchmark_model"]
