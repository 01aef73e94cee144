"""What a worker is told: one configuration's model, inputs and functions, as they travel to a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proveout.clock import histogram
from proveout.clock.histogram import HistogramProgress, HistogramWriter
from proveout.clock.loops import OnError, columns
from proveout.clock.stamps import StampProgress, StampWriter
from proveout.devices.registry import describe
from proveout.measure.inputs import DatasetOptions, Inputs
from proveout.measure.models import Model
from proveout.serving import Configuration

OPEN = ("constant", "poisson", "replay")
"""Loads with a schedule of intended starts."""


@dataclass(frozen=True, eq=False)
class Functions:
    """The user's own functions, each optional."""

    preprocess_fn: Callable[..., Any] | None = None
    postprocess_fn: Callable[[Any], Any] | None = None
    env_setup_fn: Callable[[int, dict[str, Any]], None] | None = None
    setup_fn: Callable[[int, dict[str, Any], Any], None] | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """One configuration, ready to be run."""

    configuration: Configuration
    model: Model
    inputs: Inputs
    functions: Functions = Functions()
    dataset: DatasetOptions = field(default_factory=DatasetOptions)
    on_error: OnError = "fail"
    reference: Model | None = None
    pcc: float = 0.99

    @property
    def columns(self) -> tuple[str, ...]:
        """What is stamped of each call; known before any worker runs, so that any stamps can be read."""
        if self.configuration.recording == "histogram":
            return histogram.COLUMNS
        one_by_one = self.inputs.kind != "fixed"
        parts = {
            "intended": self.has_arrivals,
            "preprocess": self.functions.preprocess_fn is not None,
            "infer": self.functions.postprocess_fn is not None,
            "device": self.has_device_time,
        }
        return columns(plain=not one_by_one and not any(parts.values()), **parts)

    @property
    def has_arrivals(self) -> bool:
        """Whether calls have an intended start that is not the end of the one before."""
        return self.configuration.load.mode in (*OPEN, "offline", "multistream")

    @property
    def has_device_time(self) -> bool:
        """GPUs have events; what is compiled for a modelled chip has its prediction. A histogram keeps neither."""
        info = describe(self.configuration.device)
        return self.configuration.recording == "raw" and info is not None and (info.is_gpu or info.times == "modelled")

    @property
    def callers(self) -> list[int]:
        """Worker threads of each model."""
        configuration, load = self.configuration, self.configuration.load
        if load.mode == "multistream":
            return [load.streams] * configuration.n_models
        if load.mode == "concurrency":
            even, more = divmod(load.concurrency, configuration.n_models)
            return [even + (index < more) for index in range(configuration.n_models)]
        return [configuration.workers_per_model] * configuration.n_models

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as the user's setup functions see it, with NeuronPerf's names."""
        fields = asdict(self.configuration)
        return fields | {
            "model_filename": self.model.name,
            "device_type": fields["device"],
            "duration": fields["duration_s"],
        }

    def limits(self, model: int) -> list[int | None]:
        """Calls of each of a model's workers: `max_infers` is a model's, shared by its workers."""
        total, workers = self.configuration.max_infers, self.callers[model]
        if total is None:
            return [None] * workers
        even, more = divmod(total, workers)
        return [even + (index < more) for index in range(workers)]


def writer_of(path: Path, columns: Sequence[str]) -> StampWriter | HistogramWriter:
    return HistogramWriter(path) if tuple(columns) == histogram.COLUMNS else StampWriter(path, columns)


def progress_of(path: Path, columns: Sequence[str]) -> StampProgress | HistogramProgress:
    return HistogramProgress(path) if tuple(columns) == histogram.COLUMNS else StampProgress(path, columns)


def stamps_path(folder: Path, model: int, worker: int) -> Path:
    return folder / f"model{model}-worker{worker}.stamps"


def log_path(folder: Path, model: int) -> Path:
    """A worker's stderr."""
    return folder / f"model{model}.log"


def output_path(folder: Path, model: int) -> Path:
    """A worker's stdout: what the user's code prints."""
    return folder / f"model{model}.out"
