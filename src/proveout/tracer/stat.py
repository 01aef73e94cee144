"""A torch.compile backend that writes down the ATen graphs, forward and backward, and runs them unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from proveout.tracer import raw


@dataclass(eq=False)
class Stat:
    """`torch.compile(model, backend=Stat())`: the graphs as PyTorch gives them, without decompositions."""

    graphs: list[raw.TracedGraph] = field(default_factory=list)

    def __call__(self, gm: GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        forward, backward = self._compiler("forward"), self._compiler("backward")
        return aot_autograd(fw_compiler=forward, bw_compiler=backward)(gm, example_inputs)

    def _compiler(self, phase: raw.Phase) -> Callable[[GraphModule, list[Any]], Any]:
        def compile_one(gm: GraphModule, example_inputs: list[Any]) -> Any:
            calls = [n for n in gm.graph.nodes if n.op == "call_function" and not _is_getitem(n)]
            self.graphs.append(raw.TracedGraph(phase, tuple(map(_node, calls))))
            return make_boxed_func(gm.forward)

        return compile_one


def _is_getitem(node: Node) -> bool:
    """Picking one of an op's several outputs is no op."""
    return getattr(node.target, "__module__", "") == "_operator"


def _node(node: Node) -> raw.Node:
    nodes = [leaf for leaf in tree_leaves((node.args, node.kwargs)) if isinstance(leaf, Node)]
    inputs = [tensor for one in nodes for tensor in _tensors(one)]
    return raw.Node(node.name, str(node.target), tuple(inputs), tuple(_tensors(node)))


def _tensors(node: Node) -> list[raw.TracedTensor]:
    return [tensor_of(value) for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def tensor_of(value: torch.Tensor) -> raw.TracedTensor:
    """Symbolic sizes at the value that they had in the traced call."""
    shape = tuple(getattr(getattr(size, "node", None), "hint", None) or int(size) for size in value.shape)
    numel = 1
    for size in shape:
        numel *= size
    return raw.TracedTensor(shape, str(value.dtype).removeprefix("torch."), numel * value.element_size())
