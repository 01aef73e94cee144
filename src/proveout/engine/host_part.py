"""What one call of a compiled model leaves to the host, as a function whose time can be taken.

A chip's predicted time has no word about it: host Steps, graphs that run in eager, and, where PyTorch captured the
model in several graphs, the Python between them. The function does that work alone; what the device gave is at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proveout.devices.execute import run_step
from proveout.engine.compiled import Compiled
from proveout.engine.graph import GraphFunction, Variant
from proveout.errors import CaptureError
from proveout.program import DEALLOCATE, Step

Work = Callable[[], Any]


def has_host_part(compiled: Compiled) -> bool:
    """Whether a call leaves anything to the host, as far as what was compiled says."""
    return compiled.has_host_part


def host_part(compiled: Compiled, call: Work) -> Work | None:
    """The host's work of one `call` of a compiled model, or of several; None where the device does everything."""
    if not has_host_part(compiled):
        return None
    runs: list[_Run] = []

    def record(graph: GraphFunction, arguments: Sequence[Any]) -> list[Any]:
        variant = graph.variant(arguments)
        work = list(_host_steps(variant, arguments)) if isinstance(variant, Variant) else [_eagerly(graph, arguments)]
        outputs = graph.run(arguments)
        runs.append(_Run(graph, work, outputs))
        return outputs

    with compiled.instead_of_graphs(record):
        call()
    if compiled.coverage.graph_breaks:
        return lambda: _between(compiled, call, runs)
    work = [one for run in runs for one in run.work]
    return (lambda: [one() for one in work]) if work else None


@dataclass(frozen=True)
class _Run:
    """One graph in a call: what the host does of it, and what it gave."""

    graph: GraphFunction
    work: list[Work]
    outputs: list[Any]


OTHER_GRAPHS = "the model does not call the same graphs at every call"


def _between(compiled: Compiled, call: Work, runs: Sequence[_Run]) -> Any:
    """The whole call, in which a graph does its host's work and gives what it gave before."""
    coming, known = iter(runs), len(compiled.captured)

    def replay(graph: GraphFunction, arguments: Sequence[Any]) -> list[Any]:
        run = next(coming, None)
        if run is None or run.graph is not graph:
            raise CaptureError(OTHER_GRAPHS)
        for one in run.work:
            one()
        return list(run.outputs)

    with compiled.instead_of_graphs(replay):
        outputs = call()
    if len(compiled.captured) > known or next(coming, None) is not None:
        raise CaptureError(OTHER_GRAPHS)  # what was timed is a compilation, or a call without its graphs
    return outputs


def _eagerly(graph: GraphFunction, arguments: Sequence[Any]) -> Work:
    kept = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    return lambda: graph.gm(*kept)


def _host_steps(variant: Variant, arguments: Sequence[Any]) -> Iterator[Work]:
    """Each host Step of a graph's body with its operands; the device's Steps run once, to have them."""
    program = variant.compiled.program
    if not any(step.on_host for step in program.body):
        return
    loaded = variant.ready(arguments)
    values = dict(zip(program.inputs, (arguments[i] for i in variant.compiled.input_positions)))
    values.update((name, loaded.value(name)) for name in program.resident)
    last = {name: i for i, step in enumerate(program.body) for name in (*step.uses, *step.outputs)}
    with torch.no_grad():
        for index, step in enumerate(program.body):
            if step.kernel == DEALLOCATE:
                continue
            if step.on_host:
                yield _one(step, {name: values[name] for name in step.uses})
            values.update(zip(step.outputs, loaded.run_step(step, values)))
            for name in (*step.uses, *step.outputs):
                if last[name] == index:
                    values.pop(name, None)


def _one(step: Step, operands: Mapping[str, Any]) -> Work:
    def work() -> Any:
        with torch.no_grad():
            return run_step(step, operands)

    return work
