"""A model as a flat list of ATen calls with the value of each, of which any part is a model again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class Use:
    """A value of the list, by its name."""

    name: str


@dataclass(frozen=True)
class CallSite:
    """One call. Several results are named one by one; those that nobody uses have no name."""

    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[str, ...]
    several: bool = False
    """Whether it gives a tuple, whose parts `outputs` are."""

    @property
    def uses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(u.name for u in tree_leaves((self.args, dict(self.kwargs))) if _is_use(u)))


def _is_use(value: Any) -> bool:
    return isinstance(value, Use)


@dataclass(frozen=True)
class CallGraph:
    """Ops in order, and the tensors that they start from."""

    ops: tuple[CallSite, ...]
    inputs: Mapping[str, torch.Tensor]
    weights: frozenset[str] = frozenset()
    """Of the inputs, those that are the model's own: parameters, buffers, and what is made of them alone."""

    @property
    def given(self) -> list[torch.Tensor]:
        """What the model is called with."""
        return [t for name, t in self.inputs.items() if name not in self.weights]

    @property
    def outputs(self) -> tuple[str, ...]:
        """What nobody in the list uses."""
        used = {n for op in self.ops for n in op.uses}
        return tuple(n for op in self.ops for n in op.outputs if n and n not in used)

    def module(self) -> torch.fx.GraphModule:
        """The ops as a model that takes what is given in its order."""
        graph, root = torch.fx.Graph(), torch.nn.Module()
        nodes: dict[str, Any] = {}
        for name in self.inputs:
            if name not in self.weights:
                nodes[name] = graph.placeholder(f"given_{len(nodes)}")
        for number, name in enumerate(n for n in self.inputs if n in self.weights):
            root.register_buffer(f"own_{number}", self.inputs[name])
            nodes[name] = graph.get_attr(f"own_{number}")
        for op in self.ops:
            args, kwargs = tree_map(lambda a: nodes[a.name] if _is_use(a) else a, (op.args, dict(op.kwargs)))
            node = graph.call_function(op.target, tuple(args), kwargs)
            if op.several:
                taken = [(i, n) for i, n in enumerate(op.outputs) if n]
                nodes.update((n, graph.call_function(operator.getitem, (node, i))) for i, n in taken)
            else:
                nodes[op.outputs[0]] = node
        graph.output(tuple(nodes[n] for n in self.outputs))
        return torch.fx.GraphModule(root, graph)

    def values(self) -> dict[str, Any]:
        """Every value of one run."""
        values: dict[str, Any] = dict(self.inputs)
        with torch.no_grad():
            for op in self.ops:
                args, kwargs = tree_map(lambda a: values[a.name] if _is_use(a) else a, (op.args, dict(op.kwargs)))
                result = op.target(*args, **kwargs)
                values.update(zip(op.outputs, result) if op.several else [(op.outputs[0], result)])
        return values


def flatten(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallGraph:
    """One call of a model as ATen calls; parameters, buffers and tensors it is given are the inputs."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    tensors = {n: t.detach().clone() for n, t in state.items()}
    leaves_in, structure = torch.utils._pytree.tree_flatten((tuple(args), dict(kwargs)))
    places = [i for i, leaf in enumerate(leaves_in) if isinstance(leaf, torch.Tensor)]

    def call(weights: dict[str, torch.Tensor], own: list[torch.Tensor]) -> Any:
        leaves = list(leaves_in)
        for place, tensor in zip(places, own):
            leaves[place] = tensor
        a, k = torch.utils._pytree.tree_unflatten(leaves, structure)
        out = torch.func.functional_call(model, weights, a, k)
        return [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]

    own = [leaves_in[i].detach().clone() for i in places]
    with torch.no_grad():
        gm = make_fx(torch.func.functionalize(call), tracing_mode="real")(tensors, own)
    return _from_fx(gm, [*tensors.values(), *own], len(tensors))


def _from_fx(gm: torch.fx.GraphModule, example_inputs: Sequence[torch.Tensor], num_weights: int) -> CallGraph:
    inputs: dict[str, torch.Tensor] = {}
    weights: set[str] = set()
    parts: dict[str, dict[int, str]] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            weights.update([node.name] if len(inputs) < num_weights else [])
            inputs[node.name] = example_inputs[len(inputs)]
        elif node.op == "get_attr":
            inputs[node.name] = operator.attrgetter(str(node.target))(gm)
            weights.add(node.name)
        elif node.target is operator.getitem and node.users:
            parts.setdefault(node.args[0].name, {})[node.args[1]] = node.name
    ops = []
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or not node.users:
            continue
        args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: Use(n.name))
        several = len(node.target._schema.returns) > 1 or node.name in parts
        taken = parts.get(node.name, {})
        outputs = tuple(taken.get(i, "") for i in range(max(taken, default=0) + 1)) if several else (node.name,)
        ops.append(CallSite(node.target, tuple(args), dict(kwargs), outputs, several))
    return CallGraph(tuple(ops), inputs, frozenset(weights))


def part(calls: CallGraph, chosen: Sequence[int], values: Mapping[str, Any]) -> CallGraph:
    """Some ops alone: what they read of others is an input, with the value it had."""
    ops = tuple(calls.ops[i] for i in sorted(chosen))
    computed = {n for op in ops for n in op.outputs}
    needed = dict.fromkeys(n for op in ops for n in op.uses if n not in computed)
    fixed = {n: values[n] for n in needed if not isinstance(values[n], torch.Tensor)}
    if fixed:
        ops = tuple(_with_constants(op, fixed) for op in ops)
    own = set(calls.weights)
    for op in calls.ops:
        own.update(op.outputs if op.uses and own.issuperset(op.uses) else ())
    inputs = {n: values[n] for n in needed if n not in fixed}
    return CallGraph(ops, inputs, frozenset(own.intersection(inputs)))


def _with_constants(op: CallSite, fixed: Mapping[str, Any]) -> CallSite:
    args, kwargs = tree_map(
        lambda a: fixed[a.name] if _is_use(a) and a.name in fixed else a, (op.args, dict(op.kwargs))
    )
    return replace(op, args=args, kwargs=kwargs)


def fewest(count: int, fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Delta debugging: a part of `range(count)` that fails, none of whose elements can go. First the shortest run of
    neighbours by halving, then pieces of it taken out, ever smaller ones."""
    kept = list(range(count))
    pieces = 2
    while len(kept) > 1:
        size = -(-len(kept) // pieces)
        cuts = [kept[i : i + size] for i in range(0, len(kept), size)]
        rests = [[k for k in kept if k not in set(cut)] for cut in cuts] if pieces > 2 else []
        smaller = next((c for c in (*cuts, *rests) if len(c) < len(kept) and fails(c)), None)
        if smaller is not None:
            pieces = 2 if smaller in cuts else max(pieces - 1, 2)
            kept = smaller
        elif size == 1:
            break
        else:
            pieces = min(len(kept), pieces * 2)
    return kept
