"""How a model is served while it is benchmarked: copies, workers, batch and arrivals, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Load:
    """How calls arrive. Closed loop: each worker calls again as soon as it has its answer; open: at given times."""

    mode: Literal["closed", "concurrency", "constant", "poisson", "replay", "offline", "multistream"] = "closed"
    rate: float = 0.0
    """Calls per second over all workers (constant, poisson)."""
    concurrency: int = 0
    streams: int = 0
    arrivals_s: tuple[float, ...] = ()
    """Intended starts of a replayed trace, in seconds after the measured phase begins."""
    seed: int = 0


@dataclass(frozen=True)
class Configuration:
    """One row of a benchmark's grid."""

    model_name: str
    device: str = "cpu"
    batch_size: int = 1
    n_models: int = 1
    workers_per_model: int = 1
    pipeline_size: int = 1
    duration_s: float = 60.0
    max_infers: int | None = None
    warmup: int | None = None
    """Calls before measuring; None finds the steady state itself."""
    load: Load = Load()
    multiprocess: bool = True
    multiinterpreter: bool = False
    threads: int = 1
    cost_per_hour: float | None = None
    recording: Literal["raw", "histogram"] = "raw"
    """Every call's stamps, or a histogram of constant size."""
    model_filename: str = ""
    """The file that the model came from, where it is one."""

    @property
    def num_workers(self) -> int:
        return self.n_models * self.workers_per_model

    @property
    def words(self) -> str:
        """What tells it from another configuration of the same model on the same device: `b8 n1 w2 poisson200`."""
        parts = [f"b{self.batch_size}", f"n{self.n_models}", f"w{self.workers_per_model}"]
        parts += [f"p{self.pipeline_size}"] if self.pipeline_size > 1 else []
        rate = f"{self.load.rate:g}" if self.load.rate else ""
        return " ".join([*parts, *([self.load.mode + rate] if self.load.mode != "closed" else [])])
