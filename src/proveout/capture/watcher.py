"""Watches which models a script calls, and on what, leaving the script's results as they were."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from proveout.capture.identity import (
    architecture_of,
    class_name_of,
    names_of,
    obstacle_of,
    parameter_count,
    selector_of,
)
from proveout.capture.inputs import Inputs, is_real, named_tensors, snapshot, specs_of
from proveout.capture.labels import read_labels
from proveout.capture.running import explain, is_users, location, place, run_script, source_digest
from proveout.capture.weights import serving
from proveout.compat.mlagility.hashes import hashes_of
from proveout.errors import ScriptError, UsageError
from proveout.types import Workload

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class LiveModel:
    """A live model and the inputs of its call; `evaluate` is the script's `evaluate_on(model)`, if it has one.

    `iterate` does what is timed where that is more than one call (a whole generation), with the callable it is given;
    `more` are the calls of other shapes that it makes.
    """

    workload: Workload
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    evaluate: Callable[[Any], float] | None = None
    iterate: Callable[[Callable[..., Any]], Any] | None = None
    more: tuple[dict[str, Any], ...] = ()


def watch(
    script: Path, script_args: str = "", *, max_depth: int = 0, weights: str = ""
) -> tuple[list[LiveModel], BaseException | None]:
    """Run a script in this process: its models with their inputs, and what the script raised."""
    _, modules, raised = observe(script, script_args, max_depth=max_depth, weights=weights)
    return modules, raised


def load(workload: Workload) -> LiveModel:
    """Run a Workload's script again in this process; the live model and inputs that its selector names."""
    script = Path(workload.script)
    workloads, modules, raised = observe(
        script,
        workload.script_args,
        keep={workload.selector},
        max_depth=workload.depth,
        weights=workload.weights,
    )
    if modules:
        return modules[0]
    if raised and not workloads:
        raise ScriptError(explain(script, raised, ran=False)) from raised
    others = ", ".join(f"{w.selector} ({w.name})" for w in workloads) or "none"
    raise ScriptError(
        f"{script.name} no longer holds the model {workload.selector} ({workload.name}): the script"
        f" or a library changed. It holds: {others}. Run: proveout discover {script}"
    )


def observe(
    script: Path,
    script_args: str = "",
    *,
    keep: Container[str] | None = None,
    max_depth: int = 0,
    weights: str = "",
) -> tuple[list[Workload], list[LiveModel], BaseException | None]:
    """Run a script: its Workloads, live models for the selectors in `keep` (None: all), what it raised.

    Modules that are called at most `max_depth` calls below a model are models too.
    """
    script = Path(os.path.abspath(script))
    if not script.is_file():
        raise UsageError(f"{script} is not a file. Name a Python script.")
    labels = read_labels(script)
    watcher = _Watcher(script, keep, max_depth)
    with serving(weights) as served, watcher.watching():
        module, raised = run_script(script, script_args)
    evaluate = getattr(module, "evaluate_on", None)
    calls = watcher.models()
    names = names_of(script.stem, [(call.architecture, call.class_name, call.inputs) for call in calls])
    source = source_digest(script)
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
            depth=call.depth,
            weights=weights,
            random_weights=tuple(sorted(served)),
            obstacle=call.obstacle,
            source=source,
            mode="training" if call.trained else "inference",
            other_hashes=call.other_hashes,
        )
        for name, call in zip(names, calls)
    ]
    for call in calls:
        if call.kept and not call.trained:
            call.kept[0].eval()  # a forward call from which no gradient was taken is inference, as `benchit` has it
    listed = [
        LiveModel(workload, *call.kept, evaluate if callable(evaluate) else None)
        for workload, call in zip(workloads, calls)
        if call.kept
    ]
    return workloads, listed, raised


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
    depth: int
    obstacle: str
    other_hashes: tuple[str, ...] = ()
    trained: bool = False
    """Whether a gradient came back through a result: what is trained on purpose stays in training mode."""
    calls: int = 0
    seconds: float = 0.0
    kept: tuple[nn.Module, tuple[Any, ...], dict[str, Any]] | None = None


def _is_without_values(model: nn.Module) -> bool:
    """Whether a model's tensors have shapes alone (`--weights meta`)."""
    return any(parameter.is_meta for parameter in model.parameters())


PARTS_ONLY = ("torch", "torchvision", "torchaudio", "torchmetrics")
"""Libraries whose modules without parameters are parts of models, or measure them."""


class _Depth(threading.local):
    level = 0


@dataclass
class _Watcher:
    """Counts root module calls: `nn.Module.__call__`, patched at class level, at most `max_depth` such calls deep.

    `nn.Module.__init__` is patched too, to note the user's line that builds each module.
    """

    script: Path
    keep: Container[str] | None
    max_depth: int = 0
    calls: dict[tuple[str, bool], _Calls] = field(default_factory=dict)
    known: dict[Any, tuple[weakref.ref[nn.Module], _Calls]] = field(default_factory=dict)
    built: dict[int, tuple[weakref.ref[nn.Module], str, int]] = field(default_factory=dict)
    users: dict[CodeType, bool] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Patch `nn.Module` for a while."""
        import torch
        from torch.compiler import is_compiling

        original, build = torch.nn.Module.__call__, torch.nn.Module.__init__
        depth, deepest = _Depth(), self.max_depth

        def watched(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            # First of all for torch.compile: it knows the answer and traces past us without a graph break.
            if is_compiling() or depth.level > deepest:
                return original(module, *args, **kwargs)
            depth.level += 1
            try:
                return self.root_call(original, module, args, kwargs, depth.level - 1)
            finally:
                depth.level -= 1

        @functools.wraps(build)  # torch.jit reads the source of `__init__`
        def built(module: nn.Module, /, *args: Any, **kwargs: Any) -> None:
            if not is_compiling():
                self.note_builder(module, sys._getframe(1))
            build(module, *args, **kwargs)

        torch.nn.Module.__call__ = watched  # type: ignore[method-assign]
        torch.nn.Module.__init__ = built  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]
            torch.nn.Module.__init__ = build  # type: ignore[method-assign]
            dynamo: Any = sys.modules.get("torch._dynamo.utils")
            if dynamo and dynamo.unpatched_nn_module_call is watched:  # the script was the first to import dynamo
                dynamo.unpatched_nn_module_call = original

    def note_builder(self, module: nn.Module, caller: FrameType) -> None:
        """Remember the innermost line of the user's that is not a method of the module itself."""
        frame: FrameType | None = caller
        while frame is not None:
            code = frame.f_code
            mine = self.users.get(code)
            if mine is None:
                mine = self.users[code] = is_users(self.script, code.co_filename)
            if mine and not (code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is module):
                self.built[id(module)] = (weakref.ref(module), code.co_filename, frame.f_lineno)
                return
            frame = frame.f_back

    def root_call(
        self,
        call: Callable[..., Any],
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        depth: int,
    ) -> Any:
        """Make one root call, and remember it once it has ended well."""
        frame = sys._getframe(2)
        compiled = type(module).__name__ == "OptimizedModule"  # torch.compile's wrapper
        model: Any = module._orig_mod if compiled else module
        tensors = named_tensors(args, kwargs)
        key: Any = (id(model), model.training, *((name, tensor.shape, tensor.dtype) for name, tensor in tensors))
        seen = self.seen(key, model)
        if seen is None and tensors and _generates(frame):
            # Only masks and caches grow from one token to the next: all steps of one width are one Workload.
            key = (id(model), "generate", *((name, tensor.dtype) for name, tensor in tensors), tensors[0][1].shape)
            seen = self.seen(key, model)
        if seen is None and (not self.is_model(model, frame) or not is_real(tensors)):
            return call(module, *args, **kwargs)
        copies = snapshot(model, args, kwargs) if seen is None and self.keep != () else None
        started = time.perf_counter()
        try:
            result = call(module, *args, **kwargs)
        except Exception:
            if not _is_without_values(model):
                raise
            # It asked for a number that is not there; what it is and what it was called with is all that counts.
            seen = seen or self.remember(model, specs_of(tensors), copies, frame, depth)
            seen.calls += 1
            raise SystemExit(0) from None
        seconds = time.perf_counter() - started
        with self.lock:
            if seen is None:
                seen = self.remember(model, specs_of(tensors), copies, frame, depth)
                seen.other_hashes = seen.other_hashes or hashes_of(model, args, kwargs)
                self.known[key] = weakref.ref(model), seen
            seen.calls += 1
            seen.seconds += seconds
        if model.training and not seen.trained:
            _note_gradients(result, seen)
        return result

    def seen(self, key: Any, model: nn.Module) -> _Calls | None:
        """The entry for a combination that this very model was called with before."""
        reference, entry = self.known.get(key, (None, None))
        return entry if reference is not None and reference() is model else None

    def remember(
        self,
        model: nn.Module,
        inputs: Inputs,
        copies: tuple[tuple[Any, ...], dict[str, Any]] | None,
        frame: FrameType,
        depth: int,
    ) -> _Calls:
        """The entry for a new combination. After the call, because a lazy module has no shapes before it."""
        architecture = architecture_of(model)
        selector = selector_of(architecture, inputs)
        entry = self.calls.get((selector, model.training))
        if entry is None:
            size = parameter_count(model)
            entry = _Calls(
                architecture,
                selector,
                class_name_of(model),
                inputs,
                *size,
                self.location(model, frame),
                model.training,
                depth,
                obstacle_of(model),
            )
            if copies and (self.keep is None or selector in self.keep):
                entry.kept = (model, *copies)
            self.calls[selector, model.training] = entry
        entry.depth = min(entry.depth, depth)
        return entry

    def location(self, model: nn.Module, caller: FrameType) -> str:
        """Where the model was built; for one that was copied or unpickled, where it was called."""
        reference, filename, line = self.built.get(id(model), (None, "", 0))
        if reference is None or reference() is not model:
            return location(self.script, caller)
        return place(self.script, filename, line)

    def is_model(self, module: nn.Module, caller: FrameType) -> bool:
        """PyTorch's modules without parameters (bare activations, losses, image transforms) are not models.

        Another library's is one where the user calls it: a graph convolution that only propagates. What a
        parametrisation computes is none, nor what is being traced, nor what a tracer compares with.
        """
        import torch

        if torch._C._get_tracing_state():
            return False
        if caller.f_globals.get("__name__") in ("torch.nn.utils.parametrize", "torch.jit._trace"):
            return False
        if any(True for _ in module.parameters()) or any(self.is_users(type(part)) for part in module.modules()):
            return True
        library = type(module).__module__.partition(".")[0]
        return library not in PARTS_ONLY and is_users(self.script, caller.f_code.co_filename)

    def is_users(self, kind: type) -> bool:
        home = sys.modules.get(kind.__module__)
        return kind.__module__ == "__main__" or is_users(self.script, getattr(home, "__file__", None) or "")

    def models(self) -> list[_Calls]:
        """What was found, in order, less the training steps of a model that was also called in eval mode."""
        evaluated = {entry.architecture for entry in self.calls.values() if not entry.training}
        return [e for e in self.calls.values() if not (e.training and e.architecture in evaluated)]


def _note_gradients(result: Any, entry: _Calls) -> None:
    """Have the entry told when a gradient comes back through a result."""
    import torch
    from torch.utils._pytree import tree_leaves

    def note(gradient: torch.Tensor) -> None:
        entry.trained = True

    for leaf in tree_leaves(result):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None:
            leaf.register_hook(note)


def _generates(caller: FrameType) -> bool:
    """Whether a call is a step of `model.generate`."""
    return str(caller.f_globals.get("__name__")).startswith("transformers.generation.")
