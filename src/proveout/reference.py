"""Runs models on one backend beside eager PyTorch, and compares what the two give."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout.capture.named import Named
from proveout.coding import from_json, to_json
from proveout.errors import ProveoutError, unknown
from proveout.isolate import run_python
from proveout.types import Comparison, Settings, Timing

if TYPE_CHECKING:
    from proveout.capture import Found

ALIASES = {"torch_ttnn": "proveout", "torch_stat": "stat"}
"""The names that the original TTNN backend's tools gave them."""
BACKENDS = ("proveout", "stat", "eager", "inductor")


@dataclass(frozen=True)
class Request:
    """One script to run on one backend."""

    name: str
    script: str
    script_args: str
    backend: str
    device: str
    settings: Settings
    iterations: int


@dataclass(frozen=True)
class Ran:
    """One model on one backend: how close its outputs are to eager's, and how long both took."""

    model: str
    backend: str
    device: str
    parameters: int = 0
    error: str = ""
    first_call_s: float = 0.0
    """With compilation; measured."""
    comparisons: tuple[Comparison, ...] = ()
    timings: tuple[Timing, ...] = ()
    ops: tuple[tuple[str, int], ...] = ()
    """The ATen ops of its graphs and their number; none where the backend has no graphs to show."""
    ops_on_host: int | None = None

    @property
    def passed(self) -> bool:
        return not self.error and all(c.passed for c in self.comparisons)

    @property
    def pcc(self) -> float | None:
        return min((c.pcc for c in self.comparisons if c.pcc is not None), default=None)

    @property
    def reason(self) -> str:
        wrong = [f"output {c.name}: {c.reason}" for c in self.comparisons if not c.passed]
        return self.error or (wrong[0] if wrong else "")


def canonical(backend: str) -> str:
    """A backend's own name for any of its names; an unknown one is refused."""
    name = ALIASES.get(backend, backend)
    if name not in BACKENDS:
        raise unknown("backend", backend, [*BACKENDS, *ALIASES])
    return name


def run_beside_eager(request: Request, timeout_s: float) -> list[Ran]:
    """Run a script's models in a process of their own. Whatever happens there, something comes back."""
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        result = Path(folder, "ran.json")
        outcome = run_python(
            "proveout.reference", [str(result)], stdin=json.dumps(to_json(request)), timeout_s=timeout_s
        )
        if result.exists():
            return [from_json(Ran, one) for one in json.loads(result.read_text())]
    return [Ran(request.name, request.backend, request.device, error=f"the process {outcome.story}: {outcome.log}")]


def beside_eager(found: Found, backend: str, device: str, settings: Settings, iterations: int) -> Ran:
    """One live model: eager first, then the backend on the same inputs, both without gradients in eval mode."""
    import torch

    from proveout.check.outputs import compare_outputs
    from proveout.engine.compiled import undisturbed
    from proveout.measure import measured

    model, args, kwargs = found.module, found.args, found.kwargs
    workload = found.workload
    named = Ran(workload.name, backend, device if backend == "proveout" else "cpu", workload.parameters)
    torch.manual_seed(settings.seed)
    try:
        with torch.enable_grad() if model.training else torch.no_grad():
            with undisturbed(model, (args, kwargs)):
                wanted = _copied(model(*args, **kwargs))
            started = time.perf_counter()
            with undisturbed(model, (args, kwargs)):
                call, facts = _PREPARE[backend](found, device, settings)
                outputs = _copied(call(*args, **kwargs))
            seconds = time.perf_counter() - started
            how: dict[str, Any] = {"iterations": iterations, "warmup": 1}
            timings = (
                measured("eager", "cpu", lambda: model(*args, **kwargs), **how),
                measured("backend", named.device, lambda: call(*args, **kwargs), **how),
            )
        comparisons = tuple(compare_outputs(outputs, wanted, settings.pcc))
        ran = dataclasses.replace(named, first_call_s=seconds, comparisons=comparisons, timings=timings)
        return facts(ran)
    except ProveoutError as error:
        return dataclasses.replace(named, error=str(error))
    except Exception as error:
        traceback.print_exc()
        first = (str(error).strip().splitlines() or [""])[0]
        return dataclasses.replace(named, error=f"{type(error).__name__}: {first}")


Prepared = tuple[Callable[..., Any], Callable[[Ran], Ran]]


def _proveout(found: Found, device: str, settings: Settings) -> Prepared:
    from proveout.devices.registry import find
    from proveout.engine.compiled import compile
    from proveout.measure import modelled

    compiled = compile(found.module, device=device, settings=settings, call=(found.args, found.kwargs))

    def facts(ran: Ran) -> Ran:
        coverage, timings = compiled.coverage, ran.timings
        if compiled.modelled_ns and find(device).times == "modelled":
            timings = (*timings, modelled("device", compiled.device, compiled.modelled_ns))
        ops = _counted([op.aten for op in coverage.ops])
        return dataclasses.replace(ran, ops=ops, ops_on_host=coverage.remain, timings=timings)

    return compiled, facts


def _stat(found: Found, device: str, settings: Settings) -> Prepared:
    import torch

    from proveout.tracer.stat import Stat

    stat = Stat()

    def facts(ran: Ran) -> Ran:
        return dataclasses.replace(ran, ops=_counted([node.op for graph in stat.graphs for node in graph.nodes]))

    return torch.compile(found.module, backend=stat), facts


def _inductor(found: Found, device: str, settings: Settings) -> Prepared:
    import torch

    return torch.compile(found.module, backend="inductor"), lambda ran: ran


def _eager(found: Found, device: str, settings: Settings) -> Prepared:
    return found.module, lambda ran: ran


_PREPARE: dict[str, Callable[[Found, str, Settings], Prepared]] = {
    "proveout": _proveout,
    "stat": _stat,
    "eager": _eager,
    "inductor": _inductor,
}


def _counted(names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, names.count(name)) for name in sorted(set(names)))


def _copied(outputs: Any) -> Any:
    """Outputs that may share memory with inputs or buffers, kept as they are now."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, torch.clone, outputs)


def main(result: str) -> None:
    """The child's side of `run_beside_eager`: a Request on stdin, what ran into the file named."""
    from proveout.capture import watch
    from proveout.capture.running import explain

    request = from_json(Request, json.loads(sys.stdin.read()))
    script = Path(request.script)
    found, raised = watch(script, request.script_args)
    named = Named(request.name, script, request.script_args)
    ran = []
    for one in found:
        workload = dataclasses.replace(one.workload, name=named.call(one.workload.name))
        live = dataclasses.replace(one, workload=workload)
        ran.append(beside_eager(live, request.backend, request.device, request.settings, request.iterations))
    if not found:
        ran.append(Ran(request.name, request.backend, request.device, error=explain(script, raised, ran=False)))
    Path(result).write_text(json.dumps(to_json(ran), allow_nan=False))


if __name__ == "__main__":
    main(sys.argv[1])
