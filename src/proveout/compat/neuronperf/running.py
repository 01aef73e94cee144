"""NeuronPerf's `benchmark` and `evaluate` on our engine: its arguments in, its reports, pairs and log lines out."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from proveout.compat.neuronperf import logs, model_index
from proveout.compat.neuronperf.results import Pair, pair, report, stamps_of
from proveout.compat.neuronperf.stamped import Placed, Spread, Stamped
from proveout.errors import UsageError, unknown
from proveout.measure import benchmarking, controller, evaluation, records
from proveout.measure.benchmarking import ModelUnderTest, device_for, subjects_of
from proveout.measure.grid import counts, max_models
from proveout.measure.inputs import DatasetOptions, is_dataset
from proveout.measure.models import Model, is_bare, model_of
from proveout.measure.progress import UNTIL_DONE
from proveout.measure.settings import DURATION_S, UNTIMED_S, Copies, Expected, Loop, Numbers, check_positive
from proveout.measure.sheet import Report
from proveout.measure.task import Functions, Task

NEURON = "neuron"
"""NeuronPerf's own device: here the one that a model was compiled for, or the CPU."""
OWN = {"load", "on_error", "pcc", "recording", "reference", "warmup"}
"""Options of `proveout.benchmark` that NeuronPerf does not have."""
Names = str | Sequence[str] | None

log = logging.getLogger("neuronperf.benchmarking")


@dataclass(frozen=True)
class Loader:
    """Makes copies of a model with the user's `load_fn(model_filename, device_id)`."""

    load_fn: Callable[..., Any]
    filename: str
    stride: int = 1
    """From one copy's device to the next one's, where they share a process."""

    def __call__(self, number: int) -> Any:
        device_id = number * self.stride
        try:
            parameters = inspect.signature(self.load_fn).parameters.values()
        except (TypeError, ValueError):
            return self.load_fn(self.filename, device_id)
        by_name = any(p.name == "device_id" or p.kind is p.VAR_KEYWORD for p in parameters)
        if by_name:
            return self.load_fn(self.filename, device_id=device_id)
        by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
        several = len(by_place) > 1 or any(p.kind is p.VAR_POSITIONAL for p in by_place)
        return self.load_fn(self.filename, device_id) if several else self.load_fn(self.filename)


@dataclass(frozen=True)
class ClassInFile:
    """Makes a model from a class of a Python file, which the worker imports."""

    file: str
    name: str

    def __call__(self) -> Any:
        spec = importlib.util.spec_from_file_location(Path(self.file).stem, self.file)
        if spec is None or spec.loader is None:
            raise UsageError(f"model_class_file {self.file!r} is no Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
        return getattr(module, self.name)()


def benchmark(
    model_filename: Any = None,
    inputs: Any = None,
    batch_sizes: Numbers = None,
    duration: float = DURATION_S,
    n_models: Numbers = None,
    pipeline_sizes: Numbers = None,
    cast_modes: Names = None,
    workers_per_model: Numbers = None,
    env_setup_fn: Callable[[int, dict[str, Any]], None] | None = None,
    setup_fn: Callable[[int, dict[str, Any], Any], None] | None = None,
    preprocess_fn: Callable[..., Any] | None = None,
    postprocess_fn: Callable[[Any], Any] | None = None,
    dataset_loader_fn: Callable[[Any, int], Iterable[Any]] | None = None,
    verbosity: int = 1,
    multiprocess: bool = True,
    multiinterpreter: bool = False,
    return_timers: bool = False,
    device_type: str | None = None,
    *,
    model: Any = None,
    load_fn: Callable[..., Any] | None = None,
    max_infers: int | None = None,
    max_duration: float | None = None,
    performance_levels: Numbers = None,
    stats_interval: float = 0.5,
    cost_per_hour: float | None = None,
    model_name: str | None = None,
    model_class_name: str | None = None,
    model_class_file: str | None = None,
    dataset_inputs: bool = False,
    loop_dataset: bool = False,
    dataloader_kwargs: Mapping[str, Any] | None = None,
    eval_metrics: Names = None,
    eval_target_col: int = -1,
    call_timeout: float = 120.0,
    total_timeout: float | None = None,
    memory_limit: int | None = None,
    keep: bool = True,
    cache_dir: str | Path | None = None,
    **more: Any,
) -> list[Any]:
    """NeuronPerf's `benchmark`; `more` are options of `proveout.benchmark` (`load`, `warmup` …)."""
    logs.set_verbosity(verbosity)
    if strange := more.keys() - OWN:
        raise unknown("option of benchmark", min(strange), [*inspect.signature(benchmark).parameters, *OWN])
    source = model_filename if model_filename is not None else model
    device = None if str(device_type).lower() == NEURON else device_type
    if device_type is not None and device is None:
        log.info("There is no Neuron device here: a model runs where it was compiled for, or on the CPU.")
    if eval_metrics is not None:
        return evaluate(
            source,
            inputs,
            eval_metrics,
            eval_target_col=eval_target_col,
            batch_sizes=batch_sizes,
            device_type=device,
            preprocess_fn=preprocess_fn,
            postprocess_fn=postprocess_fn,
            dataloader_kwargs=dataloader_kwargs,
            model_name=model_name,
            verbosity=verbosity,
            n_models=n_models,
            workers_per_model=workers_per_model,
        )
    cast_modes, performance_levels = _kinds(cast_modes, performance_levels)
    if dataset_inputs and dataset_loader_fn is None and not is_dataset(inputs):
        dataset_loader_fn = _in_order
    dataset = DatasetOptions(loop_dataset, dataset_loader_fn, dict(dataloader_kwargs or {}))
    duration = duration if max_duration is None else max_duration
    if duration == 0:
        once = is_dataset(inputs) or dataset_loader_fn is not None
        if max_infers is None and (loop_dataset or not once):
            raise UsageError(
                "duration=0 runs once through a dataset: give one as inputs, without loop_dataset, or max_infers. "
                "A list is one input for each batch size; with dataset_inputs=True it is a dataset."
            )
        duration = UNTIMED_S
    together = not (multiprocess or multiinterpreter)

    def open_model(which: Any, name: str) -> Model:
        if load_fn is not None:
            stride = max(counts("pipeline_sizes", pipeline_sizes, (1,))) if together else 1
            return Model(name or str(which), make=Loader(load_fn, str(which), stride), numbered=True)
        if model_class_name and model_class_file:
            return Model(name or model_class_name, make=ClassInFile(str(model_class_file), model_class_name))
        return model_of(which, name)

    subjects = subjects_of(
        source,
        inputs,
        batch_sizes,
        pipeline_sizes,
        model_name=model_name or "",
        preprocessed=preprocess_fn is not None,
        dataset=dataset,
        batch_first=False,
        wanted={"cast_mode": cast_modes, "performance_level": performance_levels},
        open_model=open_model,
    )
    expected = Expected(**{name: more.pop(name) for name in ("reference", "pcc") if name in more})
    copies = Copies(n_models, workers_per_model, more.pop("load", "closed"))
    loop = Loop(duration, max_infers, multiprocess=not together, multiinterpreter=multiinterpreter, **more)
    place = device if device is None else benchmarking.check_device(device)
    environment = Placed(env_setup_fn) if env_setup_fn is not None and device is None else env_setup_fn
    plan = partial(
        benchmarking.plan,
        loop=loop,
        functions=Functions(preprocess_fn and Spread(preprocess_fn), postprocess_fn, environment, setup_fn),
        dataset=dataset,
        expected=expected,
        device=place,
        cost_per_hour=cost_per_hour,
    )
    planned = [
        (task, subject)
        for subject in subjects
        for task in _tasks(subject, copies, device_for(subject.model, place), plan)
    ]
    limits = benchmarking.limits_of(call_timeout, total_timeout, memory_limit)
    check_positive(stats_interval=stats_interval)
    for what, value in (("Cast mode", cast_modes), ("Performance level", performance_levels)):
        if value is None:
            log.debug("%s was not specified, assuming default.", what)
    whole = sum(task.configuration.duration_s for task, _ in planned)
    log.info("Benchmarking '%s', %s.", _shown(source), _time(whole))
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        tasks = [_stamped(task, Path(folder), number) for number, (task, _) in enumerate(planned)]
        outcomes = benchmarking.run(tasks, limits, _say(verbosity), stats_interval)
        pairs = []
        for number, (outcome, task, (_, subject)) in enumerate(zip(outcomes, tasks, planned)):
            settings = _told(subject, cast_modes, performance_levels) | {"stats_interval": stats_interval}
            models = outcome.configuration.n_models
            setup = {n: stamps_of(str(Path(folder, f"{n}{number}")), models) for n in ("setup", "env_setup")}
            pairs.append(pair(task, outcome, settings, setup))
    if return_timers and not keep:
        return pairs
    kept = records.records(outcomes, map(records.workload_of, (task for task, _ in planned)), pcc=expected.pcc)
    if keep and (reason := records.keep(kept, cache_dir)):
        log.info("Not kept: %s", reason)
    return pairs if return_timers else [_report(p, record.report) for p, record in zip(pairs, kept)]


def evaluate(
    model_filename: Any,
    dataset: Any,
    metrics: str | Sequence[str] = "accuracy",
    eval_target_col: int = -1,
    *,
    batch_sizes: Numbers = None,
    batch_size: int | None = None,
    device_type: str | None = None,
    model_name: str | None = None,
    verbosity: int = 1,
    n_models: Numbers = None,
    workers_per_model: Numbers = None,
    duration: float = 0,
    **more: Any,
) -> list[Report]:
    """NeuronPerf's `evaluate`: one copy of each model, once through the dataset, whatever the numbers of copies are."""
    logs.set_verbosity(verbosity)
    if any(count not in (None, 1, [1], (1,)) for count in (n_models, workers_per_model)) or duration:
        log.debug("Outputs do not depend on copies, workers or duration: one copy goes once through the dataset.")
    wanted_sizes = batch_sizes if batch_size is None else batch_size
    sizes = [] if wanted_sizes is None else counts("batch_sizes", wanted_sizes, ())
    device = None if str(device_type).lower() == NEURON else device_type
    log.info("Evaluating '%s'.", _shown(model_filename))
    reports: list[Report] = []
    for which, name, size in _evaluated(model_filename, sizes, is_dataset(dataset)):
        own: dict[str, Any] = {"batch_size": size, "device_type": device, "model_name": model_name or name}
        reports += evaluation.evaluate(which, dataset, metrics, eval_target_col=eval_target_col, **own, **more)
    words = {"passed": "finished"}
    return [r | {"status": words.get(r["status"], "error"), "outcome": r["status"]} for r in reports]


def _evaluated(model: Any, sizes: Sequence[int], batched: bool) -> list[tuple[Any, str, int | None]]:
    """What is evaluated: (model, name, batch size). Of an index, batch sizes choose; only a Dataset is put in batches
    of that size, any other one gives batches itself."""
    if batched or not sizes:
        return [(model, "", size) for size in sizes] or [(model, "", None)]
    if not model_index.is_index(model):
        return [(model, "", None)]
    index = model_index.filter(model, status="finished", batch_size=sizes)
    if not index["model_configs"]:
        named = model_index.name_of(model)
        raise UsageError(f"no model of the index {named} is compiled for batch sizes {list(sizes)}.")
    return [(Path(entry["filename"]), index["model_name"], None) for entry in index["model_configs"]]


Plan = Callable[[Sequence[ModelUnderTest], Copies], list[Task]]


def _tasks(subject: ModelUnderTest, copies: Copies, device: str, plan: Plan) -> list[Task]:
    """The configurations of one model with one input. A CPU is no row of chips: there a model that is said to span
    several runs whole, and so many cores count as one place for a copy."""
    sizes = counts("pipeline_sizes", subject.pipeline_sizes, (1,))
    if not is_bare(device) or max(sizes) == 1:
        return plan([subject], copies)
    tasks = []
    for size in sizes:
        if size > 1:
            log.warning("'%s' runs whole on %s: pipeline_size %d only counts places.", subject.model.name, device, size)
        places = copies.n_models or sorted({1, max(1, (max_models(device) or 1) // size)})
        workers = size if copies.workers_per_model is None and size > 1 else copies.workers_per_model
        for task in plan([replace(subject, pipeline_sizes=1)], Copies(places, workers, copies.load)):
            tasks.append(replace(task, configuration=replace(task.configuration, pipeline_size=size)))
    return tasks


def _stamped(task: Task, folder: Path, number: int) -> Task:
    """With the setup functions stamped."""
    functions = task.functions
    for name in ("setup", "env_setup"):
        function = getattr(functions, f"{name}_fn")
        if function is not None:
            stamped: Any = {f"{name}_fn": Stamped(function, str(folder / f"{name}{number}"))}
            functions = replace(functions, **stamped)
    return replace(task, functions=functions)


def _told(subject: ModelUnderTest, cast_modes: Any, performance_levels: Any) -> dict[str, Any]:
    entry = subject.entry

    def first(value: Any) -> Any:
        return value[0] if isinstance(value, list | tuple) and value else value

    settings: dict[str, Any] = {
        "input_idx": entry.get("input_idx", 0),
        "cast_mode": entry.get("cast_mode", first(cast_modes)),
        "performance_level": entry.get("performance_level", first(performance_levels)),
    }
    if entry:
        settings["model_filename"] = entry["filename"]
    elif file := _file(subject.model):
        settings["model_filename"] = file
    return settings


def _file(model: Model) -> str:
    """The file that a model is loaded from, where it is not a saved Compiled."""
    if isinstance(model.make, Loader):
        return model.make.filename
    arguments = getattr(model.make, "args", ())
    return str(arguments[0]) if arguments and isinstance(arguments[0], str) else ""


def _report(pair: Pair, own: Any) -> Report:
    config, results = pair
    return report(pair.outcome, config, results, own)


def _kinds(cast_modes: Any, performance_levels: Any) -> tuple[Any, Any]:
    """The seventh place is `cast_modes` in the manual; numbers there are performance levels, as in older versions."""
    first = cast_modes[0] if isinstance(cast_modes, list | tuple) and cast_modes else cast_modes
    if isinstance(first, int) and performance_levels is None:
        return None, cast_modes
    return cast_modes, performance_levels


def _in_order(dataset: Any, workers: int) -> Iterable[Any]:
    return iter(dataset)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return model_index.name_of(value)  # type: ignore[arg-type]
    return os.fspath(value) if isinstance(value, str | Path) else getattr(value, "__name__", type(value).__name__)


def _time(seconds: float) -> str:
    if seconds >= UNTIMED_S:
        return UNTIL_DONE
    return f"~{round(seconds / 60, 1)} minutes remaining" if seconds >= 60 else f"~{round(seconds)} seconds remaining"


def _say(verbosity: int) -> controller.Say:
    """What the engine tells, in the log; what the user's own functions print, as it is."""

    def say(level: int, text: str) -> None:
        if isinstance(text, controller.Printed):
            if verbosity >= level:
                sys.stdout.write(text)
                sys.stdout.flush()
        else:
            log.log(logging.INFO if level <= 1 else logging.DEBUG, "%s", text)

    return say


__all__ = ["benchmark", "evaluate"]
