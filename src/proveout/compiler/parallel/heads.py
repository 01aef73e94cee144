"""Tensor parallel for decoders: linears are cut by columns, and what follows stays cut by heads, the cache included.

A value stays cut for as long as the rules of a batch (`rules`) allow it, with heads in place of rows; where an op needs
all of it, the chips gather it. The graph is written for one chip: weights and cache have a chip's share of the heads,
and a gathering is a `cat` of as many copies as there are chips, which `gathered` makes an all-gather of.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from proveout.compiler.lower import bind
from proveout.compiler.parallel.call import Demand, Mixes, OpSplit, ShardedOp, Split, change_arguments, shape_of
from proveout.compiler.parallel.rules import makes_anew, rule_for
from proveout.compiler.parallel.spread import NotSpread
from proveout.program import Program, Ref, Step
from proveout.types import TILE

aten = torch.ops.aten
GATHER = "all_gather"
"""What the nodes that gather are called."""
SDPA = "_scaled_dot_product_flash_attention_for_cpu"


@dataclass(frozen=True)
class HeadSplit:
    """A graph for one chip's share of the heads."""

    graph: GraphModule
    splits: Mapping[str, tuple[Split, ...]]
    sizes: Mapping[str, Mapping[str, Any]]
    cut: frozenset[str]
    """Weights and states that each chip holds a share of."""
    chips: int
    num_linears: int
    num_states: int
    num_gathers: int

    @property
    def batch(self) -> int:
        return self.chips

    @property
    def share(self) -> int:
        return 1

    def __str__(self) -> str:
        kept = f", {self.num_states} tensors of the cache by heads" if self.num_states else ", the cache whole on each"
        linears = "1 linear" if self.num_linears == 1 else f"{self.num_linears} linears"
        return f"tensor parallel: {linears} by columns{kept} over {self.chips} chips, {self.num_gathers} gatherings"


def split_heads(gm: GraphModule, weights: frozenset[int], state: Mapping[int, int], chips: int) -> HeadSplit | str:
    """The graph cut over these chips, or why it cannot be."""
    reasons = []
    for with_states in (True, False):
        try:
            return _Cutter(gm, weights, state, chips, with_states).split()
        except Mixes as reason:
            reasons.append(str(reason))
    return reasons[-1]


def gathered(program: Program, split: HeadSplit) -> Program:
    """The Program in which chips gather where one chip's stood for all."""

    def step_of(step: Step) -> Step:
        if step.kernel != "ttnn.concat" or not step.origin.node.startswith(GATHER):
            return step
        attrs = (("input_tensor", Ref(step.uses[0])), ("dim", step.attr("dim")))
        return replace(step, kernel="ttnn.all_gather", attrs=attrs)

    setup, body = (tuple(map(step_of, steps)) for steps in (program.setup, program.body))
    if sum(step.kernel == "ttnn.all_gather" for step in (*setup, *body)) != split.num_gathers:
        raise NotSpread("a gathering is not on the chips any more")
    return replace(program, setup=setup, body=body)


class _Cutter:
    def __init__(
        self, gm: GraphModule, weights: frozenset[int], state: Mapping[int, int], chips: int, with_states: bool
    ) -> None:
        self.gm, self.chips, self.state = gm, chips, state
        self.places = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.weights = {n for i, n in enumerate(self.places) if i in weights}
        self.cut: dict[Node, int] = _columns(gm, self.weights, chips)
        self.num_linears = len({n for n in self.cut if len(shape_of(n)) > 1})
        if not self.cut:
            raise Mixes("no linear has whole tiles of columns for each chip")
        self.states = {
            self.places[i]: 1
            for i in state
            if with_states and len(shape_of(self.places[i])) == 4 and shape_of(self.places[i])[1] % chips == 0
        }
        self.cut |= self.states
        self.graph, self.mode = Graph(), FakeTensorMode(allow_non_fake_inputs=True)
        self.new: dict[Node, Node] = {}
        self.known: dict[Node, Split | tuple[Split, ...]] = {}
        """Of the old graph's nodes."""
        self.splits: dict[str, tuple[Split, ...]] = {}
        self.sizes: dict[str, Mapping[str, Any]] = {}
        self.whole: dict[Node, Node] = {}
        self.prepared = self.weights - self.states.keys()
        """Weights, and what is made of them alone."""
        self.num_gathers = 0

    def split(self) -> HeadSplit:
        for node in self.gm.graph.nodes:
            if node.op == "output":
                self._check_states(node)
                self.graph.output(map_arg(node.args[0], self.new.__getitem__)).meta = dict(node.meta)
            elif node.op != "call_function":
                self._source(node)
            elif node.target is operator.getitem:
                self._item(node)
            else:
                self._call(node)
        module = GraphModule(self.gm, self.graph)
        module.meta = dict(self.gm.meta)
        names = frozenset(self.new[n].name for n in self.cut)
        return HeadSplit(
            module, self.splits, self.sizes, names, self.chips, self.num_linears, len(self.states), self.num_gathers
        )

    def _check_states(self, output: Node) -> None:
        results: Any = output.args[0]
        for position, index in self.state.items():
            value, place = results[index], self.places[position]
            if self.known.get(value) != self.states.get(place):
                raise Mixes(f"{place.name} of the cache and its new value are not cut alike")

    def _source(self, node: Node) -> None:
        new = self.graph.node_copy(node)
        dim = self.cut.get(node)
        if dim is not None:
            new.meta["val"] = self._piece(node.meta["val"], dim)
        self._note(node, new, (dim,))

    def _item(self, node: Node) -> None:
        parts = self.known[node.args[0]]  # type: ignore[index]
        assert isinstance(parts, tuple)
        new = self.graph.node_copy(node, self.new.__getitem__)
        new.meta["val"] = new.args[0].meta["val"][node.args[1]]  # type: ignore[union-attr,index]
        self._note(node, new, (parts[node.args[1]],))  # type: ignore[index]

    def _call(self, node: Node) -> None:
        """The op on shares where a rule allows that, on all where none does."""
        operands = dict(self.new)
        known = dict(self.known) if any(self.known.get(n) is not None for n in node.all_input_nodes) else self.known
        while True:
            try:
                outcome = self._outcome(node, known)
                break
            except Demand as demand:
                if (copy := self._cut_copy(demand.node, demand.dim)) is not None:
                    operands[demand.node], known[demand.node] = copy, demand.dim
                    continue
            except (Mixes, AssertionError, LookupError, TypeError, ValueError, StopIteration):
                pass
            cut = [n for n in node.all_input_nodes if known.get(n) is not None]
            for operand in [n for n in cut if n not in self.prepared] or cut:  # weights stay cut where that helps
                whole = self.known[operand] is None  # and was cut for this op alone
                operands[operand], known[operand] = self.new[operand] if whole else self._gather(operand), None
        new = self.graph.node_copy(node, operands.__getitem__)
        change_arguments(new, {name: change(1) for name, change in outcome.changes.items()})
        self.sizes[new.name] = {name: change(self.chips) for name, change in outcome.changes.items()}
        if set(outcome.splits) != {None}:
            args, kwargs = map_arg((new.args, new.kwargs), lambda n: n.meta["val"])
            with self.mode:
                new.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]
            self._check(node, new, outcome.splits)
        self._note(node, new, outcome.splits)

    def _outcome(self, node: Node, known: Mapping[Node, Any]) -> OpSplit:
        op: Any = node.target
        values = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else [node.meta["val"]]
        shapes = tuple(tuple(v.shape) if isinstance(v, torch.Tensor) else () for v in values)
        defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
        call = ShardedOp({**defaults, **bind(node, None)}, shapes, known, self.chips)
        if makes_anew(op) or all(call.split(n) is None for n in node.all_input_nodes):
            return OpSplit(tuple(None for _ in shapes))
        name = op._schema.name.removeprefix("aten::")
        rule = {SDPA: _attention, "linear": _linear}.get(name) or rule_for(op)
        if rule is None or (torch.Tag.nondeterministic_seeded in op.tags and call.args.get("dropout_p") != 0):
            raise Mixes("no rule")
        return rule(call)

    def _cut_copy(self, node: Node, dim: int) -> Node | None:
        """A whole value made anew with a chip's share of one dimension, where all of that dimension is the same."""
        if node.target is not aten.expand.default or self.known.get(node) is not None:
            return None
        source, sizes = node.args[0], list(node.args[1])  # type: ignore[arg-type]
        own = dim - (len(sizes) - len(shape_of(source)))  # type: ignore[arg-type]
        if own >= 0 and shape_of(source)[own] != 1:  # type: ignore[arg-type]
            return None
        sizes[dim] = shape_of(node)[dim] // self.chips
        new = self.graph.call_function(aten.expand.default, (self.new[source], sizes))  # type: ignore[index]
        new.meta = {**node.meta, "val": self._piece(node.meta["val"], dim)}
        self.splits[new.name] = (dim,)
        self.sizes[new.name] = {"size": [*sizes[:dim], shape_of(node)[dim], *sizes[dim + 1 :]]}
        return new

    def _gather(self, node: Node) -> Node:
        if node not in self.whole:
            dim, piece = self.known[node], self.new[node]
            new = self.graph.create_node(
                "call_function", aten.cat.default, ([piece] * self.chips, dim), name=f"{GATHER}_{node.name}"
            )
            new.meta = {**node.meta}
            self.splits[new.name], self.sizes[new.name] = (None,), {}
            self.whole[node] = new
            self.num_gathers += 1
        return self.whole[node]

    def _note(self, node: Node, new: Node, splits: tuple[Split, ...]) -> None:
        self.new[node] = new
        if node.all_input_nodes and self.prepared.issuperset(node.all_input_nodes):
            self.prepared.add(node)
        single = isinstance(node.meta.get("val"), torch.Tensor) or node.op != "call_function"
        self.known[node] = splits[0] if single else splits
        self.splits[new.name] = splits

    def _piece(self, value: torch.Tensor, dim: int) -> torch.Tensor:
        shape = [n // self.chips if d == dim else n for d, n in enumerate(value.shape)]
        with self.mode:
            return torch.empty(shape, dtype=value.dtype, device=value.device)

    def _check(self, node: Node, new: Node, splits: tuple[Split, ...]) -> None:
        old, now = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (node.meta["val"], new.meta["val"]))
        for a, b, split in zip(old, now, splits):
            wanted = tuple(n // self.chips if d == split else n for d, n in enumerate(a.shape))
            assert tuple(b.shape) == wanted, f"{node.name}: {tuple(b.shape)} and not {wanted}"


def _columns(gm: GraphModule, weights: set[Node], chips: int) -> dict[Node, int]:
    """Weights and biases of linears that can be cut by columns, each with its dimension."""
    cut: dict[Node, int] = {}
    for node in gm.graph.nodes:
        name = node.target._schema.name if isinstance(node.target, torch._ops.OpOverload) else ""
        places = {"aten::mm": (None, 1), "aten::addmm": (0, 2), "aten::linear": (2, 1)}.get(name)
        if places is None or len(shape_of(node)) < 2 or shape_of(node)[-1] % (chips * TILE):
            continue
        operands: list[Any] = [node.args[i] if i is not None and i < len(node.args) else None for i in places]
        bias, right = operands
        dim = 0 if name == "aten::linear" else 1
        while right not in weights and right.target in (aten.permute.default, aten.t.default) and len(right.users) == 1:
            right, dim = right.args[0], 1 - dim
        if right not in weights or len(right.users) > 1 or (bias is not None and _shared(bias, weights)):
            continue
        cut[right] = dim
        if bias is not None:
            cut[bias] = 0
    return cut


def _shared(bias: Any, weights: set[Node]) -> bool:
    return bias not in weights or len(bias.users) > 1 or len(shape_of(bias)) != 1


def _linear(call: ShardedOp) -> OpSplit:
    if call.split(call.args["input"]) is not None or call.split(call.args["weight"]) != 0:
        raise Mixes("it sums over what is cut")
    return call.everywhere(len(call.out) - 1)


def _attention(call: ShardedOp) -> OpSplit:
    for name in ("query", "key", "value"):
        call.require(call.args[name], 1)
    rows, columns = shape_of(call.args["query"])[-2], shape_of(call.args["key"])[-2]
    call.meet(call.args.get("attn_mask"), 1, (*call.out[:-2], rows, columns))
    return call.everywhere(1)
