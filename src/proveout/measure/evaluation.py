"""`proveout.evaluate`: a model over a labelled dataset; how good its outputs are, and what the calls took."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proveout.clock.conditions import conditions
from proveout.clock.statistics import Estimate
from proveout.compat.neuronperf import model_index
from proveout.engine.artifact import load_compiled
from proveout.engine.compiled import Compiled, compile
from proveout.errors import UsageError
from proveout.measure.benchmarking import check_device
from proveout.measure.files import compilable
from proveout.measure.metrics import metric
from proveout.measure.models import Model, is_bare, is_gpu, model_of
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.pipeline import load_pipeline
from proveout.measure.reports import reports
from proveout.measure.sheet import Report
from proveout.serving import Configuration


def evaluate(
    model: Any,
    dataset: Any,
    metrics: str | Sequence[str] = "accuracy",
    *,
    eval_target_col: int = -1,
    batch_size: int | None = None,
    device_type: str | None = None,
    settings: Mapping[str, Any] | None = None,
    preprocess_fn: Callable[..., Any] | None = None,
    postprocess_fn: Callable[[Any], Any] | None = None,
    dataloader_kwargs: Mapping[str, Any] | None = None,
    model_name: str = "",
) -> list[Report]:
    """Run every item of a dataset of `(*inputs, target)` once and report each metric beside times and throughput.

    `model` is a module, a Compiled or the path of a saved one, a class or function that makes one, an import string,
    or a model index, whose every model for this `batch_size` gets a report. A module is compiled for a `device_type`
    other than `cpu`. A torch Dataset is batched by `batch_size` (1); any other iterable gives batches as they are, and
    must be one that can be gone through again where there are several models.
    """
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise UsageError("evaluate takes at least one metric; list_metrics() prints them.")
    options = dict(dataloader_kwargs or {})
    functions = (preprocess_fn, postprocess_fn)
    device = None if device_type is None else check_device(device_type)
    found = []
    for chosen in _models(model, model_name, batch_size):
        judges = {name: metric(name)() for name in names}
        items = _items(dataset, batch_size, options)
        found.append(_evaluated(chosen, items, judges, eval_target_col, device, settings, *functions))
    return found


def _models(given: Any, name: str, batch_size: int | None) -> list[Model]:
    if not (isinstance(given, str | Path) and str(given).endswith(model_index.SUFFIX)):
        return [model_of(given, name)]
    index = model_index.filter(given, status="finished", batch_size=batch_size)
    if not index["model_configs"]:
        raise UsageError(f"no model of the index {given} is compiled for batch size {batch_size}.")
    return [model_of(Path(entry["filename"]), name or index["model_name"]) for entry in index["model_configs"]]


def _evaluated(
    chosen: Model,
    items: Iterator[Any],
    judges: Mapping[str, Any],
    eval_target_col: int,
    asked: str | None,
    settings: Mapping[str, Any] | None,
    preprocess_fn: Callable[..., Any] | None,
    postprocess_fn: Callable[[Any], Any] | None,
) -> Report:
    made, device = _made(chosen, asked)
    spent, inferred, num_items = [], [], 0
    call: Callable[..., Any] | None = None
    for number, item in enumerate(items):
        inputs, target = _split(item, eval_target_col, number)
        if call is None:
            call = _ready(made, _arguments(preprocess_fn, inputs), device, settings)
        started = time.perf_counter_ns()
        given = _arguments(preprocess_fn, inputs)
        before = time.perf_counter_ns()
        output = call(*given)
        after = time.perf_counter_ns()
        output = postprocess_fn(output) if postprocess_fn else _plain(output)
        spent.append(time.perf_counter_ns() - started)
        inferred.append(after - before)
        num_items += _count(target)
        for judge in judges.values():
            judge.process_record(output, target)
    if not spent:
        raise UsageError("the dataset is empty: evaluate needs at least one item.")
    size = max(1, round(num_items / len(spent)))
    ends = np.cumsum(spent)  # one call after the other: scoring lies between them and is not the model's time
    run = WorkerRun(
        worker=0,
        model=0,
        starts_ns=ends - np.array(spent),
        ends_ns=ends,
        infer_ns=np.array(inferred),
        missing_items=len(spent) * size - num_items,
    )
    threads = torch.get_num_threads()
    told = {"batch_size": size, "multiprocess": False, "threads": threads, "model_filename": chosen.path}
    outcome = Outcome(
        Configuration(chosen.name, device, **told),  # type: ignore[arg-type]
        "passed",
        workers=(run,),
        ended_ns=int(ends[-1]),
        conditions=conditions(gpu=is_gpu(device)),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    return _scored(reports([outcome])[0], judges)


def _scored(report: Report, judges: Mapping[str, Any]) -> Report:
    report["metrics"] = list(judges)
    report["notes"].append("timed while evaluating, in this process; scoring is not counted")
    for name, judge in judges.items():
        result = type(judge).aggregate([judge])
        told = result if isinstance(result, Estimate) else Estimate(result, reason="no interval is known for it")
        for suffix, value in (("", told.value), ("_low", told.low), ("_high", told.high)):
            report[name + suffix] = value
            if value is None:
                report["reasons"][name + suffix] = told.reason
    return report


def _made(chosen: Model, asked: str | None) -> tuple[Any, str]:
    """The model itself, and the device that it runs on: what was asked for, or what it was compiled for."""
    if chosen.path:
        saved: Any = load_pipeline(chosen.path) if chosen.stages > 1 else load_compiled(chosen.path)
        if asked not in (None, saved.device):
            raise UsageError(f"{chosen.path} was compiled for {saved.device!r}: leave device_type out.")
        return saved, saved.device
    made = chosen.made()
    return made, asked or (made.device if isinstance(made, Compiled) else "cpu")


def _ready(model: Any, inputs: tuple[Any, ...], device: str, settings: Mapping[str, Any] | None) -> Callable[..., Any]:
    """The model in eval mode on its device, as a function of host tensors."""
    if isinstance(model, torch.nn.Module):
        model.eval()
        if is_gpu(device):
            place = device.replace("gpu", "cuda")
            moved = model.to(place)
            return lambda *given: _without_grad(
                moved, [g.to(place) if isinstance(g, torch.Tensor) else g for g in given]
            )
        if not is_bare(device):
            return compile(compilable(model, (inputs, {})), inputs, device=device, settings=settings)
        return lambda *given: _without_grad(model, given)
    called: Callable[..., Any] = model
    return called


def _without_grad(model: Any, given: Iterable[Any]) -> Any:
    with torch.no_grad():
        return model(*given)


def _items(dataset: Any, batch_size: int | None, options: dict[str, Any]) -> Iterator[Any]:
    if isinstance(dataset, torch.utils.data.Dataset):
        return iter(torch.utils.data.DataLoader(dataset, batch_size=batch_size or 1, **options))
    if batch_size is not None or options:
        raise UsageError(
            "batch_size and dataloader_kwargs are for a torch Dataset; any other dataset gives batches itself."
        )
    if not isinstance(dataset, Iterable):
        raise UsageError(
            f"a dataset of type {type(dataset).__name__}: give a torch Dataset or an iterable of (*inputs, target)."
        )
    return iter(dataset)


def _split(item: Any, column: int, number: int) -> tuple[tuple[Any, ...], Any]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise UsageError(f"item {number} of the dataset is a {type(item).__name__}: each must be (*inputs, target).")
    if not -len(item) <= column < len(item):
        raise UsageError(f"eval_target_col {column}: item {number} has {len(item)} columns.")
    rest = list(item)
    target = rest.pop(column)
    return tuple(rest), target


def _arguments(preprocess: Callable[..., Any] | None, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    if preprocess is None:
        return inputs
    given = preprocess(*inputs)
    return given if isinstance(given, tuple) else (given,)


def _plain(output: Any) -> Any:
    """Of a model that gives several things, the one that is scored: logits by name, or the first."""
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    return output[0] if isinstance(output, tuple | list) and len(output) else output


def _count(target: Any) -> int:
    return int(target.shape[0]) if isinstance(target, torch.Tensor | np.ndarray) and target.ndim else 1
