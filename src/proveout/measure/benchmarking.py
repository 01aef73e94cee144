"""`proveout.benchmark`: a model and its inputs in; one report for every configuration out."""

from __future__ import annotations

import datetime
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from proveout.clock.conditions import conditions
from proveout.clock.loops import OnError
from proveout.compat.neuronperf import model_index
from proveout.devices.registry import describe, find
from proveout.errors import ProveoutError, UsageError, unknown
from proveout.measure import controller, in_process, progress, records
from proveout.measure.controller import Limits, Say
from proveout.measure.grid import counts, grid, load_of, usable_cores
from proveout.measure.inputs import DatasetOptions, Inputs, input_sets
from proveout.measure.interrupts import Interrupts
from proveout.measure.models import Model, is_gpu, model_of
from proveout.measure.outcome import Outcome
from proveout.measure.runs import configuration_folder, run_folder, save_outcome
from proveout.measure.task import Functions, Task
from proveout.serving import Configuration, Load

DURATION_S = 60.0
ON_ERROR = ("fail", "continue", "retry")
RECORDINGS = ("raw", "histogram")
Recording = Literal["raw", "histogram"]


def benchmark(
    model: Any,
    inputs: Any = None,
    batch_sizes: int | Sequence[int] | None = None,
    duration: float = DURATION_S,
    n_models: int | Sequence[int] | None = None,
    pipeline_sizes: int | Sequence[int] | None = None,
    workers_per_model: int | Sequence[int] | None = None,
    *,
    max_infers: int | None = None,
    warmup: int | None = None,
    env_setup_fn: Callable[[int, dict[str, Any]], None] | None = None,
    setup_fn: Callable[[int, dict[str, Any], Any], None] | None = None,
    preprocess_fn: Callable[..., Any] | None = None,
    postprocess_fn: Callable[[Any], Any] | None = None,
    dataset_loader_fn: Callable[[Any, int], Iterable[Any]] | None = None,
    loop_dataset: bool = False,
    dataloader_kwargs: Mapping[str, Any] | None = None,
    multiprocess: bool = True,
    multiinterpreter: bool = False,
    return_timers: bool = False,
    stats_interval: float = 0.5,
    verbosity: int = 1,
    device_type: str | None = None,
    cost_per_hour: float | None = None,
    model_name: str = "",
    load: Load | str = "closed",
    recording: Recording = "raw",
    reference: Any = None,
    pcc: float = 0.99,
    on_error: OnError = "fail",
    call_timeout: float = 120.0,
    total_timeout: float | None = None,
    memory_limit: int | None = None,
    keep: bool = True,
    cache_dir: str | Path | None = None,
) -> list[Any]:
    """Measure a model in every configuration asked for, by default {1, as many as fit} models × {1, 2} workers.

    Gives a report (a dict) for each configuration, whatever happened to it; with `return_timers`, Outcomes with every
    stamp instead, of which `get_reports` makes the same reports. Each is kept as a Record in the cache, unless `keep`
    is False. All parameters: docs/guides/benchmark.md.
    """
    tasks = plan(
        model,
        inputs,
        batch_sizes,
        duration,
        n_models,
        pipeline_sizes,
        workers_per_model,
        functions=Functions(preprocess_fn, postprocess_fn, env_setup_fn, setup_fn),
        dataset=DatasetOptions(loop_dataset, dataset_loader_fn, dict(dataloader_kwargs or {})),
        max_infers=max_infers,
        warmup=warmup,
        multiprocess=multiprocess or multiinterpreter,
        multiinterpreter=multiinterpreter,
        device=device_type,
        cost_per_hour=cost_per_hour,
        model_name=model_name,
        load=load,
        recording=recording,
        reference=reference,
        pcc=pcc,
        on_error=on_error,
    )
    _check_positive(call_timeout=call_timeout, total_timeout=total_timeout, memory_limit=memory_limit)
    _check_positive(stats_interval=stats_interval)
    say = _sayer(verbosity)
    outcomes = run(tasks, Limits(call_timeout, total_timeout, memory_limit), say, stats_interval)
    if return_timers and not keep:
        return outcomes
    made = records.records(outcomes, map(records.workload_of, tasks), pcc=pcc)
    if keep and (reason := records.keep(made, cache_dir)):
        say(1, f"Not kept: {reason}")
    return outcomes if return_timers else [record.report for record in made]


def plan(
    model: Any,
    inputs: Any,
    batch_sizes: int | Sequence[int] | None,
    duration: float,
    n_models: int | Sequence[int] | None,
    pipeline_sizes: int | Sequence[int] | None,
    workers_per_model: int | Sequence[int] | None,
    *,
    functions: Functions,
    dataset: DatasetOptions,
    max_infers: int | None,
    warmup: int | None,
    multiprocess: bool,
    multiinterpreter: bool,
    device: str | None,
    cost_per_hour: float | None,
    model_name: str,
    load: Load | str,
    recording: Recording,
    reference: Any,
    pcc: float,
    on_error: OnError,
) -> list[Task]:
    """What there is to run, checked as far as it can be without running anything."""
    _check_positive(duration=duration, max_infers=max_infers, cost_per_hour=cost_per_hour)
    if warmup is not None and (not isinstance(warmup, int) or warmup < 0):
        raise UsageError(f"warmup is {warmup!r}: give a number of calls from 0, or None to find the steady state.")
    if on_error not in ON_ERROR:
        raise UsageError(f"on_error is {on_error!r}: give one of {', '.join(ON_ERROR)}.")
    if recording not in RECORDINGS:
        raise unknown("recording", recording, RECORDINGS)
    if device is not None:
        device = check_device(device)
    arriving = load_of(load)
    sets = input_sets(inputs, batch_sizes, preprocessed=functions.preprocess_fn is not None, options=dataset)
    expected = None if reference is None else model_of(reference)
    tasks = []
    for chosen, given in _pairs(model, model_name, sets, batch_sizes, pipeline_sizes):
        place = _device(chosen, device)
        if (info := describe(place)) is not None and info.times == "none":
            raise UsageError(f"device {place!r} computes nothing, so it has no times to measure.")
        if chosen.path and any(size > 1 for size in counts("pipeline_sizes", pipeline_sizes, (1,))):
            raise UsageError(
                f"{chosen.path} is compiled already, as a whole: a pipeline is cut from the model itself. "
                "Give benchmark the model, or leave pipeline_sizes out."
            )
        for models, workers, chips in grid(place, n_models, workers_per_model, pipeline_sizes, arriving):
            configuration = Configuration(
                model_name=chosen.name,
                device=place,
                batch_size=given.batch_size,
                n_models=models,
                workers_per_model=workers,
                pipeline_size=chips,
                duration_s=float(duration),
                max_infers=max_infers,
                warmup=warmup,
                load=arriving,
                recording=recording,
                multiprocess=multiprocess,
                multiinterpreter=multiinterpreter,
                cost_per_hour=cost_per_hour,
                model_filename=chosen.path,
            )
            tasks.append(_task(configuration, chosen, given, functions, dataset, on_error, expected, pcc))
    if multiprocess:
        for task in {id(t.inputs): t for t in tasks}.values():
            controller.pickled(task)
    return tasks


def _pairs(
    model: Any,
    model_name: str,
    sets: Sequence[Inputs],
    batch_sizes: int | Sequence[int] | None,
    pipeline_sizes: int | Sequence[int] | None,
) -> list[tuple[Model, Inputs]]:
    """Each model with each of its inputs: one model with all, those of an index each with its own batch size."""
    if not (isinstance(model, (str, Path)) and str(model).endswith(model_index.SUFFIX)):
        chosen = model_of(model, model_name)
        return [(chosen, given) for given in sets]
    index = model_index.filter(model, status="finished", batch_size=batch_sizes, pipeline_size=pipeline_sizes)
    if not index["model_configs"]:
        raise UsageError(f"no model of the index {model} is compiled for what is asked: look at its model_configs.")
    pairs = []
    for entry in index["model_configs"]:
        given = next((one for one in sets if one.batch_size == entry["batch_size"]), None)
        if given is None:
            raise UsageError(
                f"the index {model} has a model for batch size {entry['batch_size']}, and no input has that many rows: "
                "give one for each batch size, or choose with batch_sizes."
            )
        pairs.append((model_of(Path(entry["filename"]), model_name or index["model_name"]), given))
    return pairs


def _device(model: Model, asked: str | None) -> str:
    """What was asked for, or what the model was compiled for, or this machine's CPU."""
    if not model.path:
        return asked or "cpu"
    from proveout.engine.artifact import device_of

    compiled_for = device_of(model.path)
    if asked not in (None, compiled_for):
        raise UsageError(f"{model.path} was compiled for {compiled_for!r}: leave device_type out, or compile it again.")
    return compiled_for


def _task(
    configuration: Configuration,
    model: Model,
    inputs: Inputs,
    functions: Functions,
    dataset: DatasetOptions,
    on_error: OnError,
    reference: Model | None,
    pcc: float,
) -> Task:
    task = Task(configuration, model, inputs, functions, dataset, on_error, reference, pcc)
    workers = task.callers
    if min(workers) < 1:
        raise UsageError(
            f"a concurrency of {configuration.load.concurrency} over {configuration.n_models} models: "
            "give at least one call for each model."
        )
    threads = max(1, min(usable_cores() // sum(workers), threads_wanted()))
    if not configuration.multiprocess and "torch" in sys.modules:
        threads = sys.modules["torch"].get_num_threads()
    return replace(task, configuration=replace(configuration, threads=threads))


def run(tasks: Sequence[Task], limits: Limits, say: Say, stats_interval: float = 0.5) -> list[Outcome]:
    """Run configurations one after another, each in fresh processes; one that fails does not end the others."""
    outcomes: list[Outcome] = []
    spent: list[tuple[Configuration, float]] = []
    parts = [(t.configuration, t.columns, t.callers) for t in tasks]
    with Interrupts() as interrupts, run_folder(parts) as folder:
        for number, task in enumerate(tasks):
            if interrupts.count:
                outcomes.append(Outcome(task.configuration, "skipped", "interrupted before it began"))
                continue
            left = progress.time_left(spent, [t.configuration for t in tasks[number:]])
            say(1, progress.line(number + 1, len(tasks), task.configuration, left))
            say(2, f"Running model config: {task.config}")
            began = time.monotonic()
            outcome = _run_one(task, configuration_folder(folder, number), limits, interrupts, say, stats_interval)
            save_outcome(folder, number, outcome)
            outcomes.append(outcome)
            spent.append((task.configuration, time.monotonic() - began))
            if outcome.status != "passed":
                say(1, f"This configuration is {outcome.status}: {outcome.reason}.")
    return outcomes


def _run_one(
    task: Task, folder: Path, limits: Limits, interrupts: Interrupts, say: Say, stats_interval: float
) -> Outcome:
    configuration = task.configuration
    runner = controller.run if configuration.multiprocess else in_process.run
    found = (*conditions(gpu=is_gpu(configuration.device)), ("threads_per_worker", str(configuration.threads)))
    try:
        outcome = runner(task, folder, limits, interrupts, say, stats_interval)
    except (ProveoutError, OSError) as error:
        outcome = Outcome(configuration, "failed", str(error), created=_now())
    return replace(outcome, conditions=(*found, *outcome.conditions))


def threads_wanted() -> int:
    """A user who sets OMP_NUM_THREADS means it, as the most that a worker may have."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) else 1 << 16


def check_device(name: str) -> str:
    """The device's full name; refuses one that does not exist or cannot be used here."""
    if is_gpu(name):
        number = name.partition(":")[2]
        import torch

        count = torch.cuda.device_count()
        if not torch.cuda.is_available():
            raise UsageError(f"device {name!r}: PyTorch finds no GPU here. Use 'cpu' or 'sim'.")
        if number and (not number.isdigit() or int(number) >= count):
            raise UsageError(f"device {name!r}: PyTorch finds {count} GPUs here, numbered from 0.")
        return f"cuda:{number}" if number else "cuda"
    return find(name).name


def _check_positive(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise UsageError(f"{name} is {value!r}: give a number above 0.")


def _sayer(verbosity: int) -> Say:
    if verbosity not in (0, 1, 2):
        raise UsageError(f"verbosity is {verbosity!r}: give 0 (silent), 1 (progress) or 2 (all).")

    def say(level: int, text: str) -> None:
        if level <= verbosity:
            print(text, file=sys.stderr, flush=True)

    return say


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
