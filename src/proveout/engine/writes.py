"""Takes what a graph writes to its arguments out of it, and does those writes after a run.

AOTAutograd ends a graph with `copy_` of whole new values. Where such a value is an update of the argument (an index, a
slice), only what is put there leaves the device, and the update is made again in place.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

aten = torch.ops.aten

OVERWRITES = {
    aten.index_put.default: aten.index_put_.default,
    aten._unsafe_index_put.default: aten.index_put_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar,
}
"""Functional updates that only put values somewhere, and the same in place. What adds to the old value is not here: the
device adds in its own precision, and the argument must hold what the device does."""

REGIONS = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
}
"""Updates of a region, and the view that is this region. All take (self, src, *where)."""

VIEWS = (aten.view.default, aten._unsafe_view.default)


@dataclass(frozen=True)
class Output:
    """Stands for one of the graph's outputs in a write's arguments."""

    index: int


@dataclass(frozen=True)
class Write:
    """One in-place call on an argument, or on a view of it."""

    position: int
    views: tuple[tuple[Any, tuple[Any, ...]], ...]
    call: Any
    arguments: tuple[Any, ...]

    def apply(self, argument: torch.Tensor, outputs: Sequence[Any]) -> None:
        target, value_of = argument, lambda a: outputs[a.index] if isinstance(a, Output) else a
        for view, where in self.views:
            target = view(target, *tree_map(value_of, where))
        self.call(target, *tree_map(value_of, self.arguments))


@dataclass(frozen=True)
class Writes:
    """All writes of a graph, in order."""

    num_outputs: int = 0
    """Of the graph as its caller knows it; what the writes need comes after them."""
    writes: tuple[Write, ...] = ()
    state: Mapping[int, int] = field(default_factory=dict)
    """Arguments that stay on the device: position -> which of the last outputs is the new value."""
    returned: Mapping[int, int] = field(default_factory=dict)
    """Outputs that are a written argument itself: which -> its position."""

    @property
    def positions(self) -> frozenset[int]:
        return frozenset(w.position for w in self.writes)

    def apply(self, arguments: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Write to the arguments; give the caller's outputs, none of which moves with an argument."""
        if not self.writes:
            return list(outputs[: self.num_outputs])
        written = {arguments[p].untyped_storage().data_ptr() for p in self.positions}
        apart = [_apart(o, written) for o in outputs]
        # AOTAutograd itself counts one more version for each argument that the graph writes to.
        with torch.no_grad(), _same_versions([arguments[p] for p in self.positions]):
            for write in self.writes:
                write.apply(arguments[write.position], apart)
        return [arguments[self.returned[i]] if i in self.returned else apart[i] for i in range(self.num_outputs)]


def take_writes(
    gm: GraphModule, stays: Collection[int] = (), resident: Collection[int] = ()
) -> tuple[GraphModule, Writes]:
    """The graph without its writes but with the outputs that they need, and the writes. `stays` are the positions of
    arguments that would be state if the graph wrote to them; of those that are `resident`, too, nothing comes back."""
    if not any(n.target is aten.copy_.default for n in gm.graph.nodes):
        return gm, Writes(len(next(n for n in gm.graph.nodes if n.op == "output").args[0]))
    graph = Graph()
    results: list[Any] = list(graph.graph_copy(gm.graph, {}))  # type: ignore[arg-type]
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    num_outputs = len(results)
    writes: list[Write] = []
    values: dict[int, Node] = {}
    returned: dict[int, int] = {}

    def output(arg: Any) -> Any:
        if not isinstance(arg, Node):
            return arg
        if arg not in results:
            results.append(arg)
        return Output(results.index(arg))

    for node in [n for n in graph.nodes if n.target is aten.copy_.default]:
        target, value = node.args[0], node.args[1]
        if target not in placeholders:
            continue
        position = placeholders.index(target)
        old = values.get(position, target)
        for views, call, arguments in _updates(old, value, ()) if position not in resident else ():
            mapped = tuple((view, _map(where, output)) for view, where in views)
            writes.append(Write(position, mapped, call, _map(arguments, output)))
        values[position] = value
        for index in [i for i, result in enumerate(results) if result is node]:
            results[index], returned[index] = None, position
        node.replace_all_uses_with(value)
        graph.erase_node(node)
    state = {position: len(results) + i for i, position in enumerate(p for p in values if p in stays)}
    made_output = graph.output([*results, *(values[p] for p in state)])
    made_output.meta = dict(next(n for n in gm.graph.nodes if n.op == "output").meta)
    taken = GraphModule(gm, graph)
    taken.meta = dict(gm.meta)
    return taken, Writes(num_outputs, tuple(writes), state, returned)


Update = tuple[tuple[tuple[Any, tuple[Any, ...]], ...], Any, tuple[Any, ...]]
"""The region (as views of views), the call on it, its arguments."""


def _updates(current: Node, value: Any, region: tuple[tuple[Any, tuple[Any, ...]], ...]) -> list[Update]:
    """In-place calls that make a region, which now holds `current`, hold `value`."""
    whole: list[Update] = [(region, aten.copy_.default, (value,))]
    if not isinstance(value, Node) or value is current:
        return whole
    if value.target in OVERWRITES and not _accumulates(value) and not value.kwargs:
        before = _before(current, value.args[0], region)
        put = value.args[1:]
        if before is not None and _size(put) < _size(value):
            return [*before, (region, OVERWRITES[value.target], put)]
    if value.target in VIEWS and isinstance(value.args[0], Node):  # of the argument under another shape
        inner_value = value.args[0]
        shape = _shape(inner_value)
        old = next((n for n in current.users if n.target in VIEWS and _shape(n) == shape), None)
        if old is not None and all(isinstance(length, int) for length in shape):
            inner_updates = _updates(old, inner_value, (*region, (aten.view.default, (shape,))))
            if inner_updates[-1][1] is not aten.copy_.default:
                return inner_updates
    if value.target in REGIONS and not value.kwargs:
        before = _before(current, value.args[0], region)
        if before is not None:
            view, where = REGIONS[value.target], tuple(value.args[2:])
            old = next((n for n in value.args[0].users if n.target is view and n.args[1:] == where), None)  # type: ignore[union-attr]
            inner = (*region, (view, where))
            source = value.args[1]
            if old is not None:
                return [*before, *_updates(old, source, inner)]
            return [*before, (inner, aten.copy_.default, (source,))]
    return whole


def _before(current: Node, base: Any, region: tuple[Any, ...]) -> list[Update] | None:
    """What makes the region hold `base`; None where that is not an update of what it holds."""
    if base is current:
        return []
    updates = _updates(current, base, region)
    is_whole = len(updates) == 1 and updates[0][0] == region and updates[0][1] is aten.copy_.default
    return None if is_whole else updates


def _shape(node: Node) -> list[int]:
    return list(node.meta["val"].shape)


def _accumulates(put: Node) -> bool:
    return "index_put" in str(put.target) and len(put.args) > 3 and bool(put.args[3])


def _map(args: Any, change: Any) -> Any:
    if isinstance(args, (list, tuple)):
        mapped = [_map(a, change) for a in args]
        return tuple(mapped) if isinstance(args, tuple) else mapped
    return change(args)


def _size(args: Any) -> float:
    """Bytes of the tensors in there; a size that is not known yet counts as 1."""
    if isinstance(args, (list, tuple)):
        return sum(map(_size, args))
    value = args.meta.get("val") if isinstance(args, Node) else None
    if not isinstance(value, torch.Tensor):
        return 0
    return math.prod(s if isinstance(s, int) else 1 for s in value.shape) * value.element_size()


def _apart(output: Any, written: set[int]) -> Any:
    """An output is the value from before the writes, and keeps it."""
    if not isinstance(output, torch.Tensor) or output.layout != torch.strided:
        return output
    return output.clone() if output.untyped_storage().data_ptr() in written else output


@contextlib.contextmanager
def _same_versions(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    counted = tuple(t for t in tensors if not t.is_inference())
    with _unsafe_preserve_version_counter(counted):
        yield
