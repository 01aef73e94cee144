"""Leaves each graph as it is after every pass in a folder: as text, and as boxes that a report can draw."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.coding import to_json
from proveout.compiler.lower import origin_of
from proveout.kernels.row import Kind
from proveout.kernels.table import dtype_name, kind_of
from proveout.program import DEALLOCATE, Program, Step, refs
from proveout.types import GraphNode, Origin, Place, TensorSpec, short_dtype

Observe = Callable[[str, GraphModule | Program], None]
"""Called with a pass's name and what it gave."""

LAYOUT: tuple[Kind, ...] = ("layout", "cast", "memory", "view", "order")
"""Kinds of Steps that only put the same numbers differently."""


def unobserved(name: str, result: GraphModule | Program) -> None:
    """The observer of those who look at nothing."""


class DumpFolder:
    """A folder with a folder for each graph: `03-cancel.txt` to read, `03-cancel.json` to draw."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._taken: dict[str, int] = {}

    def graph(self, name: str, weights: frozenset[int]) -> Observe:
        """The observer of one compilation; a graph compiled again, for other sizes, gets a folder of its own."""
        count = self._taken[name] = self._taken.get(name, 0) + 1
        folder = self.folder / (name if count == 1 else f"{name}-{count}")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("[0-9][0-9]-*.*"):
            old.unlink()  # an earlier dump may have had more passes
        number = 0

        def observe(stage: str, result: GraphModule | Program) -> None:
            nonlocal number
            is_program = isinstance(result, Program)
            nodes = program_nodes(result) if is_program else graph_nodes(result, weights)
            path = folder / f"{number:02}-{stage.replace('_', '-')}"
            path.with_suffix(".txt").write_text((str(result) if is_program else graph_text(result)) + "\n")
            path.with_suffix(".json").write_text(json.dumps(to_json(nodes)))
            number += 1

        return observe


def program_nodes(program: Program) -> tuple[GraphNode, ...]:
    """A Program's body as boxes. What setup, weights and constants give is there at every call and is not drawn."""
    box = {name: name for name in program.inputs}
    used = {name for step in program.body for name in step.uses} | program.results
    nodes = [
        GraphNode(name, name, "input", _spec_text(program.specs[name]), f"input %{name}: {program.specs[name]}")
        for name in program.inputs
        if name in used
    ]
    for number, step in enumerate(program.body):
        if step.kernel == DEALLOCATE:
            continue
        name = step.outputs[0] if step.outputs else f"step {number}"
        box |= dict.fromkeys(step.outputs, name)
        note = _spec_text(program.specs[step.outputs[0]]) if step.outputs else ""
        uses = tuple(dict.fromkeys(box[n] for n in step.uses if n in box))
        title = "\n".join([program.format(step), *_origin_lines(step.origin)])
        nodes.append(GraphNode(name, step.kernel, _place(step, program), note, title, uses))
    results = tuple(dict.fromkeys(box[r.name] for r in refs(program.outputs) if r.name in box))
    return (*nodes, GraphNode("output", "output", "output", f"{len(program.outputs)} values", "", results))


def graph_nodes(gm: GraphModule, weights: frozenset[int] = frozenset()) -> tuple[GraphNode, ...]:
    """An ATen graph as boxes, without weights, constants and `getitem`. `weights` are positions of placeholders."""
    box: dict[Node, str] = {}
    nodes = []
    position = -1
    for node in gm.graph.nodes:
        position += node.op == "placeholder"
        if node.op == "get_attr" or (node.op == "placeholder" and (position in weights or not node.users)):
            continue
        if node.target is operator.getitem and node.args[0] in box:
            box[node] = box[node.args[0]]
            continue
        uses = tuple(dict.fromkeys(box[n] for n in node.all_input_nodes if n in box))
        place: Place = {"placeholder": "input", "output": "output"}.get(node.op, "device")  # type: ignore[assignment]
        label = str(node.target) if node.op == "call_function" else node.name
        title = "\n".join([_node_text(node), *_origin_lines(origin_of(node))])
        nodes.append(GraphNode(node.name, label, place, _value_text(node.meta.get("val")), title, uses))
        box[node] = node.name
    return tuple(nodes)


def graph_text(gm: GraphModule) -> str:
    """An ATen graph, one node a line, as Programs print their Steps."""
    return "\n".join(map(_node_text, gm.graph.nodes))


def _node_text(node: Node) -> str:
    if node.op == "output":
        return f"return {node.args[0]}"
    head = f"%{node.name}: {_value_text(node.meta.get('val'))} = "
    if node.op != "call_function":
        return f"{head}{node.op}"
    arguments = [*map(str, node.args), *(f"{k}={v}" for k, v in node.kwargs.items())]
    module = origin_of(node).module
    target = node.target if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "__name__", "")
    return f"{head}{target}({', '.join(arguments)})" + (f"  # {module}" if module else "")


def _place(step: Step, program: Program) -> Place:
    if step.on_host and program.target == "ttnn":
        return "host"
    if step.is_transfer:
        return "transfer"
    return "layout" if kind_of(step) in LAYOUT else "device"


def _origin_lines(origin: Origin) -> list[str]:
    facts = (("from", origin.aten), ("in", origin.module), ("at", origin.source))
    return [f"{word} {text}" for word, text in facts if text]


def _spec_text(spec: TensorSpec) -> str:
    return str(spec).replace(" host", "")


def _value_text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{short_dtype(dtype_name(value.dtype))}[{','.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(_value_text, value)) + ")"
    return "" if value is None else str(value)
