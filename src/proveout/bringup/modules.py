"""Stage 9: `ttnn_model.py`, the optimised model as editable ttnn classes, and `tests/test_modules.py`: each of them
against float32.

The references are what float32 gives for the same calls, or, where they agree with it, torch's own module outputs.
"""

from __future__ import annotations

import inspect
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.utils._pytree import tree_flatten_with_path, tree_leaves

from proveout import isolate
from proveout.bringup.code import GraphSource, WrittenClasses, needs_given, write_graph
from proveout.bringup.data import ModulesData
from proveout.bringup.exactness import Tested, measure, own_thresholds, sentence
from proveout.bringup.modules_text import (
    AT_BATCH,
    AT_SHAPE,
    COMPUTE,
    FIXED_SIZES,
    HEAD,
    MEMORIES,
    OUTPUTS,
    READ_SIZES,
    TAIL,
    TESTS,
)
from proveout.bringup.setup import simplified
from proveout.bringup.sizes import batch_of
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import GraphRun, Subject
from proveout.bringup.testing import run_tests
from proveout.bringup.tree import Visit
from proveout.check.steps import exact_values
from proveout.engine.compiled import undisturbed
from proveout.errors import CompileError
from proveout.kernels.row import Kind
from proveout.kernels.signatures import parameters
from proveout.kernels.table import constant_tensor, kind_of
from proveout.program import Name, Program, Ref, Step
from proveout.report.script import GIVEN, identifier, in_words
from proveout.types import Settings, TensorSpec
from proveout.words import counted

MULTIPLIES: tuple[Kind, ...] = ("product", "convolution", "attention", "norm")
"""Kinds of kernels that take a math fidelity."""
ON_HOST = "Bring the ops of the stage 'missing' to the device: host ops in the midst of the model prevent one trace."
AGREES = 2e-3
"""Relative L2 within which float32's value is taken to be the torch module's own output."""


def run(subject: Subject, files: Files) -> StageResult:
    settings = subject.optimised
    runs = subject.runs(settings)
    if not runs:
        raise CompileError("no graph of the model runs on the device; see the stage 'missing'.")
    graphs = [_graph(subject, number, run, settings) for number, run in enumerate(runs)]
    tensors = _tensors(subject, runs, graphs)
    save_file(tensors, files.path("ttnn_model.safetensors"))
    path = files.path("ttnn_model.py")
    free = [replace(graph, batch=batch_of(graph.program)) for graph in graphs]
    written, roots = _write(subject, path, free, settings, _outputs(subject, runs, tensors))
    obstacle = "the model takes no tensors" if not all(g.batch for g in free) else _obstacle(path, copies=2)
    if obstacle:
        written, roots = _write(subject, path, graphs, settings, _outputs(subject, runs, tensors))
    if why := _obstacle(path):
        raise CompileError(f"ttnn_model.py does not run: {why}")
    sizes = (
        f"its sizes are the example's: twice the batch fails ({obstacle})"
        if obstacle
        else "it also runs on twice the batch"
    )
    tested, values = _tested(subject, runs, graphs, roots, written)
    save_file({k: v.detach().clone().contiguous() for k, v in values.items()}, files.path("tests/modules.safetensors"))
    least = subject.bringup.settings.pcc
    exactness = measure(path, tested, values, graphs)
    low = {e.attribute: why for e in exactness if (why := e.below(least))}
    own_least = own_thresholds(subject, settings, exactness, least)
    off = {attribute: why for attribute, why in low.items() if attribute not in own_least}
    rows = "\n".join(_row(t, graphs, off.get(t.attribute), own_least.get(t.attribute)) for t in tested)
    test = files.path("tests/test_modules.py")
    name = in_words(subject.bringup.workload.name)
    test.write_text(TESTS.format(name=name, least=least, rows=rows, memories=MEMORIES))
    tests = run_tests(test, subject.bringup.tests)
    hosted = sum(len(g.parts.off_device) for g in graphs)
    classes = counted(len(written.order), "class", "classes")
    findings = [
        f"{classes} for {counted(len(tested), 'visited module')}; alike layers share a class",
        "ttnn_model.py by itself gives the compiled model's outputs",
        sizes,
        f"module tests: {tests}",
        *(f"{path}: {why}" for path, why in list(off.items())[:5]),
    ]
    if own_least:
        findings.append(sentence(subject, exactness, own_least, least))
    if hosted:
        findings.append(f"{hosted} host ops and transfers are inside the model: it cannot be captured in one trace")
    wrong = bool(off) or tests.failed > 0 or (bool(tests.why) and subject.bringup.tests)
    step = "Look at the first module that is off: pytest tests/test_modules.py -k isolated"
    return StageResult(
        f"{classes}; {tests}",
        tuple(findings),
        step if wrong else ON_HOST if hosted else "",
        attention=wrong or bool(hosted),
        data=ModulesData(
            len(written.order), len(tested), tests, hosted, not obstacle, tuple(exactness), own_least,
            against_torch=sum(t.against == "torch" for t in tested),
        ),
    )  # fmt: skip


def _graph(subject: Subject, number: int, run: GraphRun, settings: Settings) -> GraphSource:
    compiled = run.variant.compiled
    program = _with_fidelity(replace(compiled.program, name=f"graph{number}"), settings)
    known: dict[int | None, str] = {
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
        names[weight] = known.get(run.addresses[position], f"graph{number}.held.{weight}")
    types = {path: type(module).__name__ for path, module in subject.model.named_modules()}
    title = type(subject.model).__name__
    inputs = _input_names(subject, dict(zip(program.inputs, run.inputs)))
    return GraphSource(simplified(program), names, types, title, inputs)


def _with_fidelity(program: Program, settings: Settings) -> Program:
    """The calls that multiply, told how exactly to; the Settings said it for all."""
    if settings.math_fidelity is None:
        return program

    def with_config(step: Step) -> Step:
        if step.on_host or kind_of(step) not in MULTIPLIES:
            return step
        key = next((k for k in ("compute_kernel_config", "compute_config") if k in parameters(step.kernel)), None)
        said = key is None or key in dict(step.attrs)
        return step if key is None or said else replace(step, attrs=(*step.attrs, (key, Name("COMPUTE"))))

    return replace(program, body=tuple(with_config(step) for step in program.body))


def _input_names(subject: Subject, inputs: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of the model's forward that a graph takes as they are, by its own names for them; a tensor inside
    an argument, as in a dict, by the way to it."""
    try:
        bound = inspect.signature(subject.model.forward).bind(*subject.call[0], **subject.call[1]).arguments
    except (TypeError, ValueError):
        return {}
    known = {identifier("_".join(_step_text(k) for k in way)): v for way, v in tree_flatten_with_path(dict(bound))[0]}
    known = {name: value for name, value in known.items() if isinstance(value, torch.Tensor)}
    names: dict[str, str] = {}
    for argument, value in inputs.items():
        for name, tensor in known.items():
            same = isinstance(value, torch.Tensor) and value.shape == tensor.shape and value.dtype == tensor.dtype
            if same and name not in names.values() and torch.equal(value, tensor):
                names[argument] = name
                break
    return names


def _step_text(key: Any) -> str:
    """One step of the way to a tensor: the key of a dict, the place in a list, the name of a field."""
    return str(next((value for name in ("key", "idx", "name") if (value := getattr(key, name, None)) is not None), key))


def _optimised(subject: Subject, settings: Settings) -> str:
    """What the written model has in it of the stage 'optimise', in a sentence."""
    said = [f"weights in {settings.weights}"] if settings.weights != "same" else []
    said += [f"{count} weights in formats of their own"] if (count := len(settings.overrides)) else []
    said += [f"math fidelity {settings.math_fidelity}"] if settings.math_fidelity else []
    said += ["results in L1 where they fit"] if settings.memory == "auto" else ["results in DRAM"]
    said += ["normalisations in block shards"] if settings.sharding != "interleaved" else []
    said += ["program configs of products in the calls"] if settings.products == "configured" else []
    head = f"As optimised for {subject.bringup.device} (optimise.md): {', '.join(said)}."
    return textwrap.fill(f"{head} ttnn_trace.py runs it in a trace with two queues.", 110)


def _outputs(subject: Subject, runs: list[GraphRun], tensors: Mapping[str, torch.Tensor]) -> str:
    """A function that gives the outputs the form that torch's have; nothing where one graph is not the whole model."""
    if len(runs) != 1:
        return ""
    program = runs[0].variant.compiled.program
    values = {i: tensors[f"graph0.output.{i}"] for i, o in enumerate(program.outputs) if isinstance(o, Ref)}
    form = _form(subject.on_device(subject.call, subject.optimised), values)
    return OUTPUTS.format(form=form) if form is not None and form != "values[0]" else ""


def _form(value: Any, values: Mapping[int, torch.Tensor]) -> str | None:
    """A result as Python, its tensors as places among the graph's outputs; None where one is not among them."""
    if isinstance(value, torch.Tensor):
        alike = (i for i, t in values.items() if t.shape == value.shape and t.dtype == value.dtype)
        place = next((i for i in alike if torch.equal(values[i].nan_to_num(), value.nan_to_num())), None)
        return None if place is None else f"values[{place}]"
    if isinstance(value, Mapping):
        inner = {str(k): _form(v, values) for k, v in value.items() if v is not None}
        return None if None in inner.values() else "{" + ", ".join(f"{k!r}: {v}" for k, v in inner.items()) + "}"
    if isinstance(value, (list, tuple)):
        parts = [_form(v, values) for v in value]
        return None if None in parts else "(" + "".join(f"{p}, " for p in parts).rstrip() + ")"
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else None


def _tensors(subject: Subject, runs: list[GraphRun], graphs: list[GraphSource]) -> dict[str, torch.Tensor]:
    """Parameters by their names in the model, constants, and what each graph was given and gave."""
    tensors: dict[str, Any] = {}
    for number, (run, graph) in enumerate(zip(runs, graphs)):
        program = graph.program
        loaded = run.variant.ready(run.arguments)
        for weight in program.weights:
            tensors[graph.names[weight]] = loaded.value(weight)
        for constant in program.constants:
            tensors[f"{program.name}.{constant.name}"] = constant_tensor(constant, program.specs[constant.name])
        inputs = run.inputs
        tensors |= {f"graph{number}.input.{i}": t for i, t in enumerate(inputs) if isinstance(t, torch.Tensor)}
        for index, (output, value) in enumerate(zip(program.outputs, loaded.run(inputs).outputs)):
            if isinstance(output, Ref):
                tensors[f"graph{number}.output.{index}"] = value
    return {name: t.detach().clone(memory_format=torch.contiguous_format) for name, t in tensors.items()}


def _write(
    subject: Subject, path: Path, graphs: list[GraphSource], settings: Settings, outputs: str
) -> tuple[WrittenClasses, list[Visit]]:
    """`ttnn_model.py`: its classes, and the visits of each graph as written."""
    written = WrittenClasses()
    names, roots = zip(*(write_graph(graph, written) for graph in graphs))
    chip = subject.bringup.device.partition(":")[2]
    text = HEAD.format(
        name=in_words(subject.bringup.workload.name),
        options=f', chip="{chip}"' if chip not in ("", "n150") else "",
        given=GIVEN if needs_given(g.program for g in graphs) else "",
        optimised=_optimised(subject, settings),
        sizes=READ_SIZES if graphs[0].batch else FIXED_SIZES,
        sized="".join(
            text
            for name, text in (("at_shape(", AT_SHAPE), ("at_batch(", AT_BATCH))
            if any(name in body for body in written.order)
        ),
        compute=COMPUTE.format(fidelity=settings.math_fidelity) if settings.math_fidelity else "",
    )
    path.write_text(text + "\n\n\n".join(written.order) + TAIL.format(graphs=", ".join(names), outputs=outputs))
    return written, list(roots)


def _obstacle(path: Path, copies: int = 1) -> str:
    """Run `ttnn_model.py` as a user would; the last thing it says where it fails."""
    command = shlex.join([sys.executable, str(path), *(["--copies", str(copies)] if copies > 1 else [])])
    with tempfile.TemporaryFile("w+") as output:
        outcome = isolate.run_command(
            command, output=output, timeout_s=900, environment={"PYTHONDONTWRITEBYTECODE": "1"}
        )
        output.seek(0)
        lines = output.read().strip().splitlines() or [outcome.story]
    return "" if outcome.ok else lines[-1]


def _tested(
    subject: Subject, runs: list[GraphRun], graphs: list[GraphSource], roots: list[Visit], written: WrittenClasses
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
            outputs = eager.get(visit.path)
            if outputs is not None and len(face.gives) == 1 and _agree(exact[face.gives[0]], outputs):
                against = "torch"
                exact[face.gives[0]] = outputs.reshape(exact[face.gives[0]].shape)
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
    by_module: dict[str, list[Any]] = {}
    hooks = [
        module.register_forward_hook(lambda _, __, out, path=path: by_module.setdefault(path, []).append(out))
        for path, module in subject.model.named_modules()
    ]
    try:
        with undisturbed(subject.model, subject.call), torch.no_grad():
            subject.model(*subject.call[0], **subject.call[1])
    finally:
        for hook in hooks:
            hook.remove()
    outputs = {}
    for path, results in by_module.items():
        tensors = [t for t in tree_leaves(results) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if len(results) == 1 and tensors:
            outputs[path] = tensors[0].detach().clone()
    return outputs


def _agree(exact: torch.Tensor, eager: torch.Tensor) -> bool:
    if exact.numel() != eager.numel() or not exact.is_floating_point():
        return False
    difference = (exact.reshape(eager.shape) - eager).double().norm()
    return bool(difference <= AGREES * eager.double().norm())


def _row(tested: Tested, graphs: list[GraphSource], off: str | None, own_least: float | None) -> str:
    program = graphs[tested.graph].program
    takes = ", ".join(_value(tested.graph, n, program) for n in tested.takes)
    gives = ", ".join(repr(f"{tested.graph}:{n}") for n in tested.gives)
    known = f", {off!r}" if off else f", least={own_least}" if own_least is not None else ""
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
