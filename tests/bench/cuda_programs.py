"""A model's Program on a GPU, without the compiled function around it: what the CUDA benchmark and its tuning load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from proveout.devices.cuda import OnCuda
from proveout.engine.backend import Capture
from proveout.engine.graph import GraphFunction
from proveout.program import Program
from proveout.types import Settings


def captured(model: nn.Module, *inputs: Any, **named: Any) -> tuple[Any, list[Any]]:
    """A model's one graph and the arguments it is called with, captured where its tensors lie; nothing runs."""
    capture = Capture.of("cpu", keep=True, dry=True)
    seen: list[list[Any]] = []
    torch._dynamo.reset()
    function = torch.compile(model, backend=capture, fullgraph=True)
    original = GraphFunction.__call__

    def note(self: GraphFunction, *arguments: Any) -> list[Any]:
        seen.append(list(arguments))
        return original(self, *arguments)

    GraphFunction.__call__ = note  # type: ignore[method-assign]
    try:
        with torch.no_grad():
            function(*inputs, **named)
    finally:
        GraphFunction.__call__ = original  # type: ignore[method-assign]
    (graph,) = capture.graphs
    return graph, seen[0]


def program_of(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Program, list[Tensor], dict[str, Tensor]]:
    """The model's one Program, its inputs and its weights."""
    graph, arguments = captured(model, **inputs)
    made = graph.variant(arguments).compiled
    weights = {n: arguments[i] for n, i in zip(made.program.weights, made.weight_positions)}
    return made.program, [arguments[i] for i in made.input_positions], weights


def loaded(
    model: nn.Module,
    inputs: Mapping[str, Any],
    mode: str = "inductor",
    form: str | None = None,
    settings: Settings | None = None,
) -> tuple[OnCuda, list[Tensor]]:
    program, given, weights = program_of(model, inputs)
    on_gpu = OnCuda(program, settings or Settings(), torch.device("cuda", 0), mode, form)  # type: ignore[arg-type]
    on_gpu.set_weights(weights)
    return on_gpu, given
