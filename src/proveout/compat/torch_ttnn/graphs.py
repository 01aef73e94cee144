"""A Program as the graph that the original's users look into: `option._out_fx_graphs[0].nodes`."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import reduce
from typing import Any

import torch
from torch.fx import Graph, Node

from proveout import ttnn
from proveout.compat.torch_ttnn.tracing import op_type
from proveout.kernels.table import torch_dtype
from proveout.program import Arg, Construct, Name, Program, Ref, Step, refs
from proveout.types import TensorSpec


class ProgramGraph(Graph):
    """A graph to look into; what runs is the Program."""

    def print_tabular(self) -> None:
        """As PyTorch's, without the package that it needs."""
        titles = ("opcode", "name", "target", "args", "kwargs")
        rows = [(n.op, n.name, _target_text(n), _text(n.args), _text(dict(n.kwargs))) for n in self.nodes]
        widths = [max(len(cell) for cell in column) for column in zip(titles, *rows)]
        for cells in (titles, tuple("-" * width for width in widths), *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


def _target_text(node: Node) -> str:
    return op_type(node) if node.op == "call_function" else str(node.target)


def _text(arg: Any) -> str:
    """As Python shows it, but objects that a call makes as the code that makes them."""
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{name!r}: {_text(value)}" for name, value in arg.items()) + "}"
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(_text, arg)) + ("," if len(arg) == 1 else "") + ")"
    return str(arg) if isinstance(arg, (Name, Construct)) else repr(arg)


def fx_graph(program: Program) -> ProgramGraph:
    """Every Step as a node whose target is the ttnn function, or the ATen op on the host, in the Program's order."""
    graph = ProgramGraph()
    nodes: dict[str, Node] = {}
    for name in (*program.inputs, *program.weights):
        nodes[name] = _described(graph.placeholder(name), program.specs[name])
    for constant in program.constants:
        node = graph.create_node("get_attr", constant.name, name=constant.name)
        nodes[constant.name] = _described(node, program.specs[constant.name])
    for step in program.steps:
        args, kwargs = _arguments(step, nodes)
        node = graph.create_node("call_function", target_of(step.kernel), args, kwargs)
        node.meta["origin"] = step.origin
        if len(step.outputs) == 1:
            nodes[step.outputs[0]] = _described(node, program.specs[step.outputs[0]])
            continue
        node.meta["val"] = tuple(_value(program.specs[name]) for name in step.outputs)
        for index, name in enumerate(step.outputs):
            nodes[name] = _described(graph.call_function(operator.getitem, (node, index)), program.specs[name])
    graph.output(_filled(program.outputs, nodes))
    return graph


def target_of(kernel: str) -> Any:
    """The object that a kernel's name stands for: `ttnn.add`, `torch.ops.aten.sort.default`."""
    root, path = (ttnn, kernel.split(".")[1:]) if kernel.startswith("ttnn.") else (torch.ops, kernel.split("."))
    return reduce(getattr, path, root)


def _arguments(step: Step, nodes: Mapping[str, Node]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands by place, up to the first argument that holds none; the rest by name."""
    args: list[Any] = []
    rest = list(step.attrs)
    while rest and (any(refs(rest[0][1])) or (args and rest[0][0] == "input_tensor_b")):
        args.append(_filled(rest.pop(0)[1], nodes))
    return tuple(args), {name: _filled(arg, nodes) for name, arg in rest}


def _filled(arg: Arg, nodes: Mapping[str, Node]) -> Any:
    if isinstance(arg, Ref):
        return nodes[arg.name]
    if isinstance(arg, Name):
        return _named(arg)
    return tuple(_filled(a, nodes) for a in arg) if isinstance(arg, tuple) else arg


def _named(arg: Name) -> Any:
    """The object itself where ours has it (`ttnn.bfloat16`, `torch.float32`); else the name, such as `device`."""
    root, _, path = arg.text.partition(".")
    home = {"ttnn": ttnn, "torch": torch}.get(root)
    try:
        return arg if home is None else reduce(getattr, path.split("."), home)
    except AttributeError:
        return arg


def _described(node: Node, spec: TensorSpec) -> Node:
    node.meta["val"] = _value(spec)
    return node


def _value(spec: TensorSpec) -> torch.Tensor:
    return torch.empty(spec.shape, dtype=torch_dtype(spec.dtype), device="meta")
