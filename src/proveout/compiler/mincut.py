"""A cut of least cost: every item goes to one of two sides, and crossing between them has a price.

Both questions of placement have this form: host or device for a node, tile or row-major for a Step. A value crosses
once however many of its readers are on the other side, and no two crossings depend on each other, so a minimum cut is
the best of all assignments, not only a good one.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable

import networkx
from networkx.algorithms.flow import boykov_kolmogorov

_A, _B = ("side", "a"), ("side", "b")


class PriceGraph:
    """Collects prices, then divides. Sides are called `a` and `b`."""

    def __init__(self) -> None:
        self._graph = networkx.DiGraph()
        self._graph.add_nodes_from((_A, _B))
        self._items: set[Hashable] = set()
        self._names = itertools.count()

    def item(self, item: Hashable, cost_a: float = 0.0, cost_b: float = 0.0) -> None:
        """What it costs to have an item on each side; infinity forbids one."""
        self._items.add(item)
        self._graph.add_node(item)
        self._edge(item, _B, cost_a)
        self._edge(_A, item, cost_b)

    def value(self, producer: Hashable, readers: Iterable[Hashable], a_to_b: float, b_to_a: float) -> None:
        """A value that `producer` makes; any number of readers on the other side pay for one crossing."""
        readers = list(readers)
        if not readers:
            return
        leaves, enters = ("leaves", next(self._names)), ("enters", next(self._names))
        self._edge(producer, leaves, a_to_b)
        self._edge(enters, producer, b_to_a)
        for reader in readers:
            self._edge(leaves, reader, float("inf"))
            self._edge(reader, enters, float("inf"))

    def solve(self) -> frozenset[Hashable]:
        """The items on side `a`; where both sides cost the same, an item is there."""
        _, (on_a, _) = networkx.minimum_cut(self._graph, _A, _B, flow_func=boykov_kolmogorov)
        return frozenset(self._items & on_a)

    def _edge(self, source: Hashable, target: Hashable, cost: float) -> None:
        if cost <= 0:
            return
        known = self._graph.get_edge_data(source, target, default={"capacity": 0.0})
        if cost == float("inf"):
            self._graph.add_edge(source, target)  # networkx: no capacity is an infinite one
        elif "capacity" in known:
            self._graph.add_edge(source, target, capacity=known["capacity"] + cost)
