"""Cuts a functional ATen graph along its batch, for several chips that each run it on their own rows.

Every value is proven, op by op, to be whole on each chip or cut along one dimension (`rules`). Then the graph is
made again for one chip's share of the batch: sizes in arguments shrink, shapes follow, and each is checked against
what the proof says.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node

from proveout.compiler.lower import attribute, bind, origin_of
from proveout.compiler.parallel.call import Demand, Mixes, OpSplit, ShardedOp, Split, change_arguments, shape_of
from proveout.compiler.parallel.rules import force, makes_anew, rule_for

Splits = Mapping[Node, Split | tuple[Split, ...]]


@dataclass(frozen=True)
class BatchSplit:
    """A graph for one chip's share of the batch, and how the shares make up the whole."""

    graph: GraphModule
    splits: Mapping[str, tuple[Split, ...]]
    """How each node's results are cut, by the node's name."""
    sizes: Mapping[str, Mapping[str, Any]]
    """By node, the arguments that count rows, for all rows that the chips compute together."""
    batch: int
    chips: int

    @property
    def share(self) -> int:
        return -(-self.batch // self.chips)

    def __str__(self) -> str:
        filled = self.share * self.chips - self.batch
        rest = f" ({filled} repeated to fill them up)" if filled else ""
        rows = "1 row" if self.share == 1 else f"{self.share} rows"
        return f"data parallel: a batch of {self.batch} over {self.chips} chips, {rows} each{rest}"


def split_batch(gm: GraphModule, weights: frozenset[int], chips: int) -> BatchSplit | str:
    """The graph cut over these chips, or why it cannot be."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    tensors = [
        n for i, n in enumerate(placeholders) if i not in weights and isinstance(n.meta.get("val"), torch.Tensor)
    ]
    tensors = [n for n in tensors if shape_of(n)]
    if not tensors:
        return "no input has a batch"
    reasons = []
    for inputs, batch in _candidates(tensors):
        try:
            return _cut(gm, inputs, batch, chips)
        except Mixes as reason:
            reasons.append(str(reason))
    return reasons[0] if reasons else "the batch is 1"


def _candidates(tensors: list[Node]) -> Iterator[tuple[set[Node], int]]:
    """Which inputs may hold the batch, and its size; the likeliest first. Vectors as long as the batch are tried with
    it and without: they may be running statistics or positions."""
    matrices = [n for n in tensors if len(shape_of(n)) > 1]
    sizes = Counter(shape_of(n)[0] for n in matrices or tensors)
    for size, _ in sizes.most_common():
        alike = {n for n in tensors if shape_of(n)[0] == size}
        if size > 1:
            yield alike, size
            if alike.intersection(matrices) not in (set(), alike):
                yield alike.intersection(matrices), size


def _cut(gm: GraphModule, inputs: set[Node], batch: int, chips: int) -> BatchSplit:
    forced: dict[Node, int] = {}
    while True:
        try:
            outcomes = _prove(gm, inputs, batch, forced)
            break
        except Demand as demand:
            if demand.node in forced:
                raise Mixes(_at(demand.node, "operands hold the batch in different dimensions")) from None
            forced[demand.node] = demand.dim
    share = -(-batch // chips)
    graph = _resized(gm, outcomes, batch, share)
    splits = {node.name: outcome.splits for node, outcome in outcomes.items()}
    sizes = {
        node.name: {name: change(share * chips) for name, change in outcome.changes.items()}
        for node, outcome in outcomes.items()
    }
    return BatchSplit(graph, splits, sizes, batch, chips)


def _prove(gm: GraphModule, inputs: set[Node], batch: int, forced: Mapping[Node, int]) -> dict[Node, OpSplit]:
    outcomes: dict[Node, OpSplit] = {}
    known: dict[Node, Split | tuple[Split, ...]] = {}
    for node in gm.graph.nodes:
        if node.op == "output":
            continue
        try:
            outcome = _outcome(gm, node, inputs, batch, known, forced)
        except Mixes as reason:
            raise Mixes(_at(node, str(reason))) from None
        except (AssertionError, LookupError, TypeError, ValueError, StopIteration) as error:
            # A bug of ours costs this graph its several chips, not the user the model.
            raise Mixes(_at(node, f"internal error in its rule: {type(error).__name__}: {error}")) from error
        outcomes[node] = outcome
        known[node] = outcome.splits[0] if isinstance(node.meta.get("val"), torch.Tensor) else outcome.splits
    return outcomes


def _outcome(
    gm: GraphModule, node: Node, inputs: set[Node], batch: int, known: Splits, forced: Mapping[Node, int]
) -> OpSplit:
    want = forced.get(node)
    if node.op == "placeholder":
        if want is not None and node not in inputs:
            raise Mixes(f"it is no part of the batch but has {batch} rows")
        return OpSplit((0 if node in inputs else None,))
    if node.op == "get_attr":
        if want is not None and not _same_rows(attribute(gm, node.target), want, batch):
            raise Mixes("a constant differs between the rows of the batch")
        return OpSplit((want,))
    if node.target is operator.getitem:
        parts = known[node.args[0]]  # type: ignore[index]
        assert isinstance(parts, tuple)
        if want is not None:
            raise Mixes("rows of the batch differ in what it gives")
        return OpSplit((parts[node.args[1]],))  # type: ignore[index]
    op = node.target
    if not isinstance(op, torch._ops.OpOverload):
        raise Mixes("it is not an ATen op")
    value = node.meta.get("val")
    results = _results(value)
    shapes = tuple(tuple(t.shape) if isinstance(t, torch.Tensor) else () for t in results)
    if not all(isinstance(n, int) for shape in shapes for n in shape):
        raise Mixes("its size depends on data")
    call = ShardedOp(_with_defaults(node, op), shapes, known, batch)
    if makes_anew(op) or all(call.split(n) is None for n in node.all_input_nodes):
        return OpSplit(tuple(None for _ in results)) if want is None else force(op, call, want)
    if torch.Tag.nondeterministic_seeded in op.tags and call.args.get("dropout_p") != 0:
        raise Mixes("it draws random numbers for the whole batch")
    if any(0 in shape for shape in [shape_of(n) for n in call.tensors()]):
        raise Mixes("a tensor has no elements")
    rule = rule_for(op)
    if rule is None:
        raise Mixes("nobody has said how it treats the rows of a batch")
    return rule(call)


def _with_defaults(node: Node, op: torch._ops.OpOverload) -> dict[str, Any]:
    defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
    return {**defaults, **bind(node, None)}


def _same_rows(tensor: torch.Tensor, dim: int, batch: int) -> bool:
    rows = tensor.unflatten(dim, (batch, -1))
    first = rows.narrow(dim, 0, 1).expand_as(rows)
    return torch.equal(torch.nan_to_num(rows), torch.nan_to_num(first)) and torch.equal(rows.isnan(), first.isnan())


def _at(node: Node, why: str) -> str:
    origin = origin_of(node)
    name = origin.aten if node.op == "call_function" else f"{node.op} {node.name}"
    return f"{name}{f' at {origin.source}' if origin.source else ''}: {why}"


def _resized(gm: GraphModule, outcomes: Mapping[Node, OpSplit], batch: int, rows: int) -> GraphModule:
    """The graph for another number of rows, its shapes made anew and checked."""
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    graph.output(graph.graph_copy(gm.graph, copies))
    module = GraphModule(gm, graph)
    module.meta = dict(gm.meta)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    for node, outcome in outcomes.items():
        copy = copies[node]
        try:
            copy.meta["val"] = value = _value(module, copy, outcome, batch, rows, mode)
        except RuntimeError as error:
            raise Mixes(_at(node, f"it cannot be made for {rows} rows ({str(error).splitlines()[0]})")) from None
        for old, new, split in zip(_results(node.meta.get("val")), _results(value), outcome.splits):
            if isinstance(old, torch.Tensor) and tuple(new.shape) != _scaled(tuple(old.shape), split, batch, rows):
                raise Mixes(_at(node, f"for {rows} rows its shape is {tuple(new.shape)}"))
    module.recompile()
    return module


def _value(graph: GraphModule, copy: Node, outcome: OpSplit, batch: int, rows: int, mode: FakeTensorMode) -> Any:
    value = copy.meta.get("val")
    if copy.op == "get_attr" and outcome.splits[0] is not None:
        (dim,) = outcome.splits
        tensor = attribute(graph, copy.target)
        copy.target = f"{copy.target}_{rows}_rows".replace(".", "_")
        rest = tensor.narrow(dim, 0, tensor.shape[dim] // batch * rows).contiguous()
        graph.register_buffer(copy.target, rest, persistent=False)
    if copy.op != "call_function" or set(outcome.splits) == {None}:
        made_anew = [_remade(v, split, batch, rows, mode) for v, split in zip(_results(value), outcome.splits)]
        return made_anew if isinstance(value, (list, tuple)) else made_anew[0]
    if copy.target is operator.getitem:
        return copy.args[0].meta["val"][copy.args[1]]  # type: ignore[union-attr,index]
    change_arguments(copy, {name: change(rows) for name, change in outcome.changes.items()})
    args, kwargs = torch.fx.node.map_arg((copy.args, copy.kwargs), lambda n: n.meta["val"])
    with mode:
        return copy.target(*args, **kwargs)  # type: ignore[operator]


def _remade(value: Any, split: Split, batch: int, rows: int, mode: FakeTensorMode) -> Any:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    shape = _scaled(tuple(value.shape), split, batch, rows)
    with mode:
        return torch.empty_strided(shape, _dense_like(value, shape), dtype=value.dtype, device=value.device)


def _results(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _scaled(shape: tuple[int, ...], split: Split, batch: int, rows: int) -> tuple[int, ...]:
    return tuple(n // batch * rows if d == split else n for d, n in enumerate(shape))


def _dense_like(value: torch.Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for another shape in the same order of memory."""
    if shape == tuple(value.shape):
        return tuple(value.stride())
    strides, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=value.stride):
        if value.stride(d):
            strides[d] = step
            step *= shape[d]
    return tuple(strides)
