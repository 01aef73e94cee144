"""Makes a graph with a few equal layers one with many, node by node as if all had been captured.

PyTorch takes three quarters of the time that planning a decoder takes, as it captures every layer anew. Where layers
are alike, the third period of them is compared with the second, and then written down as often as the model has it:
with the names, inputs and outputs that a capture of the whole gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from proveout.compiler.lower import module_of
from proveout.errors import CompileError

TEMPLATE = 2
"""The period that is repeated: the first may hold what all share, and the second proves that they are alike."""


@dataclass(frozen=True)
class Repeat:
    """Layers at `path`.0, `path`.1, … of which only the first are there; a period of them comes `times` more."""

    path: str
    period: int
    times: int


class NotAlike(CompileError):
    """Layers that should be alike are not."""


def repeated(
    gm: GraphModule, positions: tuple[frozenset[int], ...], repeat: Repeat
) -> tuple[GraphModule, tuple[frozenset[int], ...]]:
    """The graph with all layers, and sets of its arguments' positions as they were with a few."""
    return _Writer(gm, repeat).written(positions)


class _Writer:
    def __init__(self, gm: GraphModule, repeat: Repeat) -> None:
        self.gm, self.repeat = gm, repeat
        self.nodes: list[Node] = list(gm.graph.nodes)
        self.period = {n: i // repeat.period for n, i in _layers(self.nodes, repeat.path).items()}
        second, third = (self._of(TEMPLATE - 1), self._of(TEMPLATE))
        if not third or len(second) != len(third):
            raise NotAlike(f"{repeat.path}: {len(second)} and {len(third)} ops in layers that should be alike.")
        self.next_of = dict(zip(second, third))
        self._compare(second, third)
        self.growth = self._growth()
        self.graph = Graph()
        self.new: dict[Node, Node] = {}
        self.copies: list[dict[Node, Node]] = [{} for _ in range(repeat.times)]
        self.templates: list[Node] = []
        """Of each new argument, the one that it is or is like."""
        self.met_template = False

    def _of(self, period: int) -> list[Node]:
        return [n for n in self.nodes if self.period.get(n) == period]

    def written(self, positions: tuple[frozenset[int], ...]) -> tuple[GraphModule, tuple[frozenset[int], ...]]:
        for run, is_template in self._runs():
            for node in run:
                self._write(node, self._resolve_as_it_was(node), self.new)
            for number, copy in enumerate(self.copies, 1) if is_template else ():
                before = self.new if number == 1 else self.copies[number - 2]
                for node in run:
                    self._write(node, self._resolve_in_copy(copy, before), copy, number)
            self.met_template |= is_template and run[0].op == "call_function"
        graph = GraphModule(self.gm, self.graph)
        graph.meta = dict(self.gm.meta)
        order = {n: i for i, n in enumerate(n for n in self.nodes if n.op == "placeholder")}
        old = [order[n] for n in self.templates]
        return graph, tuple(frozenset(i for i, was in enumerate(old) if was in chosen) for chosen in positions)

    def _runs(self) -> Iterator[tuple[list[Node], bool]]:
        """Nodes in order: those of the template that stand together, and all others by themselves."""
        run: list[Node] = []
        for node in self.nodes:
            if self.period.get(node) == TEMPLATE and (not run or run[0].op == node.op):
                run.append(node)
                continue
            if run:
                yield run, True
                run = []
            if self.period.get(node) == TEMPLATE:
                run = [node]
            else:
                yield [node], False
        assert not run, "the output comes last"

    def _resolve_as_it_was(self, node: Node) -> Callable[[Node], Node]:
        """What comes after the layers reads the last one's results; what belongs to a layer, that layer's."""
        after = self.period.get(node, TEMPLATE + 1) > TEMPLATE
        return lambda x: (self.copies[-1] if after and self.period.get(x) == TEMPLATE else self.new)[x]

    def _resolve_in_copy(self, copy: dict[Node, Node], before: dict[Node, Node]) -> Callable[[Node], Node]:
        def resolve(x: Node) -> Node:
            period = self.period.get(x)
            if period is None:
                return self.new[x]
            return copy[x] if period == TEMPLATE else before[self.next_of[x]]

        return resolve

    def _write(self, node: Node, resolve: Callable[[Node], Node], into: dict[Node, Node], number: int = 0) -> None:
        if node.op == "output":
            if any(self.period.get(n, TEMPLATE) < TEMPLATE for n in node.all_input_nodes if not _puts(n)):
                raise NotAlike(f"{self.repeat.path}: each layer's result is an output.")
            made_output = self.graph.output(map_arg(node.args[0], resolve))
            made_output.meta = dict(node.meta)
            return
        args, kwargs = map_arg(node.args, resolve), map_arg(node.kwargs, resolve)
        target, name = node.target, self._name(node, number)
        if node.op == "placeholder":
            target = name = _argument_name(node, len(self.templates))
            self.templates.append(node)
        new = self.graph.create_node(node.op, target, args, kwargs, name=name, type_expr=node.type)
        later = number or (self.repeat.times if self.period.get(node, 0) > TEMPLATE else 0)
        new.meta = _moved(node.meta, self.repeat, later * self.repeat.period)
        into[node] = new

    def _name(self, node: Node, number: int) -> str:
        """What PyTorch would have called it: it counts the results of each op."""
        base, count = _base_and_count(node.name)
        later = self.period.get(node, TEMPLATE + 1 if self.met_template else 0) > TEMPLATE
        count += self.growth.get(base, 0) * (self.repeat.times if later else number)
        return f"{base}_{count}" if count else base

    def _growth(self) -> dict[str, int]:
        """By how much each op's count grows in a period."""
        growth: dict[str, int] = {}
        for before, node in self.next_of.items():
            if node.op == "placeholder":
                continue
            (base, count), (same, earlier) = _base_and_count(node.name), _base_and_count(before.name)
            if base != same or growth.setdefault(base, count - earlier) != count - earlier:
                raise NotAlike(f"{before.name} and {node.name} of layers that should be alike are counted differently.")
        return growth

    def _compare(self, second: list[Node], third: list[Node]) -> None:
        first = self._of(TEMPLATE - 2)
        place = {n: i for block in (first, second, third) for i, n in enumerate(block)}
        from_end = {n: len(block) - i for block in (first, second) for i, n in enumerate(block)}

        def same(a: Any, b: Any) -> bool:
            if isinstance(a, Node) and isinstance(b, Node):
                before, after = self.period.get(a), self.period.get(b)
                if before is None or after is None:
                    return a is b
                apart = place[a] == place[b] or from_end.get(a, -1) == from_end.get(b, -2)
                return before + 1 == after and apart and before >= TEMPLATE - 2
            if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
                return len(a) == len(b) and all(map(same, a, b))
            if isinstance(a, dict) and isinstance(b, dict):
                return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
            return type(a) is type(b) and a == b

        for a, b in zip(second, third):
            targets = a.op == "placeholder" or (a.target == b.target if a.op != "get_attr" else self._equal(a, b))
            if a.op != b.op or not targets or _kind(a) != _kind(b) or not same((a.args, a.kwargs), (b.args, b.kwargs)):
                raise NotAlike(f"{a.format_node()} and {b.format_node()} of layers that should be alike differ.")
        compute = [i for i, n in enumerate(self.nodes) if n in set(third) and n.op == "call_function" and not _puts(n)]
        if compute and compute[-1] - compute[0] + 1 != len(compute):
            raise NotAlike(f"{self.repeat.path}: what a layer computes does not stand together.")

    def _equal(self, a: Node, b: Node) -> bool:
        one, other = (getattr(self.gm, str(n.target)) for n in (a, b))
        if not isinstance(one, torch.Tensor) or (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        with _disable_current_modes():  # AOTAutograd calls us under fake tensors; constants are real
            return one.is_meta or torch.equal(one, other)


def _layers(nodes: list[Node], path: str) -> dict[Node, int]:
    """The layer that each node belongs to, for those that belong to one."""
    layers: dict[Node, int] = {}
    for node in nodes:
        if node.op == "call_function" and (place := _place(module_of(node), path)) is not None:
            layers[node] = place[0]
    for node in nodes:
        if node.op in ("placeholder", "get_attr"):
            users = {layers.get(user, -1) for user in node.users if not _puts(user)}
            if len(users) == 1 and users != {-1}:
                layers[node] = users.pop()
    for node in nodes:
        if _puts(node) and node.args[0] in layers:
            layers[node] = layers[node.args[0]]  # type: ignore[index]
    return layers


def _puts(node: Node) -> bool:
    """Whether it writes a new value to an argument, which AOTAutograd does after everything else."""
    return node.target is torch.ops.aten.copy_.default


def _kind(node: Node) -> Any:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [(tuple(v.shape), v.stride(), v.dtype) if isinstance(v, torch.Tensor) else v for v in values]


def _place(module: str, path: str) -> tuple[int, str] | None:
    """The number of the layer that a module is in, and what follows it in the module's path."""
    if not module.startswith(f"{path}."):
        return None
    number, dot, rest = module.removeprefix(f"{path}.").partition(".")
    return (int(number), dot + rest) if number.isdecimal() else None


def _base_and_count(name: str) -> tuple[str, int]:
    base, _, count = name.rpartition("_")
    return (base, int(count)) if base and count.isdecimal() else (name, 0)


def _argument_name(node: Node, position: int) -> str:
    """`arg12_1` at another position."""
    name, line, copy = node.name.partition("_")
    if not name.rstrip("0123456789").isalpha() or name.isalpha():
        raise NotAlike(f"the argument {node.name} has no number.")
    return f"{name.rstrip('0123456789')}{position}{line}{copy}"


def _moved(meta: dict[str, Any], repeat: Repeat, by: int) -> dict[str, Any]:
    """A node's notes in a layer so many further on."""
    stack = meta.get("nn_module_stack")
    if not by or not stack:
        return dict(meta)
    moved = {}
    for key, (path, *rest) in stack.items():
        module = module_of(path)
        if place := _place(module, repeat.path):
            module = f"{repeat.path}.{place[0] + by}{place[1]}"
        moved[key] = (module, *rest)
    return {**meta, "nn_module_stack": moved}
