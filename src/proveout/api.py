"""The command line's `benchmark` as Python functions: a script or a live model in, times and their units out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout.capture import How, LiveModel, resolve
from proveout.capture.identity import workload_of
from proveout.devices.registry import DEFAULT, HOST, find, settings_for
from proveout.errors import UsageError
from proveout.prove import prove_here
from proveout.store import Store
from proveout.sweep import Local, SweepPlan, sweep
from proveout.sweep.results import Rebuild, Result
from proveout.types import Job, Limits, Record, Runtime, Settings, Timing, Workload

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Benchmark:
    """What became of one model. `latency_kind` says whether a clock or a model of the chip gave the times."""

    record: Record

    latency_units = "milliseconds"
    throughput_units = "calls per second"

    @property
    def passed(self) -> bool:
        return self.record.status in ("passed", "expected_failure")

    @property
    def mean_latency(self) -> float | None:
        """Of the compiled model, in `latency_units`; None where it has no time."""
        return self._timing.mean_ns / 1e6 if self._timing else None

    @property
    def throughput(self) -> float | None:
        return 1e9 / self._timing.mean_ns if self._timing else None

    @property
    def latency_kind(self) -> str | None:
        return self._timing.source if self._timing else None

    @property
    def original_latency(self) -> float | None:
        """Of the model in eager mode on this machine, always measured."""
        timing = self.record.timing("eager")
        return timing.mean_ns / 1e6 if timing else None

    @property
    def _timing(self) -> Timing | None:
        what = "eager" if self.record.job.runtime == "eager" else "compiled"
        return self.record.timing(what)

    def __str__(self) -> str:
        name = f"{self.record.job.workload.name} on {self.record.job.device}"
        if self.mean_latency is None or self.throughput is None:
            return f"{name}: {self.record.reason or self.record.status}"
        times = f"{self.mean_latency:.4g} {self.latency_units}, {self.throughput:.4g} {self.throughput_units}"
        return f"{name}: {times} ({self.latency_kind})" + (f"; {self.record.reason}" if self.record.reason else "")


def benchmark_script(
    script: str | Path | Sequence[str | Path],
    *,
    device: str = "sim",
    search_dir: str | Sequence[str] = (),
    script_args: str = "",
    small: bool = False,
    weights: str = "",
    max_depth: int = 0,
    settings: Settings | Mapping[str, Any] | None = None,
    runtime: Runtime = "proveout",
    iterations: int | None = None,
    duration_s: float = 5.0,
    timeout_s: float = 600.0,
    cache_dir: str | Path | None = None,
    rebuild: Rebuild = "if_needed",
    jobs: int = 1,
) -> list[Benchmark]:
    """Find, compile, check and time the models of scripts, each in a process of its own; kept in the cache.

    Call it from the main thread: it starts processes.
    """
    names = [script] if isinstance(script, (str, Path)) else list(script)
    folders = [search_dir] if isinstance(search_dir, str) else list(search_dir)
    scripts = resolve([str(name) for name in names], folders)
    place, chosen = _target(HOST if runtime != "proveout" and device == DEFAULT else device, settings)
    plan = SweepPlan(
        Store(cache_dir),
        ((place, chosen),),
        Job(
            Workload("", "", ""),
            do=("check", "benchmark"),
            iterations=iterations or 0,
            timeout_s=timeout_s,
            duration_s=0.0 if iterations else duration_s,
            runtime=runtime,
        ),
        How(script_args, small, max_depth, weights),
        rebuild,
    )
    plan.store.check_writable()
    return [Benchmark(r.record) for r in sweep(plan, scripts, Local(jobs, [s for s, _ in scripts]), _Silent())]


def benchmark_model(
    model: nn.Module,
    inputs: Any,
    *,
    device: str = "sim",
    settings: Settings | Mapping[str, Any] | None = None,
    runtime: Runtime = "proveout",
    iterations: int | None = None,
    duration_s: float = 5.0,
    name: str = "",
) -> Benchmark:
    """Compile, check and time a live model in this process, on the inputs of one call: a dict of keyword arguments,
    a tuple of positional ones, or a single value."""
    args, kwargs = _split(inputs)
    workload = workload_of(model, args, kwargs, name)
    place, chosen = _target(HOST if runtime != "proveout" and device == DEFAULT else device, settings)
    job = Job(
        workload,
        place,
        chosen,
        ("check", "benchmark"),
        iterations=iterations or 0,
        duration_s=0.0 if iterations else duration_s,
        runtime=runtime,
        limits=Limits(),
    )
    return Benchmark(prove_here(job, LiveModel(workload, model, args, kwargs)))


def _split(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    return (inputs,), {}


def _target(device: str, settings: Settings | Mapping[str, Any] | None) -> tuple[str, Settings]:
    """The device's full name, and its settings."""
    if "," in device:
        raise UsageError(f"one device a call, not {device!r}; call again for another.")
    return find(device).name, settings_for(device, settings)


class _Silent:
    """A listener that says nothing."""

    def start(self, what: str) -> None: ...

    def found(self, what: str, script: Path, models: int, error: str) -> None: ...

    def expect(self, jobs: int, scripts_left: int) -> None: ...

    def done(self, what: str, result: Result, seconds: float) -> None: ...


__all__ = ["Benchmark", "benchmark_model", "benchmark_script"]
