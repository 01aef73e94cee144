"""Watches which models a script calls, and on what, leaving the script's results as they were."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from proveout.capture.identity import architecture_of, names_of, parameter_count, selector_of
from proveout.capture.inputs import Inputs, is_real, named_tensors, snapshot, specs_of
from proveout.capture.labels import read_labels
from proveout.capture.running import explain, is_users, location, run_script
from proveout.errors import ScriptError, UsageError
from proveout.types import Workload

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Found:
    """A live model and the inputs of its call; `evaluate` is the script's `evaluate_on(model)`, if it has one."""

    workload: Workload
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    evaluate: Callable[[Any], float] | None = None


def watch(script: Path, script_args: str = "") -> tuple[list[Found], BaseException | None]:
    """Run a script in this process: its models with their inputs, and what the script raised."""
    _, found, raised = observe(script, script_args)
    return found, raised


def load(workload: Workload) -> Found:
    """Run a Workload's script again in this process; the live model and inputs that its selector names."""
    script = Path(workload.script)
    workloads, found, raised = observe(script, workload.script_args, keep={workload.selector})
    if found:
        return found[0]
    if raised and not workloads:
        raise ScriptError(explain(script, raised, ran=False)) from raised
    others = ", ".join(f"{w.selector} ({w.name})" for w in workloads) or "none"
    raise ScriptError(
        f"{script.name} no longer holds the model {workload.selector} ({workload.name}): the script"
        f" or a library changed. It holds: {others}. Run: proveout discover {script}"
    )


def observe(
    script: Path, script_args: str = "", *, keep: Container[str] | None = None
) -> tuple[list[Workload], list[Found], BaseException | None]:
    """Run a script: its Workloads, live models for the selectors in `keep` (None: all), what it raised."""
    script = Path(os.path.abspath(script))
    if not script.is_file():
        raise UsageError(f"{script} is not a file. Name a Python script.")
    labels = read_labels(script)
    watcher = _Watcher(script, keep)
    with watcher.watching():
        module, raised = run_script(script, script_args)
    evaluate = getattr(module, "evaluate_on", None)
    calls = watcher.models()
    names = names_of(script.stem, [(call.architecture, call.class_name, call.inputs) for call in calls])
    workloads = [
        Workload(
            name=name,
            script=str(script),
            selector=call.selector,
            class_name=call.class_name,
            inputs=call.inputs,
            parameters=call.parameters,
            parameter_bytes=call.parameter_bytes,
            labels=labels,
            script_args=script_args,
            location=call.location,
            calls=call.calls,
            seconds=call.seconds,
        )
        for name, call in zip(names, calls)
    ]
    found = [
        Found(workload, *call.kept, evaluate if callable(evaluate) else None)
        for workload, call in zip(workloads, calls)
        if call.kept
    ]
    return workloads, found, raised


@dataclass
class _Calls:
    """All calls of one architecture with one set of input shapes."""

    architecture: str
    selector: str
    class_name: str
    inputs: Inputs
    parameters: int
    parameter_bytes: int
    location: str
    training: bool
    calls: int = 0
    seconds: float = 0.0
    kept: tuple[nn.Module, tuple[Any, ...], dict[str, Any]] | None = None


class _Depth(threading.local):
    inside = False


@dataclass
class _Watcher:
    """Counts root module calls: `nn.Module.__call__`, patched at class level, outside any other such call.

    The location is the user's line that called the model; finding the line that built it would need a patched
    `nn.Module.__init__`, which every layer pays for.
    """

    script: Path
    keep: Container[str] | None
    found: dict[tuple[str, bool], _Calls] = field(default_factory=dict)
    known: dict[Any, tuple[weakref.ref[nn.Module], _Calls]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Patch `nn.Module.__call__` for a while."""
        import torch
        from torch.compiler import is_compiling

        original = torch.nn.Module.__call__
        depth = _Depth()

        def watched(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            # First of all for torch.compile: it knows the answer and traces past us without a graph break.
            if is_compiling() or depth.inside:
                return original(module, *args, **kwargs)
            depth.inside = True
            try:
                return self.root_call(original, module, args, kwargs)
            finally:
                depth.inside = False

        torch.nn.Module.__call__ = watched  # type: ignore[method-assign]
        try:
            yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]
            dynamo: Any = sys.modules.get("torch._dynamo.utils")
            if dynamo and dynamo.unpatched_nn_module_call is watched:  # the script was the first to import dynamo
                dynamo.unpatched_nn_module_call = original

    def root_call(
        self, call: Callable[..., Any], module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make one root call, and remember it once it has ended well."""
        frame = sys._getframe(2)
        compiled = type(module).__name__ == "OptimizedModule"  # torch.compile's wrapper
        model: Any = module._orig_mod if compiled else module
        tensors = named_tensors(args, kwargs)
        key = (id(model), model.training, *((name, tensor.shape, tensor.dtype) for name, tensor in tensors))
        reference, seen = self.known.get(key, (None, None))
        if seen is None or reference is None or reference() is not model:
            seen = None
            if not self.is_model(model, frame) or not is_real(tensors):
                return call(module, *args, **kwargs)
        copies = snapshot(model, args, kwargs) if seen is None and self.keep != () else None
        started = time.perf_counter()
        result = call(module, *args, **kwargs)
        seconds = time.perf_counter() - started
        with self.lock:
            if seen is None:
                seen = self.remember(model, specs_of(tensors), copies, frame)
                self.known[key] = weakref.ref(model), seen
            seen.calls += 1
            seen.seconds += seconds
        return result

    def remember(
        self,
        model: nn.Module,
        inputs: Inputs,
        copies: tuple[tuple[Any, ...], dict[str, Any]] | None,
        frame: FrameType,
    ) -> _Calls:
        """The entry for a new combination. After the call, because a lazy module has no shapes before it."""
        architecture = architecture_of(model)
        selector = selector_of(architecture, inputs)
        entry = self.found.get((selector, model.training))
        if entry is None:
            line = location(self.script, frame)
            size = parameter_count(model)
            entry = _Calls(architecture, selector, type(model).__name__, inputs, *size, line, model.training)
            if copies and (self.keep is None or selector in self.keep):
                entry.kept = (model, *copies)
            self.found[selector, model.training] = entry
        return entry

    def is_model(self, module: nn.Module, caller: FrameType) -> bool:
        """A library's modules without parameters (bare activations, losses, image transforms) are not models.

        Nor is what a parametrisation computes, nor what is already scripted or being traced.
        """
        import torch

        if isinstance(module, torch.jit.ScriptModule) or torch._C._get_tracing_state():
            return False
        if caller.f_globals.get("__name__") == "torch.nn.utils.parametrize":
            return False
        return any(True for _ in module.parameters()) or any(self.is_users(type(part)) for part in module.modules())

    def is_users(self, kind: type) -> bool:
        home = sys.modules.get(kind.__module__)
        return kind.__module__ == "__main__" or is_users(self.script, getattr(home, "__file__", None) or "")

    def models(self) -> list[_Calls]:
        """What was found, in order, less the training steps of a model that was also called in eval mode."""
        evaluated = {entry.architecture for entry in self.found.values() if not entry.training}
        return [e for e in self.found.values() if not (e.training and e.architecture in evaluated)]
