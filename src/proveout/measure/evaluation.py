"""`proveout.evaluate`: a model over a labelled dataset; how good its outputs are, and what the calls took."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proveout.capture.identity import selector_of, workload_of
from proveout.capture.inputs import named_tensors, specs_of
from proveout.clock import loops
from proveout.clock.conditions import conditions
from proveout.clock.loops import Arguments, Caller
from proveout.clock.stamps import MemoryWriter
from proveout.clock.statistics import Estimate
from proveout.clock.timing import NEVER
from proveout.coding import digest
from proveout.compat.neuronperf import model_index
from proveout.devices.registry import settings_for
from proveout.engine.artifact import load_compiled
from proveout.engine.compiled import Compiled, compile
from proveout.errors import UsageError
from proveout.measure import records
from proveout.measure.benchmarking import check_device
from proveout.measure.files import compilable
from proveout.measure.metrics import metric
from proveout.measure.models import Model, is_bare, is_gpu, model_of, on_device
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.pipeline import load_pipeline
from proveout.measure.reports import reports
from proveout.measure.sheet import Report
from proveout.serving import Configuration
from proveout.types import Record, Workload

log = logging.getLogger(__name__)


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
    keep: bool = True,
    cache_dir: str | Path | None = None,
) -> list[Report]:
    """Run every item of a dataset of `(*inputs, target)` once and report each metric beside times and throughput.

    `model` is a module, a Compiled or the path of a saved one, a class or function that makes one, an import string,
    or a model index, whose every model for this `batch_size` gets a report. A module is compiled for a `device_type`
    other than `cpu`. A torch Dataset is batched by `batch_size` (1); any other iterable gives batches as they are, and
    must be one that can be gone through again where there are several models. Each is kept as a Record in the cache,
    unless `keep` is False.
    """
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise UsageError("evaluate takes at least one metric; list_metrics() prints them.")
    options = dict(dataloader_kwargs or {})
    functions = (preprocess_fn, postprocess_fn)
    device = None if device_type is None else check_device(device_type)
    results = []
    for chosen in _models(model, model_name, batch_size):
        judges = {name: metric(name)() for name in names}
        items = _items(dataset, batch_size, options)
        results.append(_evaluated(chosen, items, judges, eval_target_col, device, settings, *functions))
    if keep and (reason := records.keep(results, cache_dir)):
        log.warning("Not kept: %s", reason)
    return [record.report for record in results if record.report is not None]


def _models(model: Any, name: str, batch_size: int | None) -> list[Model]:
    if not model_index.is_index(model):
        return [model_of(model, name)]
    index = model_index.filter(model, status="finished", batch_size=batch_size)
    if not index["model_configs"]:
        raise UsageError(f"no model of the index {model_index.name_of(model)} is compiled for batch size {batch_size}.")
    return [model_of(Path(entry["filename"]), name or index["model_name"]) for entry in index["model_configs"]]


class _Items:
    """Inputs for the clock's loop. Outputs are scored between two calls, outside of any call's time."""

    def __init__(self, items: Iterator[Any], target_column: int, judges: Mapping[str, Any]) -> None:
        self.num_items, self.output = 0, None
        self._items, self._column, self._judges = items, target_column, judges
        self.first = self._next(0)

    def _next(self, number: int) -> tuple[tuple[Any, ...], Any] | None:
        item = next(self._items, self)
        return None if item is self else _split(item, self._column, number)

    def inputs(self) -> Iterator[Arguments]:
        """Each item's inputs, once."""
        number, item = 0, self.first
        while item is not None:
            inputs, target = item
            yield inputs, {}
            self.num_items += _count(target)
            for judge in self._judges.values():
                judge.process_record(self.output, target)
            number += 1
            item = self._next(number)

    def keep(self, output: Any) -> None:
        self.output = output


def _evaluated(
    chosen: Model,
    items: Iterator[Any],
    judges: Mapping[str, Any],
    eval_target_col: int,
    device_type: str | None,
    settings: Mapping[str, Any] | None,
    preprocess_fn: Callable[..., Any] | None,
    postprocess_fn: Callable[[Any], Any] | None,
) -> Record:
    model, device = _model_and_device(chosen, device_type)
    scored = _Items(items, eval_target_col, judges)
    if scored.first is None:
        raise UsageError("the dataset is empty: evaluate needs at least one item.")
    ready = _ready(model, _arguments(preprocess_fn, scored.first[0]), device, settings)
    loaded = on_device(ready) if hasattr(ready, "modelled") or hasattr(ready, "interval_ns") else None
    call, device_ns = loaded.per_thread() if loaded else (ready, None)
    finish = postprocess_fn or _plain
    caller = Caller(
        call,
        None,
        source=scored.inputs(),
        preprocess=preprocess_fn and (lambda *inputs: _arguments(preprocess_fn, inputs)),
        postprocess=lambda output: scored.keep(finish(output)),
        device_ns=device_ns,
    )
    writer = MemoryWriter(caller.columns)
    ran = loops.measure(caller, writer, start_ns=0, deadline_ns=NEVER)
    if ran.error is not None:
        raise ran.error
    calls = writer.calls()
    spent = calls.ends_ns - calls.starts_ns
    size = max(1, round(scored.num_items / len(spent)))
    ends = np.cumsum(spent)  # one call after the other: scoring lies between them and is not the model's time
    run = WorkerRun(
        worker=0,
        model=0,
        starts_ns=ends - spent,
        ends_ns=ends,
        infer_ns=calls.infer_ns,
        device_ns=calls.device_ns,
        missing_items=len(spent) * size - scored.num_items,
    )
    configuration = Configuration(
        chosen.name,
        device,
        batch_size=size,
        multiprocess=False,
        threads=torch.get_num_threads(),
        model_filename=chosen.path,
    )
    outcome = Outcome(
        configuration,
        "passed",
        workers=(run,),
        ended_ns=int(ends[-1]),
        device_kind="modelled" if device_ns is not None else "",
        conditions=(*conditions(gpu=is_gpu(device)), *(loaded.notes.items() if loaded else ())),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    compiled = isinstance(model, Compiled)
    record = records.record_of(
        outcome,
        _workload(chosen, model, scored.first[0]),
        reports([outcome])[0],
        do="evaluate",
        settings=None if chosen.path else model.settings if compiled else settings_for(device, settings, live=True),
        compiled=compiled,
    )
    return replace(record, report=_scored(dict(record.report or {}), judges))


def _workload(chosen: Model, model: Any, inputs: tuple[Any, ...]) -> Workload:
    if isinstance(model, torch.nn.Module):
        return workload_of(model, inputs, {}, chosen.name)
    specs = specs_of(named_tensors(inputs, {}))
    return Workload(chosen.name, "", selector_of(digest([chosen.name, chosen.path]), specs), chosen.path, specs)


def _scored(report: Report, judges: Mapping[str, Any]) -> Report:
    report["metrics"] = list(judges)
    report["notes"].append("timed while evaluating, in this process; scoring is not counted")
    for name, judge in judges.items():
        result = type(judge).aggregate([judge])
        estimate = result if isinstance(result, Estimate) else Estimate(result, reason="no interval is known for it")
        for suffix, value in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high)):
            report[name + suffix] = value
            if value is None:
                report["reasons"][name + suffix] = estimate.reason
    return report


def _model_and_device(chosen: Model, device_type: str | None) -> tuple[Any, str]:
    """The model itself, and the device that it runs on: what was asked for, or what it was compiled for."""
    if chosen.path:
        saved: Any = load_pipeline(chosen.path) if chosen.stages > 1 else load_compiled(chosen.path)
        if device_type not in (None, saved.device):
            raise UsageError(f"{chosen.path} was compiled for {saved.device!r}: leave device_type out.")
        return saved, saved.device
    module = chosen.made()
    return module, device_type or (module.device if isinstance(module, Compiled) else "cpu")


def _ready(model: Any, inputs: tuple[Any, ...], device: str, settings: Mapping[str, Any] | None) -> Callable[..., Any]:
    """The model in eval mode on its device, as a function of host tensors."""
    if isinstance(model, torch.nn.Module):
        model.eval()
        if is_gpu(device):
            place = device.replace("gpu", "cuda")
            moved = model.to(place)
            return lambda *args: _without_grad(moved, [g.to(place) if isinstance(g, torch.Tensor) else g for g in args])
        if not is_bare(device):
            return compile(compilable(model, (inputs, {})), inputs, device=device, settings=settings)
        return lambda *args: _without_grad(model, args)
    called: Callable[..., Any] = model
    return called


def _without_grad(model: Any, inputs: Iterable[Any]) -> Any:
    with torch.no_grad():
        return model(*inputs)


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
    prepared = preprocess(*inputs)
    return prepared if isinstance(prepared, tuple) else (prepared,)


def _plain(output: Any) -> Any:
    """Of a model that gives several things, the one that is scored: logits by name, or the first."""
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    return output[0] if isinstance(output, tuple | list) and len(output) else output


def _count(target: Any) -> int:
    return int(target.shape[0]) if isinstance(target, torch.Tensor | np.ndarray) and target.ndim else 1
