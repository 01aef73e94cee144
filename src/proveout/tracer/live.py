"""Traces one live model: its graphs in one call forward, and one backward where that is asked for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from proveout.capture import LiveModel
from proveout.check.outputs import leaves
from proveout.compiler import CompiledGraph
from proveout.engine.backend import Capture
from proveout.errors import CaptureError
from proveout.program import DEALLOCATE, Program, refs
from proveout.tracer import raw
from proveout.tracer.stat import Stat
from proveout.types import Settings


def trace(
    captured: LiveModel, *, orig: bool, backward: bool, profile: Path | None, device: str, settings: Settings
) -> raw.TracedModel:
    """Its raw dump: the original ATen graphs with `orig`, else the compiled Programs' calls. `profile` names a file for
    a Chrome trace of the same work: measured in eager PyTorch with `orig`, else modelled for the chip."""
    model, kind, note = captured.module, "original" if orig else "compiled", ""
    stat = Stat()
    compiled = Capture.of(device, settings, keep=True)
    run = torch.compile(model, backend=stat if orig else compiled, dynamic=False)
    result = _forward(run, captured, backward)
    if backward:
        note = _backward(result)
    graphs = tuple(stat.graphs) if orig else tuple(map(_graph, compiled.compiled))
    if not graphs:
        raise CaptureError("PyTorch captured no graph of the model.")
    if profile is not None:
        profile.parent.mkdir(parents=True, exist_ok=True)
        if orig or any(graph.plan is None for graph in compiled.compiled):
            _measured_profile(model if orig else run, captured, backward, profile)
        else:
            profile.write_text(json.dumps(modelled_profile(compiled.compiled)))
    workload = captured.workload
    return raw.TracedModel(workload.name, Path(workload.script).name, workload.selector, kind, graphs, note)  # type: ignore[arg-type]


def _forward(call: Callable[..., Any], captured: LiveModel, backward: bool) -> Any:
    with torch.enable_grad() if backward else torch.no_grad():
        return call(*captured.args, **captured.kwargs)


def _backward(result: Any) -> str:
    """Go back from the sum of the outputs that lead to a parameter; says why not where none does."""
    outputs = [v for _, v in leaves(result) if isinstance(v, torch.Tensor) and v.requires_grad]
    if not outputs:
        return "no backward graph: no output depends on a parameter that needs a gradient"
    torch.stack([output.float().sum() for output in outputs]).sum().backward()
    return ""


def _graph(compiled: CompiledGraph) -> raw.TracedGraph:
    program = compiled.program
    steps = [step for step in program.body if step.kernel != DEALLOCATE]
    nodes = [
        raw.Node(
            step.outputs[0] if step.outputs else "",
            step.kernel,
            tuple(_tensor(program, ref.name) for _, arg in step.attrs for ref in refs(arg)),
            tuple(_tensor(program, name) for name in step.outputs),
        )
        for step in steps
    ]
    return raw.TracedGraph(_phase(program), tuple(nodes))


def _phase(program: Program) -> raw.Phase:
    return "backward" if program.name.endswith("_backward") else "forward"


def _tensor(program: Program, name: str) -> raw.TracedTensor:
    spec = program.specs[name]
    return raw.TracedTensor(spec.shape, spec.dtype, spec.nbytes)


# ----------------------------------------------------------------------------------------------- profiles


def _measured_profile(call: Callable[..., Any], captured: LiveModel, backward: bool, path: Path) -> None:
    activity = torch.profiler.ProfilerActivity.CPU
    with _quiet_profiler(), torch.profiler.profile(activities=[activity], record_shapes=True) as profiler:
        result = _forward(call, captured, backward)
        if backward:
            _backward(result)
    profiler.add_metadata_json("times", json.dumps("measured on the host"))
    profiler.export_chrome_trace(str(path))


@contextlib.contextmanager
def _quiet_profiler() -> Iterator[None]:
    """The profiler warns of what only several cycles could lose; there is one."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def modelled_profile(graphs: list[CompiledGraph]) -> dict[str, Any]:
    """A Chrome trace of the Programs' Steps one after the other, at their modelled times, in microseconds."""
    events: list[dict[str, Any]] = []
    now = 0.0
    for graph in graphs:
        for step in graph.plan.steps if graph.plan else ():
            origin = step.step.origin
            said = {"aten": origin.aten, "module": origin.module, "source": origin.source, "time": "modelled"}
            lane = {"pid": graph.plan.chip if graph.plan else "", "tid": _phase(graph.program)}
            duration = step.ns / 1e3
            events.append({"name": step.step.kernel, "ph": "X", "ts": now, "dur": duration, **lane, "args": said})
            now += duration
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"times": "modelled"}}
