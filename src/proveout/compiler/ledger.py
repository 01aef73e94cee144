"""The fallback ledger: what stays on the host, which transfers exist for it alone, and what converting it would save.

Saving is asked of a second plan: the same Program as if some host Steps ran on the device. Their round trips go, and
so do kernels that only fed them; where a neighbour stays on the host or an input was never on the device, new transfers
come. The host is not modelled: neither a host op's own time nor that of the kernel it would become is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from proveout.chip.time import transfer_time
from proveout.compiler.fixes import KnownFix, cheapest_fix
from proveout.compiler.pipeline import CompiledGraph
from proveout.compiler.profile import Profile
from proveout.compiler.sides import CHEAPER
from proveout.kernels.cost import StepTime, pieces_moved, program_ns, step_times
from proveout.kernels.table import kind_of
from proveout.ops.table import Refused
from proveout.program import DEALLOCATE, FROM_TORCH, TO_TORCH, Ref, Step, refs
from proveout.types import DRAM, DeviceSpec, Fallback, OpStatus, Settings, TensorSpec

Group = tuple[str, str]
"""(ATen op, reason): one line of the ledger."""


def ledger(graphs: Sequence[CompiledGraph], chip: DeviceSpec | None, settings: Settings) -> tuple[Fallback, ...]:
    """One line for each host op and reason over all graphs, the one that would save the most modelled time first."""
    books = [_Book(graph, chip, settings) for graph in graphs]
    total_ns = sum(book.total_ns for book in books)
    total_transfers = sum(book.graph.program.num_transfers for book in books)
    statuses: dict[Group, list[OpStatus]] = {}
    for graph in graphs:
        for status in graph.coverage.on_host:
            statuses.setdefault((status.aten, status.reason), []).append(status)
    islands = _islands(statuses, books)
    lines = []
    for group, group_statuses in statuses.items():
        island = islands[group]
        case = _case(group, group_statuses, books)
        own = [book.caused_by({group}) for book in books]
        alone, together = (_add(book.saved_by(groups) for book in books) for groups in ({group}, island))
        caused_ns = sum(cost.ns for cost in own)
        lines.append(
            Fallback(
                *group,
                len(group_statuses),
                cheapest_fix(case),
                nodes=tuple(s.node for s in group_statuses),
                modules=tuple(dict.fromkeys(s.module for s in group_statuses if s.module)),
                sources=tuple(dict.fromkeys(s.source for s in group_statuses if s.source)),
                num_transfers=sum(cost.transfers for cost in own),
                transfer_bytes=sum(cost.nbytes for cost in own),
                transfer_ns=caused_ns if chip else None,
                time_share=caused_ns / total_ns if chip and total_ns else None,
                transfer_share=sum(cost.transfers for cost in own) / total_transfers if total_transfers else 0.0,
                saved_transfers=alone.transfers,
                saved_ns=alone.ns if chip else None,
                neighbours=tuple(sorted({aten for aten, _ in island - {group}})),
                together_transfers=together.transfers,
                together_ns=together.ns if chip else None,
                cause=case.reason,
                once=case.once,
            )
        )
    return tuple(sorted(lines, key=_rank))


def _rank(line: Fallback) -> tuple[object, ...]:
    """What saves the most first, alone or with the ops that share its trips; those that share them stay together."""
    best = max(line.saved_ns or 0, line.together_ns or 0)
    group = sorted({line.aten, *line.neighbours})
    follows = line.cause is not None and line.cause.kind == CHEAPER.name  # it converts with the others of its group
    return (-best, group, follows, -(line.saved_ns or 0), -line.count, line.aten, line.reason)


@dataclass(frozen=True)
class _Cost:
    transfers: int = 0
    nbytes: int = 0
    ns: int = 0


def _add(costs: Iterable[_Cost]) -> _Cost:
    total = list(costs)
    return _Cost(sum(c.transfers for c in total), sum(c.nbytes for c in total), sum(c.ns for c in total))


class _Book:
    """One graph's Program read for what its host Steps cause."""

    def __init__(self, graph: CompiledGraph, chip: DeviceSpec | None, settings: Settings) -> None:
        self.graph, self.chip, self.settings = graph, chip, settings
        self.times = step_times(graph.program, chip, settings) if chip else []
        self.total_ns = program_ns(self.times, settings)
        reason = {status.node: status.reason for status in graph.coverage.on_host}
        self.group: dict[int, Group] = {
            index: (step.origin.aten, reason.get(step.origin.node, step.reason))
            for index, step in enumerate(graph.program.body)
            if step.on_host
        }
        """Which line each host Step of the body belongs to; a copy that gives an op eager's strides is its op's."""
        self.made_by = {name: i for i, step in enumerate(graph.program.body) for name in step.outputs}
        self.readers: dict[str, set[int]] = {}
        for index, step in enumerate(graph.program.body):
            for name in step.uses if step.kernel != DEALLOCATE else ():
                self.readers.setdefault(name, set()).add(index)
        self.returned = {ref.name for ref in refs(graph.program.outputs)}

    def steps_of(self, groups: set[Group]) -> set[int]:
        return {index for index, group in self.group.items() if group in groups}

    def caused_by(self, groups: set[Group]) -> _Cost:
        """The transfers that only these host Steps make necessary, on the way there and back."""
        program = self.graph.program
        steps = [program.body[index] for index in self._transfers_for(self.steps_of(groups))]
        return _add(
            self._crossing(
                program.specs[(s.outputs if s.kernel == FROM_TORCH else s.uses)[0]],
                s.kernel,
                pieces_moved(s, program.chips),
            )
            for s in steps
        )

    def saved_by(self, groups: set[Group]) -> _Cost:
        """Transfers and modelled time of the Program less those of one where these Steps run on the device."""
        moved = self.steps_of(groups)
        if not moved:
            return _Cost()
        body = self.graph.program.body
        gone = self._transfers_for(moved)
        come = self._new_transfers(moved, gone)
        if not self.chip:
            return _Cost(len(gone) - len(come))
        dead = {id(body[i]) for i in gone | self._conversions_for(gone)}
        times = [t for t in self.times if id(t.step) not in dead]
        for name, kernel in come:
            crossing = self._crossing(self._on_device(self.graph.program.specs[name]), kernel)
            times.append(StepTime(Step(kernel, (("tensor", Ref(name)),), ()), crossing.ns))
        return _Cost(len(gone) - len(come), ns=self.total_ns - program_ns(times, self.settings))

    def _transfers_for(self, moved: set[int]) -> set[int]:
        """To the host for no other reader, and back from one of these Steps."""
        transfers = set()
        for index, step in enumerate(self.graph.program.body):
            if step.kernel == TO_TORCH:
                readers = self.readers.get(step.outputs[0], set())
                if readers and readers <= moved and step.outputs[0] not in self.returned:
                    transfers.add(index)
            elif step.kernel == FROM_TORCH and self.made_by.get(step.uses[0]) in moved:
                transfers.add(index)
        return transfers

    def _new_transfers(self, moved: set[int], gone: set[int]) -> list[tuple[str, str]]:
        """What would have to cross instead, and how: host values that these Steps read, results that the host reads."""
        program = self.graph.program
        changing = {*program.inputs, *self.made_by}
        crosses = {step.uses[0] for i, step in enumerate(program.body) if step.kernel == FROM_TORCH and i not in gone}
        come: dict[tuple[str, str], None] = {}
        for index in sorted(moved):
            for name in program.body[index].uses:
                maker = self.made_by.get(name)
                from_device = maker is not None and program.body[maker].kernel == TO_TORCH
                if name in changing and not from_device and maker not in moved and name not in crosses:
                    come[name, FROM_TORCH] = None
            for name in program.body[index].outputs:
                on_host = any(i not in moved and program.body[i].on_host for i in self.readers.get(name, ()))
                if on_host or name in self.returned:
                    come[name, TO_TORCH] = None
        return list(come)

    def _conversions_for(self, gone: set[int]) -> set[int]:
        """Changes of layout and dtype on the device that served only transfers which are gone."""
        dead: set[int] = set()
        for index, step in reversed(list(enumerate(self.graph.program.body))):
            readers = {i for name in step.outputs for i in self.readers.get(name, ())}
            if kind_of(step) in ("layout", "cast") and readers and readers <= gone | dead:
                dead.add(index)
        return dead

    def _on_device(self, spec: TensorSpec) -> TensorSpec:
        """A host value as the device would hold it."""
        try:
            dtype = Profile("ttnn", self.settings.precision).device_dtype(spec.dtype, (0, 0))
        except Refused:
            dtype = "float32"
        return replace(spec, dtype=dtype, layout="tile", memory=DRAM)

    def _crossing(self, spec: TensorSpec, kernel: str, pieces: int = 1) -> _Cost:
        ns = transfer_time(spec, self.chip, kernel == FROM_TORCH).ns if self.chip else 0
        return _Cost(1, pieces * spec.nbytes, pieces * ns)


def _islands(groups: Iterable[Group], books: Sequence[_Book]) -> dict[Group, set[Group]]:
    """Lines whose Steps hand values to each other on the host, or read the same transfer: they pay for it together."""
    island = {group: {group} for group in groups}

    def join(one: Group, other: Group) -> None:
        if island[one] is not island[other]:
            merged = island[one] | island[other]
            for group in merged:
                island[group] = merged

    for book in books:
        for name, readers in book.readers.items():
            maker = book.made_by.get(name)
            met = [book.group[i] for i in sorted(readers) if i in book.group]
            if maker in book.group:
                met.append(book.group[maker])
            elif maker is None:
                continue  # an input or a weight that both read costs neither anything
            for one, other in itertools.pairwise(met):
                if one in island and other in island:
                    join(one, other)
    return island


def _case(group: Group, ops: Sequence[OpStatus], books: Sequence[_Book]) -> KnownFix:
    nodes = {status.node for status in ops}
    always = any(group in book.group.values() for book in books)
    once = not always and any(s.on_host and s.origin.node in nodes for b in books for s in b.graph.program.setup)
    return KnownFix(group[0], ops[0].cause, once=once, eager_graph=not (always or once))
