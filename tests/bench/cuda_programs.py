"""A model's Program on a GPU, without the compiled function around it: what the CUDA benchmark and its tuning load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

import proveout
from proveout.devices.cuda import OnCuda
from proveout.program import Program
from proveout.types import Settings


def program_of(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Program, list[Tensor], dict[str, Tensor]]:
    """The model's one Program, its inputs and its weights, captured on the CPU; nothing runs."""
    compiled = proveout.compile(model, inputs, device="cpu", dry_run=True)
    (graph,) = compiled._capture.graphs
    seen: list[tuple[Any, ...]] = []
    original = type(graph).__call__

    def note(self: Any, *arguments: Any) -> Any:
        seen.append(arguments)
        return original(self, *arguments)

    type(graph).__call__ = note
    try:
        compiled(**inputs)
    finally:
        type(graph).__call__ = original
    made, arguments = compiled.graphs[0], seen[0]
    weights = {n: arguments[i] for n, i in zip(made.program.weights, made.weight_positions)}
    return made.program, [arguments[i] for i in made.input_positions], weights


def loaded(
    model: nn.Module, inputs: Mapping[str, Any], mode: str = "inductor", fold: bool | None = None
) -> tuple[OnCuda, list[Tensor]]:
    program, given, weights = program_of(model, inputs)
    on_gpu = OnCuda(program, Settings(), torch.device("cuda", 0), mode, fold)  # type: ignore[arg-type]
    on_gpu.set_weights(weights)
    return on_gpu, given
