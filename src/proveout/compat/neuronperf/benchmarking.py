"""NeuronPerf's generic `benchmark`, `compile` and `Benchmarker`, for models that the user's `load_fn` loads."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from proveout.clock.pacing import clock
from proveout.compat.neuronperf import running
from proveout.compat.neuronperf.compiling import compile
from proveout.compat.neuronperf.logs import set_verbosity
from proveout.compat.neuronperf.results import ERROR, FINISHED, pair
from proveout.compat.neuronperf.running import Loader
from proveout.compat.neuronperf.timing import Timer
from proveout.errors import UsageError
from proveout.measure.host import Host, LoadFailed
from proveout.measure.inputs import DatasetOptions, Inputs
from proveout.measure.models import Model
from proveout.measure.outcome import Outcome
from proveout.measure.runs import configuration_folder, raised_line, run_folder, worker_runs
from proveout.measure.settings import DURATION_S
from proveout.measure.task import Functions, Task
from proveout.serving import Configuration

SUPPORTED_DEVICE_TYPES = ["neuron", "cpu", "cuda", "gpu", "sim"]
BENCHMARK_SECS = DURATION_S
FOR_EVER_NS = 1 << 62

log = running.log


def benchmark(load_fn: Any = None, model_filename: Any = None, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Measure what `load_fn(model_filename, device_id)` loads: a file of any framework, or the models of an index.

    A model and its inputs alone are taken too, as `neuronperf.torch.benchmark` takes them.
    """
    if load_fn is not None and model_filename is not None and not isinstance(model_filename, str | Path):
        more = () if inputs is None else (inputs,)
        return running.benchmark(load_fn, model_filename, *more, *args, **kwargs)
    if not callable(load_fn):
        raise UsageError("benchmark takes a load_fn first; a framework's own is in neuronperf.torch.benchmark.")
    if model_filename is None:
        raise UsageError("benchmark takes a model_filename: the path of a model or of a model index.")
    return running.benchmark(model_filename, inputs, *args, load_fn=load_fn, **kwargs)


class BenchmarkerErrorWrapper(NamedTuple):
    """What went wrong in a Benchmarker."""

    trace: str


class Benchmarker(threading.Thread):
    """One copy of a model and the workers that call it, from `start()` to `stop()`; then `results()` tells."""

    def __init__(
        self,
        id: int,
        device_id: int,
        load_fn: Callable[..., Any],
        model_filename: str,
        inputs: Any,
        workers_per_model: int,
        env_setup_fn: Callable[[], None] | None = None,
        setup_fn: Callable[[Any], None] | None = None,
        preprocess_fn: Callable[..., Any] | None = None,
        postprocess_fn: Callable[[Any], Any] | None = None,
        dataset_loader_fn: Callable[[Any, int], Iterable[Any]] | None = None,
        model_class_name: str | None = None,
        model_class_file: str | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.id, self.device_id, self.process_id = id, device_id, 0
        self.env_setup_fn, self.setup_fn = env_setup_fn, setup_fn
        self.status, self.error = "ready", None if workers_per_model > 0 else BenchmarkerErrorWrapper("no workers")
        self.n_infs = [0] * workers_per_model
        self.model: Any = None
        self._timers = {"env_setup": [Timer()], "setup": [Timer()]}
        make: Callable[[], Any] = partial(Loader(load_fn, model_filename), device_id)
        if model_class_name and model_class_file:
            make = running.ClassInFile(model_class_file, model_class_name)
        many = dataset_loader_fn is not None
        value = inputs if many or isinstance(inputs, tuple) else (inputs,)
        self._task = Task(
            Configuration(str(model_filename), workers_per_model=workers_per_model, warmup=1, multiprocess=False),
            Model(str(model_filename), make=make),
            Inputs("dataset" if many else "fixed", value, 1, batch_first=False),
            Functions(preprocess_fn, postprocess_fn, None, self._set_up),
            DatasetOptions(loader_fn=dataset_loader_fn),
        )
        self._host: Host | None = None
        self._stopping = threading.Event()
        self._outcome = Outcome(self._task.configuration, "skipped", "it was not started")

    def run(self) -> None:
        self.status, self.process_id = "running", os.getpid()
        log.debug("Benchmarker %d started.", self.id)
        task = self._task
        with run_folder([(task.configuration, task.columns, task.callers)]) as root:
            folder = configuration_folder(root, 0)
            try:
                began, reasons = self._measure(folder)
            except Exception as error:
                trace = str(error) if isinstance(error, LoadFailed) else traceback.format_exc()
                self.status, self.error = ERROR, BenchmarkerErrorWrapper(trace)
                self._outcome = Outcome(task.configuration, "failed", raised_line(trace))
                log.error("Benchmarker %d failed:\n%s", self.id, trace)
                return
            runs = tuple(worker_runs(folder, task.columns, task.callers))
        ended = max([began, *(int(run.ends_ns[-1]) for run in runs if len(run.ends_ns))])
        status, reason = ("failed", reasons[0]) if reasons else ("passed", "")
        self._outcome = Outcome(task.configuration, status, reason, runs, began, ended)  # type: ignore[arg-type]
        self.status = ERROR if reasons else FINISHED
        log.debug("Benchmarker %d finished.", self.id)

    def _measure(self, folder: Path) -> tuple[int, list[str]]:
        if self.env_setup_fn is not None:
            with self._timers["env_setup"][0]:
                self.env_setup_fn()
        self._host = Host(self._task, 0, folder)
        self._host.prepare()
        self._host.stopped = self._stopping.is_set()
        began = clock()
        finished = self._host.measure(began, FOR_EVER_NS, None)
        for number, ran in enumerate(finished.runs):
            self.n_infs[number] = ran.calls
            log.debug("Benchmarker %d, Worker %d finished after %d inferences.", self.id, number, ran.calls)
            if ran.traceback:
                self.error = BenchmarkerErrorWrapper(ran.traceback)
        return began, [ran.reason for ran in finished.runs if ran.reason]

    def _set_up(self, number: int, config: dict[str, Any], model: Any) -> None:
        self.model = model
        if self.setup_fn is not None:
            with self._timers["setup"][0]:
                self.setup_fn(model)

    def stop(self) -> None:
        """End the calls and wait until all is done."""
        if not self.is_alive():
            return
        self._stopping.set()
        if self.status == "running":
            self.status = "stopping"
        if self._host is not None:
            self._host.stopped = True
        self.join()

    def results(self) -> dict[str, Any]:
        """What the calls took, in Timers; only when they have ended."""
        if self.is_alive():
            raise RuntimeError("A Benchmarker has no results before it has ended: stop() it first.")
        _, results = pair(self._task, self._outcome, {}, self._timers)
        own = {"id": self.id, "device_id": self.device_id, "process_id": self.process_id, "status": self.status}
        return {name: value for name, value in results.items() if not name.endswith("_percents")} | own


__all__ = [
    "BENCHMARK_SECS",
    "ERROR",
    "SUPPORTED_DEVICE_TYPES",
    "Benchmarker",
    "BenchmarkerErrorWrapper",
    "benchmark",
    "compile",
    "set_verbosity",
]
