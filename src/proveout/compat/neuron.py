"""`torch_neuron`, `torch_neuronx` and `torch.neuron` as NeuronPerf's scripts use them: a model traced and saved.

There is no Neuron chip here, so nothing is compiled for one: a trace is TorchScript, which `neuronperf.torch.benchmark`
opens on this machine's CPU or, with `device_type="sim"`, compiles for a modelled card.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

log = logging.getLogger("neuronperf.benchmarking")


def trace(
    func: Callable[..., Any],
    example_inputs: Any,
    *_: Any,
    compiler_args: Any = None,
    compiler_workdir: str | None = None,
    dynamic_batch_size: bool = False,
    **options: Any,
) -> torch.jit.ScriptModule:
    """TorchScript of a model for inputs like these; what only Neuron's compiler can use is named and left out."""
    unused = {"compiler_args": compiler_args, "compiler_workdir": compiler_workdir, **options}
    names = [name for name, value in unused.items() if value is not None]
    if names:
        log.warning("%s: for Neuron's compiler, not used. Settings here: neuronperf.torch.compile", ", ".join(names))
    inputs = tuple(example_inputs) if isinstance(example_inputs, list) else example_inputs
    with torch.no_grad():
        traced: torch.jit.ScriptModule = torch.jit.trace(func, inputs, check_trace=False, strict=False)
    return traced


class DataParallel(torch.nn.Module):
    """A traced model for larger batches: one part of the batch for each of the devices, one after the other here."""

    def __init__(
        self,
        model: Callable[..., Any],
        device_ids: Sequence[int | str] | None = None,
        dim: int = 0,
        set_dynamic_batching: bool = True,
    ) -> None:
        super().__init__()
        self.model = model
        self.parts = max(1, len(device_ids or ()))
        self.dim = dim

    def forward(self, *inputs: torch.Tensor) -> Any:
        pieces = zip(*(value.chunk(self.parts, self.dim) for value in inputs), strict=True)
        outputs = [tree_flatten(self.model(*piece)) for piece in pieces]
        joined = [torch.cat(leaves, self.dim) for leaves in zip(*(leaves for leaves, _ in outputs), strict=True)]
        return tree_unflatten(joined, outputs[0][1])


def dynamic_batch(neuron_script: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """The trace itself: TorchScript takes other batches where the model does."""
    return neuron_script


def loaded(trace: torch.jit.ScriptModule, *_: Any, **__: Any) -> torch.jit.ScriptModule:
    """The trace itself: on a CPU there is nothing to place or to load later."""
    return trace


lazy_load = async_load = set_neuron_cores = set_multicore = move_trace_to_device = loaded

sys.modules["torch.neuron"] = sys.modules[__name__]
torch.neuron = sys.modules[__name__]  # type: ignore[attr-defined]

__all__ = [
    "DataParallel", "async_load", "dynamic_batch", "lazy_load", "move_trace_to_device", "set_multicore",
    "set_neuron_cores", "trace",
]  # fmt: skip
