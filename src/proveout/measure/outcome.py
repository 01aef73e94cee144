"""What one benchmark configuration was asked and what came of it: raw stamps of every worker, whole or partial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from proveout.clock.stamps import NO_STAMPS, Stamps
from proveout.serving import Configuration

Status = Literal["passed", "partial", "failed", "skipped"]


@dataclass(frozen=True)
class WorkerRun:
    """One worker's share: stamps of `time.perf_counter_ns`, one entry a completed call, in order of completion.

    Arrays of parts (`preprocess_ns`, `infer_ns`, `postprocess_ns`) are empty where that part was not timed alone.
    """

    worker: int
    model: int
    starts_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    ends_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    intended_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    preprocess_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    infer_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    postprocess_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    device_ns: Stamps = field(default_factory=lambda: NO_STAMPS)
    """Device time of each call: CUDA events (measured) or the chip model's prediction (see Outcome.device_kind)."""
    bins: Stamps = field(default_factory=lambda: NO_STAMPS)
    """The worker's histogram where single calls are not kept (see histogram.py)."""
    load_ns: int = 0
    warmup_calls: int = 0
    errors: int = 0
    missing_items: int = 0
    """By how many items the calls fall short of calls × batch size: the last batch of a dataset may be smaller."""
    pid: int = 0
    exit_code: int | None = None
    reason: str = ""
    """Why it stopped early; empty for a worker that ran to the end."""
    log: str = ""


@dataclass(frozen=True)
class OutputCheck:
    """Outputs taken while timing against the reference's: a fast wrong model is a failure."""

    compared: int
    wrong: int
    worst_pcc: float | None
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """Everything that one configuration gave. There is one for every requested configuration, whatever happened."""

    configuration: Configuration
    status: Status
    reason: str = ""
    workers: tuple[WorkerRun, ...] = ()
    started_ns: int = 0
    ended_ns: int = 0
    device_kind: Literal["", "measured", "modelled"] = ""
    check: OutputCheck | None = None
    overhead_ns: float | None = None
    """The harness's own time a call, measured with a model that does nothing."""
    conditions: tuple[tuple[str, str], ...] = ()
    resources: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """Series sampled out of process, once a second: `cpu_percent`, `rss_bytes`, `energy_j`, `gpu_mhz` …"""
    created: str = ""

    @property
    def live_models(self) -> int:
        """Models whose workers all ran to the end."""
        dead = {w.model for w in self.workers if w.reason}
        return len({w.model for w in self.workers} - dead)
