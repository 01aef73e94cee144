"""Stage 6: `ttnn_model.py`, the model as editable ttnn classes, and `tests/test_modules.py`, each against float32.

The references are what float32 gives for the same calls, or, where they agree with it, torch's own module outputs.
"""

from __future__ import annotations

import functools
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.utils._pytree import tree_leaves

from proveout import isolate, ttnn
from proveout.bringup.code import Graph, Written, needs_given, write_graph
from proveout.bringup.modules_text import HEAD, MEMORIES, TAIL, TESTS
from proveout.bringup.stage import Files, Found
from proveout.bringup.subject import Run, Subject
from proveout.bringup.testing import run_tests, written_module
from proveout.bringup.tree import Visit
from proveout.check.compare import compare
from proveout.check.steps import exact_values
from proveout.engine.compiled import undisturbed
from proveout.errors import CompileError
from proveout.kernels.table import constant_tensor
from proveout.program import Program, Ref
from proveout.report.script import GIVEN
from proveout.types import TensorSpec

AGREES = 2e-3
"""Relative L2 within which float32's value is taken to be the torch module's own output."""


@dataclass(frozen=True)
class Tested:
    """One visit of a module: where it is in the written model, and the values that it takes and gives."""

    graph: int
    path: str
    attribute: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    against: str


@dataclass(frozen=True)
class Exactness:
    """One part's lowest PCC: on exact inputs, and on what the parts before it gave."""

    attribute: str
    alone: float | None
    accumulated: float | None
    against: str

    def below(self, least: float) -> str:
        found = [
            f"{how} {v:.5f}"
            for how, v in (("alone", self.alone), ("accumulated", self.accumulated))
            if v is not None and v < least
        ]
        return f"PCC {', '.join(found)} below {least} when written" if found else ""


def run(subject: Subject, files: Files) -> Found:
    runs = subject.runs()
    if not runs:
        raise CompileError("no graph of the model runs on the device; see the stage 'missing'.")
    graphs = [_graph(subject, number, run) for number, run in enumerate(runs)]
    written = Written()
    roots = [write_graph(graph, written) for graph in graphs]
    tensors = _tensors(subject, runs, graphs)
    save_file(tensors, files.path("ttnn_model.safetensors"))
    given = GIVEN if needs_given(g.program for g in graphs) else ""
    chip = subject.asked.device.partition(":")[2]
    options = f', chip="{chip}"' if chip not in ("", "n150") else ""
    text = HEAD.format(name=subject.asked.workload.name, options=options, given=given)
    text += "\n\n\n".join(written.order) + TAIL.format(graphs=", ".join(name for name, _ in roots))
    path = files.path("ttnn_model.py")
    path.write_text(text)
    own = _runs_alone(path)
    tested, values = _tested(subject, runs, graphs, [root for _, root in roots], written)
    save_file({k: v.detach().clone().contiguous() for k, v in values.items()}, files.path("tests/modules.safetensors"))
    least = subject.asked.settings.pcc
    exactness = _measure(path, tested, values, graphs)
    off = {e.attribute: why for e in exactness if (why := e.below(least))}
    rows = "\n".join(_row(t, graphs, off.get(t.attribute)) for t in tested)
    test = files.path("tests/test_modules.py")
    test.write_text(TESTS.format(name=subject.asked.workload.name, least=least, rows=rows, memories=MEMORIES))
    tests = run_tests(test, subject.asked.tests)
    hosted = sum(len(g.parts.off_device) for g in graphs)
    classes = len(written.order)
    findings = [
        f"{classes} classes for {len(tested)} visited modules; alike layers share a class",
        f"ttnn_model.py by itself: {own}",
        f"module tests: {tests}",
        *(f"{path}: {why}" for path, why in list(off.items())[:5]),
    ]
    if hosted:
        findings.append(f"{hosted} host ops and transfers are inside the model: it cannot be captured in one trace")
    wrong = bool(off) or tests.failed > 0 or (bool(tests.why) and subject.asked.tests)
    return Found(
        f"{classes} classes; {tests}",
        tuple(findings),
        "Look at the first module that is off: pytest tests/test_modules.py -k isolated" if wrong else "",
        attention=wrong,
        data={
            "classes": classes, "modules": len(tested), "tests": tests, "off_device": hosted, "runs_alone": own,
            "exactness": exactness, "against_torch": sum(t.against == "torch" for t in tested),
        },
    )  # fmt: skip


def _graph(subject: Subject, number: int, run: Run) -> Graph:
    compiled = run.variant.compiled
    program = replace(compiled.program, name=f"graph{number}")
    known = {
        t.data_ptr(): name
        for name, t in reversed(
            [
                *subject.model.named_buffers(remove_duplicate=False),
                *subject.model.named_parameters(remove_duplicate=False),
            ]
        )
        if t.numel()
    }
    names = {}
    for weight, position in zip(program.weights, compiled.weight_positions):
        names[weight] = known.get(run.arguments[position].data_ptr(), f"graph{number}.held.{weight}")
    types = {path: type(module).__name__ for path, module in subject.model.named_modules()}
    title = type(subject.model).__name__
    return Graph(program, names, types, title)


def _tensors(subject: Subject, runs: list[Run], graphs: list[Graph]) -> dict[str, torch.Tensor]:
    """Parameters by their names in the model, constants, and what each graph was given and gave."""
    found: dict[str, Any] = {}
    for number, (run, graph) in enumerate(zip(runs, graphs)):
        program = graph.program
        loaded = run.variant.ready(run.arguments)
        for weight in program.weights:
            found[graph.names[weight]] = loaded.value(weight)
        for constant in program.constants:
            found[f"{program.name}.{constant.name}"] = constant_tensor(constant, program.specs[constant.name])
        inputs = run.inputs
        found |= {f"graph{number}.input.{i}": t for i, t in enumerate(inputs) if isinstance(t, torch.Tensor)}
        for index, (output, value) in enumerate(zip(program.outputs, loaded.run(inputs).outputs)):
            if isinstance(output, Ref):
                found[f"graph{number}.output.{index}"] = value
    return {name: t.detach().clone(memory_format=torch.contiguous_format) for name, t in found.items()}


def _runs_alone(path: Path) -> str:
    """Run `ttnn_model.py` as a user would."""
    command = shlex.join([sys.executable, str(path)])
    with tempfile.TemporaryFile("w+") as output:
        outcome = isolate.run_command(
            command, output=output, timeout_s=900, environment={"PYTHONDONTWRITEBYTECODE": "1"}
        )
        output.seek(0)
        lines = output.read().strip().splitlines() or [""]
    if not outcome.ok:
        raise CompileError(f"ttnn_model.py does not run: {lines[-1]}")
    return "gives the compiled model's outputs"


def _tested(
    subject: Subject, runs: list[Run], graphs: list[Graph], roots: list[Visit], written: Written
) -> tuple[list[Tested], dict[str, torch.Tensor]]:
    """The visits that can be tested, and their float32 values."""
    eager = _module_outputs(subject)
    tested: list[Tested] = []
    values: dict[str, torch.Tensor] = {}
    for number, (run, root) in enumerate(zip(runs, roots)):
        visits = list(_named(root))
        wanted = {n for _, v in visits for f in [written.faces[id(v)]] for n in (*f.takes, *f.gives)}
        exact = exact_values(run.variant.ready(run.arguments), run.inputs, frozenset(wanted))
        for attribute, visit in visits:
            face = written.faces[id(visit)]
            if not face.gives or not all(isinstance(exact.get(n), torch.Tensor) for n in (*face.takes, *face.gives)):
                continue
            against = "float32"
            found = eager.get(visit.path)
            if found is not None and len(face.gives) == 1 and _agree(exact[face.gives[0]], found):
                against = "torch"
                exact[face.gives[0]] = found.reshape(exact[face.gives[0]].shape)
            tested.append(Tested(number, visit.path, attribute, tuple(face.takes), tuple(face.gives), against))
            values |= {f"{number}:{n}": exact[n] for n in (*face.takes, *face.gives)}
    return tested, values


def _named(visit: Visit, prefix: str = "") -> Iterator[tuple[str, Visit]]:
    for item in visit.items:
        if isinstance(item, Visit):
            attribute = f"{prefix}.{item.name}" if prefix else item.name
            yield attribute, item
            yield from _named(item, attribute)


def _module_outputs(subject: Subject) -> dict[str, torch.Tensor]:
    """What each module that is called once gives in eager mode, where that is one tensor."""
    found: dict[str, list[Any]] = {}
    hooks = [
        module.register_forward_hook(lambda _, __, out, path=path: found.setdefault(path, []).append(out))
        for path, module in subject.model.named_modules()
    ]
    try:
        with undisturbed(subject.model, subject.call), torch.no_grad():
            subject.model(*subject.call[0], **subject.call[1])
    finally:
        for hook in hooks:
            hook.remove()
    outputs = {}
    for path, results in found.items():
        tensors = [t for t in tree_leaves(results) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if len(results) == 1 and tensors:
            outputs[path] = tensors[0].detach().clone()
    return outputs


def _agree(exact: torch.Tensor, eager: torch.Tensor) -> bool:
    if exact.numel() != eager.numel() or not exact.is_floating_point():
        return False
    difference = (exact.reshape(eager.shape) - eager).double().norm()
    return bool(difference <= AGREES * eager.double().norm())


def _measure(
    path: Path, tested: list[Tested], values: Mapping[str, torch.Tensor], graphs: list[Graph]
) -> list[Exactness]:
    """Each part's PCC alone, and in a run of the whole, by the code that was written."""
    with written_module(path) as model:
        device, tensors = model.open_device(), model.load()
        try:
            built = [graph(device, tensors) for graph in model.GRAPHS]
            seen: dict[int, list[torch.Tensor]] = {}
            model.Module.tap = lambda part, results: seen.__setitem__(id(part), [_host(r).clone() for r in results])
            for number, graph in enumerate(built):
                graph(*model.inputs_of(number, tensors))
            model.Module.tap = None
            return [_exactness(one, built, seen, values, graphs, device) for one in tested]
        finally:
            ttnn.close_device(device)


def _exactness(
    one: Tested,
    built: Sequence[Any],
    seen: Mapping[int, list[torch.Tensor]],
    values: Mapping[str, torch.Tensor],
    graphs: Sequence[Graph],
    device: Any,
) -> Exactness:
    part: Any = functools.reduce(getattr, one.attribute.split("."), built[one.graph])
    specs = graphs[one.graph].program.specs
    results = part(*(_send(values[f"{one.graph}:{n}"], specs[n], device) for n in one.takes))
    alone = [_host(r) for r in (results if isinstance(results, tuple) else (results,))]
    wanted = [values[f"{one.graph}:{n}"] for n in one.gives]
    return Exactness(one.attribute, _lowest(alone, wanted), _lowest(seen[id(part)], wanted), one.against)


def _send(tensor: torch.Tensor, spec: TensorSpec, device: Any) -> Any:
    if spec.memory.buffer == "host" and spec.layout == "row_major":
        return tensor
    layout = ttnn.TILE_LAYOUT if spec.layout == "tile" else ttnn.ROW_MAJOR_LAYOUT
    place = {"l1": ttnn.L1_MEMORY_CONFIG}.get(spec.memory.buffer, ttnn.DRAM_MEMORY_CONFIG)
    return ttnn.from_torch(tensor, dtype=getattr(ttnn, spec.dtype), layout=layout, device=device, memory_config=place)


def _host(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else ttnn.to_torch(result)


def _lowest(outputs: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float | None:
    """The lowest PCC over a part's results; of integers and constants, 1 where they agree and 0 where not."""
    least: list[float] = []
    for f, w in zip(outputs, wanted):
        judged = compare(f.reshape(w.shape), w, name="", threshold=-1.0)
        least.append(judged.pcc if judged.pcc is not None else float(judged.passed))
    return min(least, default=None)


def _row(tested: Tested, graphs: list[Graph], off: str | None) -> str:
    program = graphs[tested.graph].program
    takes = ", ".join(_value(tested.graph, n, program) for n in tested.takes)
    gives = ", ".join(repr(f"{tested.graph}:{n}") for n in tested.gives)
    known = f", {off!r}" if off else ""
    return (
        f"    Tested({tested.graph}, {tested.attribute!r}, [{takes}],\n"
        f"           [{gives}], {tested.against!r}{known}),"
    )


def _value(graph: int, name: str, program: Program) -> str:
    return f"V({f'{graph}:{name}'!r}, {_spec(program.specs[name])})"


def _spec(spec: TensorSpec) -> str:
    if spec.memory.buffer == "host" and spec.layout == "row_major":
        return f"None, None, {spec.memory.buffer!r}"
    layout = "ttnn.TILE_LAYOUT" if spec.layout == "tile" else "ttnn.ROW_MAJOR_LAYOUT"
    return f"ttnn.{spec.dtype}, {layout}, {spec.memory.buffer!r}"
