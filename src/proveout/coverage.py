"""What became of a model's ATen ops: which converted, which stayed on the host and why, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proveout.reasons import Reason

OpState = Literal["converted", "host", "removed"]


@dataclass(frozen=True)
class OpStatus:
    """What became of one ATen node."""

    node: str
    aten: str
    state: OpState
    reason: str = ""
    inputs: str = ""
    module: str = ""
    source: str = ""
    cause: Reason | None = None
    """Of an op on the host: the reason's kind and facts, of which `reason` is the sentence. Old Records have none."""


@dataclass(frozen=True)
class Coverage:
    """What converted, what stayed on the host and why, over all graphs of a model."""

    ops: tuple[OpStatus, ...] = ()
    num_transfers: int = 0
    num_graphs: int = 0
    graph_breaks: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    """On a device of several chips, how each graph uses them, and why not otherwise."""

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.ops + other.ops,
            self.num_transfers + other.num_transfers,
            self.num_graphs + other.num_graphs,
            self.graph_breaks + other.graph_breaks,
            tuple(dict.fromkeys(self.parallel + other.parallel)),
        )

    @property
    def before(self) -> int:
        return len(self.ops)

    @property
    def before_unique(self) -> int:
        return len({op.aten for op in self.ops})

    @property
    def on_host(self) -> tuple[OpStatus, ...]:
        return tuple(op for op in self.ops if op.state == "host")

    @property
    def remain(self) -> int:
        return len(self.on_host)

    @property
    def remain_unique(self) -> int:
        return len({op.aten for op in self.on_host})

    @property
    def host_share(self) -> float:
        return self.remain / self.before if self.ops else 0.0

    def by_op(self) -> list[tuple[str, dict[str, int], str]]:
        """(ATen op, count per state, first reason), sorted by name: the op conversion table."""
        rows: dict[str, tuple[dict[str, int], list[str]]] = {}
        for op in self.ops:
            counts, reasons = rows.setdefault(op.aten, ({}, []))
            counts[op.state] = counts.get(op.state, 0) + 1
            if op.reason and op.state == "host":
                reasons.append(op.reason)
        return [(name, counts, reasons[0] if reasons else "") for name, (counts, reasons) in sorted(rows.items())]


@dataclass(frozen=True)
class Fallback:
    """One line of the fallback ledger: an ATen op that stays on the host for one reason, over all graphs of a model.

    Times are modelled and are those of transfers: the host is not modelled, so the op's own time is in none of them.
    """

    aten: str
    reason: str
    count: int
    fix: str
    """The cheapest thing to do about it."""
    nodes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """The user's lines."""
    num_transfers: int = 0
    """Transfers at every call that exist for these ops alone."""
    transfer_bytes: int = 0
    transfer_ns: int | None = None
    """None where the device is not modelled."""
    time_share: float | None = None
    """Of the modelled time of one call of every graph."""
    transfer_share: float = 0.0
    """Of all transfers."""
    saved_transfers: int = 0
    """Fewer transfers if these ops alone converted; negative where neighbours on the host would need more."""
    saved_ns: int | None = None
    """Less modelled time then, before the time of the kernels they would become."""
    neighbours: tuple[str, ...] = ()
    """Other ops of this ledger that share its trips to the host."""
    together_transfers: int = 0
    """Fewer transfers if the neighbours converted too."""
    together_ns: int | None = None
    cause: Reason | None = None
    """The reason's kind and facts. Old Records have none."""
    once: bool = False
    """It depends on weights alone and runs when they change: nothing needs to be done about it."""
