"""What a benchmark may be given as a model: checked before any process starts, and made callable in a worker."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from proveout.clock.loops import Arguments
from proveout.devices.registry import describe
from proveout.engine.prediction import prediction
from proveout.errors import UsageError
from proveout.measure import files

SAVED = "compiled.json"
"""What a folder holds that `Compiled.save` left."""
FILES = (".pt", ".pth", ".ts", ".json", ".onnx", ".keras", ".h5")
"""How the names of saved models and of indices end; what has none of these may be an import string."""
PIPELINE = "pipeline.json"
"""What a folder holds whose stages are each a saved Compiled (`measure.pipeline`)."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model as its user named it. `make` and `instance` exclude each other; `path` is a saved Compiled, whole or in
    the stages of a pipeline."""

    name: str
    make: Callable[..., Any] | None = None
    instance: Any = None
    path: str = ""
    numbered: bool = False
    """Whether `make` takes the number of the copy that it makes."""

    def made(self, number: int = 0) -> Any:
        if self.make is None:
            return self.instance
        return self.make(number) if self.numbered else self.make()

    @property
    def stages(self) -> int:
        """Chips that it was compiled for in a row; 0 where it is not compiled yet."""
        if not self.path:
            return 0
        return len(list(Path(self.path).glob("stage*"))) if (Path(self.path) / PIPELINE).exists() else 1


def saved_in(path: str | Path) -> Path:
    """The folder of a saved Compiled that tells device and settings: of a pipeline, the first stage's."""
    return Path(path) / "stage0" if (Path(path) / PIPELINE).exists() else Path(path)


def model_of(model: Any, name: str = "") -> Model:
    """What the user gave: a class, a factory, an instance, an import string, a saved Compiled or a framework's file."""
    if isinstance(model, Path) or (isinstance(model, str) and Path(model).exists()):
        if any((Path(model) / head).exists() for head in (SAVED, PIPELINE)):
            return Model(name or str(model), path=str(model))
        loader = files.loader_of(Path(model))
        if loader is None:
            raise UsageError(
                f"{model} is no saved model: give a folder that Compiled.save left, a TorchScript file (.pt), "
                "a Keras file (.keras), or a model index."
            )
        return Model(name or str(model), make=loader)
    if isinstance(model, str):
        return model_of(imported(model), name or model)
    if inspect.isclass(model):
        if "<locals>" in model.__qualname__:
            inside = model.__qualname__.partition(".<locals>")[0]
            raise UsageError(
                f"the model class {model.__name__} is defined inside {inside}(): move it to the top level of its "
                "module, where workers find it too."
            )
        required = _required(model)
        if required:
            raise UsageError(
                f"the model class {model.__name__} needs {', '.join(required)}: give a factory without arguments, "
                f"such as lambda: {model.__name__}(…)."
            )
        return Model(name or model.__name__, make=model)
    if inspect.isfunction(model) and not _required(model):
        return Model(name or model.__name__, make=model)
    if callable(model):
        return Model(name or getattr(model, "__name__", type(model).__name__), instance=model)
    raise UsageError(
        f"a model of type {type(model).__name__}: give a class, a factory, a module, an import string "
        "('package.module:Name') or the path of a saved Compiled or model index."
    )


def imported(text: str) -> Any:
    """What `package.module:Name` names."""
    module, colon, name = text.partition(":")
    if not colon:
        module, _, name = text.rpartition(".")
    if not module or not name:
        raise UsageError(f"model {text!r} is no file, and no import string such as 'package.module:Name'.")
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        if not colon and (os.sep in text or Path(text).suffix in FILES):
            raise UsageError(f"model {text!r}: there is no such file.") from error
        raise UsageError(f"model {text!r} cannot be imported: {error}.") from error
    return value


def is_gpu(device: str) -> bool:
    info = describe(device)
    return info is not None and info.is_gpu


def is_bare(device: str) -> bool:
    """Whether models run on a device as they are, uncompiled."""
    info = describe(device)
    return info is not None and info.bare


def device_kind(device: str) -> Literal["measured", "modelled"]:
    """Where a device has times of its own, whether they are measured (a GPU's events) or modelled (a chip's)."""
    return "measured" if is_gpu(device) else "modelled"


def _required(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in optional]


@dataclass
class LoadedModel:
    """A model in its worker, ready to be called by several threads."""

    model: Any
    """What the user's setup_fn gets."""
    per_thread: Callable[[], tuple[Callable[..., Any], Callable[[], int] | None]]
    """For one worker thread: the call, and the device's own time of the last call where it has one."""
    context: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    to_device: Callable[[Any], Any] = lambda args: args
    device_kind: str = ""
    reference: Callable[..., Any] | None = None
    """What outputs are compared with, where the device's own rounding has one."""
    notes: dict[str, str] = field(default_factory=dict)


def load(model: Model, device: str, index: int, pipeline_size: int, example: Arguments) -> LoadedModel:
    """Make the model and put it on its device; `example` is what it will be called with."""
    if model.stages > 1:
        from proveout.measure.pipeline import load_pipeline

        return _pipelined(None, load_pipeline(model.path))
    if model.path:
        from proveout.engine.artifact import load_compiled

        compiled: Any = load_compiled(model.path)
        return _compiled(compiled, compiled, None)
    module = model.made(index)
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(module, torch.nn.Module)
    if is_module:
        module.eval()
    if is_gpu(device):
        return _cuda(module, device, index)
    if is_bare(device):
        return LoadedModel(
            module, lambda: (module, None), torch.no_grad if torch is not None else contextlib.nullcontext
        )
    if not is_module:
        raise UsageError(f"device {device!r} compiles a torch.nn.Module; the model is a {type(module).__name__}.")
    module = files.compilable(module, example)
    if pipeline_size > 1:
        from proveout.measure.pipeline import pipelined

        return _pipelined(module, pipelined(module, example, device, pipeline_size))
    from proveout.engine.compiled import compile

    return _compiled(module, compile(module, device=device, call=example), module)


def on_device(compiled: Any) -> LoadedModel:
    """A compiled model, or a pipeline of several, that lives in this process."""
    return _pipelined(None, compiled) if hasattr(compiled, "interval_ns") else _compiled(compiled, compiled, None)


def _compiled(model: Any, compiled: Any, reference: Any) -> LoadedModel:
    """A chip runs one call at a time; its time for each is modelled, the simulation's own is measured."""
    import torch

    lock = threading.Lock()
    modelled = compiled.modelled

    def per_thread() -> tuple[Callable[..., Any], Callable[[], int] | None]:
        last = 0

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal last
            with lock:
                output = compiled(*args, **kwargs)
                last = compiled.modelled_ns or 0
            return output

        return call, (lambda: last) if modelled else None

    return LoadedModel(
        model,
        per_thread,
        torch.no_grad,
        device_kind="modelled" if modelled else "",
        reference=reference if modelled else None,
        notes={**(_prediction(compiled) if hasattr(compiled, "plans") else {}), **_host_part([compiled])}
        if modelled
        else {},
    )


HOST_PART = "host_part"
"""The condition that says what the host does in a call: the device's modelled time has nothing of it."""


def _host_part(parts: Sequence[Any]) -> dict[str, str]:
    return {HOST_PART: "in no modelled time"} if any(getattr(p, "has_host_part", False) for p in parts) else {}


def _prediction(compiled: Any) -> dict[str, str]:
    """The interval of the modelled time, and how much of it measurements back."""
    timing = prediction("compiled", compiled, compiled.modelled_ns or 0)
    if timing.interval_ns is None:
        return {}
    low, high = timing.interval_ns
    return {"modelled_low_ns": f"{low:.0f}", "modelled_high_ns": f"{high:.0f}", **dict(timing.conditions)}


def _pipelined(model: Any, pipeline: Any) -> LoadedModel:
    """Each stage has its chip and its lock, so workers fill the pipeline; a call's time is that of all its stages."""
    import torch

    def per_thread() -> tuple[Callable[..., Any], Callable[[], int] | None]:
        last = 0

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal last
            output, last = pipeline.call(args, kwargs)
            return output

        return call, lambda: last

    notes = {"pipeline": str(pipeline), "pipeline_interval_ns": str(pipeline.interval_ns)}
    notes |= _host_part(pipeline.stages)
    return LoadedModel(model, per_thread, torch.no_grad, device_kind="modelled", reference=model, notes=notes)


def _cuda(model: Any, device: str, index: int) -> LoadedModel:
    """On a GPU: each worker has its own stream, and CUDA events time what the device did."""
    import torch
    from torch.utils._pytree import tree_map_only

    number = device.partition(":")[2]
    place = torch.device("cuda", int(number) if number else index % max(torch.cuda.device_count(), 1))
    if isinstance(model, torch.nn.Module):
        model.to(place)

    def per_thread() -> tuple[Callable[..., Any], Callable[[], int] | None]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def call(*args: Any, **kwargs: Any) -> Any:
            begin.record()
            output = model(*args, **kwargs)
            end.record()
            end.synchronize()
            return output

        return call, lambda: round(begin.elapsed_time(end) * 1e6)

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with torch.no_grad(), torch.cuda.device(place), torch.cuda.stream(torch.cuda.Stream(place)):
            yield

    def to_device(inputs: Any) -> Any:
        moved = tree_map_only(torch.Tensor, lambda t: t.to(place), inputs)
        torch.cuda.synchronize(place)  # workers' streams do not wait for the one that copies
        return moved

    return LoadedModel(model, per_thread, context, to_device, "measured")
