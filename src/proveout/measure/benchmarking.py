"""`proveout.benchmark`: a model and its inputs in; one report for every configuration out."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proveout.clock.conditions import conditions
from proveout.clock.loops import OnError
from proveout.compat.neuronperf import model_index
from proveout.devices.registry import describe, find
from proveout.errors import ProveoutError, UsageError
from proveout.measure import controller, in_process, progress, records
from proveout.measure.controller import Printed, RunLimits, Say
from proveout.measure.grid import counts, grid, load_of, usable_cores
from proveout.measure.inputs import DatasetOptions, Inputs, input_sets, is_many
from proveout.measure.interrupts import Interrupts
from proveout.measure.models import Model, is_gpu, model_of, saved_in
from proveout.measure.outcome import Outcome
from proveout.measure.runs import configuration_folder, run_folder, save_outcome
from proveout.measure.settings import DURATION_S, Copies, Expected, Loop, Numbers, Recording, check_positive
from proveout.measure.task import Functions, Task
from proveout.serving import Configuration, Load


def benchmark(
    model: Any,
    inputs: Any = None,
    batch_sizes: Numbers = None,
    duration: float = DURATION_S,
    n_models: Numbers = None,
    pipeline_sizes: Numbers = None,
    workers_per_model: Numbers = None,
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
    dataset = DatasetOptions(loop_dataset, dataset_loader_fn, dict(dataloader_kwargs or {}))
    subjects = subjects_of(
        model,
        inputs,
        batch_sizes,
        pipeline_sizes,
        model_name=model_name,
        preprocessed=preprocess_fn is not None,
        dataset=dataset,
    )
    processes = multiprocess or multiinterpreter
    tasks = plan(
        subjects,
        Copies(n_models, workers_per_model, load),
        Loop(duration, max_infers, warmup, recording, on_error, processes, multiinterpreter),
        Functions(preprocess_fn, postprocess_fn, env_setup_fn, setup_fn),
        dataset,
        Expected(reference, pcc),
        device=device_type,
        cost_per_hour=cost_per_hour,
    )
    limits = limits_of(call_timeout, total_timeout, memory_limit)
    check_positive(stats_interval=stats_interval)
    say = _sayer(verbosity)
    outcomes = run(tasks, limits, say, stats_interval)
    if return_timers and not keep:
        return outcomes
    kept = records.records(outcomes, map(records.workload_of, tasks), pcc=pcc)
    if keep and (reason := records.keep(kept, cache_dir)):
        say(1, f"Not kept: {reason}")
    return outcomes if return_timers else [record.report for record in kept]


def plan(
    subjects: Sequence[ModelUnderTest],
    copies: Copies,
    loop: Loop,
    functions: Functions,
    dataset: DatasetOptions,
    expected: Expected,
    *,
    device: str | None = None,
    cost_per_hour: float | None = None,
) -> list[Task]:
    """What there is to run, checked as far as it can be without running anything."""
    loop.check()
    check_positive(cost_per_hour=cost_per_hour)
    if device is not None:
        device = check_device(device)
    arriving = load_of(copies.load)
    reference = None if expected.reference is None else model_of(expected.reference)
    tasks = []
    for subject in subjects:
        chosen, inputs, pipeline_sizes = subject.model, subject.inputs, subject.pipeline_sizes
        place = device_for(chosen, device)
        if (info := describe(place)) is not None and info.times == "none":
            raise UsageError(f"device {place!r} computes nothing, so it has no times to measure.")
        if chosen.path:
            pipeline_sizes = _own_stages(chosen, counts("pipeline_sizes", pipeline_sizes, (chosen.stages,)))
        for models, workers, chips in grid(place, copies.n_models, copies.workers_per_model, pipeline_sizes, arriving):
            configuration = Configuration(
                model_name=chosen.name,
                device=place,
                batch_size=inputs.batch_size,
                n_models=models,
                workers_per_model=workers,
                pipeline_size=chips,
                duration_s=float(loop.duration),
                max_infers=loop.max_infers,
                warmup=loop.warmup,
                load=arriving,
                recording=loop.recording,
                multiprocess=loop.multiprocess,
                multiinterpreter=loop.multiinterpreter,
                cost_per_hour=cost_per_hour,
                model_filename=chosen.path,
            )
            task = Task(configuration, chosen, inputs, functions, dataset, loop.on_error, reference, expected.pcc)
            tasks.append(_with_threads(task))
    if loop.multiprocess:
        for task in {id(t.inputs): t for t in tasks}.values():
            controller.pickled(task)
    return tasks


@dataclass(frozen=True, eq=False)
class ModelUnderTest:
    """A model with one set of inputs, and the numbers of chips that it is to span; None leaves that to the model."""

    model: Model
    inputs: Inputs
    pipeline_sizes: Numbers = None
    entry: Mapping[str, Any] = field(default_factory=dict)
    """What its model index says of it, where it comes from one."""


def subjects_of(
    model: Any,
    inputs: Any,
    batch_sizes: Numbers = None,
    pipeline_sizes: Numbers = None,
    *,
    model_name: str = "",
    preprocessed: bool = False,
    dataset: DatasetOptions | None = None,
    batch_first: bool = True,
    wanted: Mapping[str, Any] | None = None,
    open_model: Callable[[Any, str], Model] = model_of,
) -> list[ModelUnderTest]:
    """One model with each of its inputs; of an index, each model that is wanted with its own."""
    dataset = dataset or DatasetOptions()
    options = {"preprocessed": preprocessed, "options": dataset}
    if not model_index.is_index(model):
        chosen = open_model(model, model_name)
        sets = input_sets(inputs, batch_sizes, batch_first=batch_first, **options)  # type: ignore[arg-type]
        return [ModelUnderTest(chosen, example, pipeline_sizes) for example in sets]
    fields = {"batch_size": batch_sizes, "pipeline_size": pipeline_sizes, **(wanted or {})}
    index, named = model_index.filter(model, status="finished", **fields), model_index.name_of(model)
    if not index["model_configs"]:
        raise UsageError(f"no model of the index {named} is compiled for what is asked: look at its model_configs.")
    many = is_many(inputs) or dataset.loader_fn is not None
    sets = [] if many else input_sets(inputs, None, **options)  # type: ignore[arg-type]
    subjects = []
    for entry in index["model_configs"]:
        size, place = int(entry.get("batch_size", 1)), int(entry.get("input_idx", 0))
        example = input_sets(inputs, size, **options)[0] if many else _own_input(sets, size, place)  # type: ignore[arg-type]
        if example is None:
            raise UsageError(
                f"the index {named} has a model for batch size {size}, and no input has that many rows: "
                "give one for each batch size, or choose with batch_sizes."
            )
        chosen = open_model(Path(entry["filename"]), model_name or index["model_name"])
        subjects.append(ModelUnderTest(chosen, example, entry.get("pipeline_size", 1), entry))
    return subjects


def _own_input(sets: Sequence[Inputs], batch_size: int, place: int) -> Inputs | None:
    """The input at the place that an index names, unless another one alone has that many rows."""
    there = sets[place] if place < len(sets) else None
    rows = [one for one in sets if one.batch_size == batch_size]
    chosen = there if there is not None and (there in rows or not rows) else next(iter(rows), None)
    return None if chosen is None else replace(chosen, batch_size=batch_size, batch_first=False)


def _own_stages(model: Model, sizes: Sequence[int]) -> list[int]:
    """What is compiled spans as many chips as it was compiled for."""
    if any(size != model.stages for size in sizes):
        what = "as a whole" if model.stages == 1 else f"in {model.stages} stages"
        raise UsageError(
            f"{model.path} is compiled already, {what}: a pipeline is cut from the model itself. "
            "Give benchmark the model, compile it with pipeline_sizes, or leave pipeline_sizes out."
        )
    return [model.stages]


def device_for(model: Model, device: str | None) -> str:
    """What was asked for, or what the model was compiled for, or this machine's CPU."""
    if not model.path:
        return device or "cpu"
    from proveout.engine.artifact import device_of

    compiled_for = device_of(saved_in(model.path))
    if device not in (None, compiled_for):
        raise UsageError(f"{model.path} was compiled for {compiled_for!r}: leave device_type out, or compile it again.")
    return compiled_for


def _with_threads(task: Task) -> Task:
    """With the threads that each worker may use."""
    configuration, workers = task.configuration, task.callers
    if min(workers) < 1:
        raise UsageError(
            f"a concurrency of {configuration.load.concurrency} over {configuration.n_models} models: "
            "give at least one call for each model."
        )
    threads = max(1, min(usable_cores() // sum(workers), threads_wanted()))
    if not configuration.multiprocess and "torch" in sys.modules:
        threads = sys.modules["torch"].get_num_threads()
    return replace(task, configuration=replace(configuration, threads=threads))


def run(tasks: Sequence[Task], limits: RunLimits, say: Say, stats_interval: float = 0.5) -> list[Outcome]:
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
    task: Task, folder: Path, limits: RunLimits, interrupts: Interrupts, say: Say, stats_interval: float
) -> Outcome:
    configuration = task.configuration
    runner = controller.run if configuration.multiprocess else in_process.run
    facts = (*conditions(gpu=is_gpu(configuration.device)), ("threads_per_worker", str(configuration.threads)))
    try:
        outcome = runner(task, folder, limits, interrupts, say, stats_interval)
    except (ProveoutError, OSError) as error:
        outcome = Outcome(configuration, "failed", str(error), created=_now())
    return replace(outcome, conditions=(*facts, *outcome.conditions))


def threads_wanted() -> int:
    """A user who sets OMP_NUM_THREADS means it, as the most that a worker may have."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdigit() and int(text) else 1 << 16


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


def limits_of(call_timeout: float, total_timeout: float | None, memory_limit: int | None) -> RunLimits:
    check_positive(call_timeout=call_timeout, total_timeout=total_timeout, memory_limit=memory_limit)
    return RunLimits(call_timeout, total_timeout, memory_limit)


def _sayer(verbosity: int) -> Say:
    if verbosity not in (0, 1, 2):
        raise UsageError(f"verbosity is {verbosity!r}: give 0 (silent), 1 (progress) or 2 (all).")

    def say(level: int, text: str) -> None:
        if level <= verbosity:
            printed = isinstance(text, Printed)
            print(text, file=sys.stdout if printed else sys.stderr, end="" if printed else "\n", flush=True)

    return say


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
