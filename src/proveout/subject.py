"""One model under proof, live in this process: its reference, its candidate and what the candidate gives, each once."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from proveout import capture
from proveout.check.outputs import leaves
from proveout.compat.onnxflow.flat import tensor_leaves
from proveout.engine.compiled import undisturbed
from proveout.runtimes import RUNTIMES, Candidate, live_onnx, quiet
from proveout.types import META, Job

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Watch:
    """Follows a Job while it is done in this process; this one looks away."""

    def stage(self, name: str) -> None:
        """One of FAILURE_OF_STAGE begins."""

    def after_pass(self, name: str) -> None:
        """One of the compiler's passes has ended."""

    def sample(self, what: str, ns: int, warm: bool) -> None:
        """One timed call of the Timing `what`; a warm-up call is not among its samples."""


@dataclass(eq=False)
class Subject:
    """What a Job is about. `live` is its model where the caller has it; `wanted` the outputs to compare with."""

    job: Job
    live: capture.LiveModel | None = None
    wanted: Any = None
    watch: Watch = field(default_factory=Watch)
    _scratch: tempfile.TemporaryDirectory[str] | None = None

    @functools.cached_property
    def captured(self) -> capture.LiveModel:
        captured = self.live or (live_onnx(self.job) if self.job.workload.is_onnx else capture.load(self.job.workload))
        torch.manual_seed(self.job.settings.seed)
        return captured

    @property
    def model(self) -> torch.nn.Module:
        return self.captured.module

    @property
    def call(self) -> Call:
        """The script's own inputs."""
        return self.captured.args, self.captured.kwargs

    @property
    def is_compared(self) -> bool:
        """Whether there is a reference: an ONNX file has none, nor has a model without values, and eager mode is it
        unless it is run once more."""
        workload = self.job.workload
        values = not workload.is_onnx and workload.weights != META
        return values and (self.job.runtime != "eager" or "run" in self.job.do)

    def eager(self, call: Call) -> Any:
        """The model in eager mode; the model stays as it was before the call."""
        args, kwargs = call
        with undisturbed(self.model, call):
            return copied(quiet(self.model)(*args, **kwargs))

    @functools.cached_property
    def reference(self) -> Any:
        """What the candidate must give: the caller's outputs where they have the structure of eager's."""
        eager = self.eager(self.call)
        names = [name for name, _ in leaves(eager)]
        return self.wanted if self.wanted is not None and [n for n, _ in leaves(self.wanted)] == names else eager

    @functools.cached_property
    def candidate(self) -> Candidate:
        """The model as the Job's runtime runs it."""
        self._scratch = tempfile.TemporaryDirectory(prefix="proveout-")
        prepare = RUNTIMES[self.job.runtime].prepare
        return prepare(self.job, self.captured, Path(self._scratch.name), self.watch.after_pass)

    def outputs(self) -> tuple[Any, Any]:
        """What the candidate gives, and what it should, in one structure."""
        args, kwargs = self.call
        with undisturbed(self.model, self.call):
            outputs = copied(self.candidate.call(*args, **kwargs))
        return outputs, list(tensor_leaves(self.reference)) if self.candidate.tensors_only else self.reference

    def once(self, call: Callable[..., Any]) -> Callable[[], Any]:
        """What is timed: one call on the model's inputs, or what the caller's `iterate` makes of several."""
        args, kwargs = self.call
        if self.captured.iterate is None:
            return lambda: call(*args, **kwargs)
        iterate = self.captured.iterate
        return lambda: iterate(call)


def copied(outputs: Any) -> Any:
    """Outputs that may share memory with inputs or buffers, kept as they are now."""
    return tree_map_only(torch.Tensor, torch.clone, outputs)
