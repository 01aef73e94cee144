"""A Program as the torch modules it comes from: each visit of a module with its own Steps and the visits inside it."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from proveout.kernels.table import kernels
from proveout.program import DEALLOCATE, TO_TORCH, Program, Step, refs
from proveout.report.script import identifier
from proveout.tensor_spec import innermost

CONTAINERS = ("ModuleList", "ModuleDict")
"""Modules that are never called: their members count as their parent's."""


OWN = frozenset({"device", "path", "forward", "compute", "send", "receive"})
"""What the written classes call parts of their own."""


def attribute_of(path: str) -> str:
    """A module's path as the name of an attribute: torch lets a module be called almost anything."""
    name = identifier(path)
    # Inside a class Python gives another name to what begins with two underscores.
    odd = name[:1].isdigit() or name.startswith("__") or keyword.iskeyword(name) or name in OWN
    return f"m_{name}" if odd else name


@dataclass
class Visit:
    """One stay inside a torch module."""

    path: str
    name: str
    """The attribute that its parent holds it by."""
    items: list[Union[Step, Visit]] = field(default_factory=list)  # noqa: UP007  (a forward reference)

    def steps(self) -> Iterator[Step]:
        """Its own Steps and those of the visits inside, in order."""
        for item in self.items:
            if isinstance(item, Visit):
                yield from item.steps()
            else:
                yield item

    def visits(self) -> Iterator[Visit]:
        """The visits inside, at any depth."""
        for item in self.items:
            if isinstance(item, Visit):
                yield item
                yield from item.visits()


@dataclass(frozen=True)
class Parts:
    """A body as what sends the inputs, what runs on the device, and what takes the outputs back."""

    send: tuple[Step, ...]
    compute: tuple[Step, ...]
    receive: tuple[Step, ...]

    @property
    def off_device(self) -> tuple[Step, ...]:
        """What in the middle part is not the device's: it cannot be captured in a trace."""
        return tuple(s for s in self.compute if s.on_host or s.is_transfer)


def parts_of(program: Program) -> Parts:
    """Host ops and transfers that need inputs alone go first, those that lead to outputs alone last."""
    on_host = {*program.inputs, *program.weights, *(c.name for c in program.constants)}
    on_host |= {n for s in program.setup if s.on_host or s.kernel == TO_TORCH for n in s.outputs}
    send: list[Step] = []
    rest: list[Step] = []
    for step in program.body:
        first = (step.on_host or step.is_transfer) and step.kernel != TO_TORCH and all(n in on_host for n in step.uses)
        (send if first else rest).append(step)
        if first and step.on_host:
            on_host.update(step.outputs)
    needed: set[str] = set()
    receive, compute = [], []
    for step in reversed(rest):
        last = (step.on_host or step.kernel == TO_TORCH) and not needed.intersection(step.outputs)
        if step.kernel == DEALLOCATE:
            compute.append(step)
        elif last:
            receive.append(step)
        else:
            compute.append(step)
            needed.update(step.uses)
    # Inputs stay where they were written: a trace reads them at every replay.
    late = {n for s in receive for n in s.uses} | {ref.name for ref in refs(program.outputs)}
    late |= {n for s in send for n in s.outputs}
    kept = [s for s in reversed(compute) if s.kernel != DEALLOCATE or s.uses[0] not in late]
    return Parts(tuple(send), tuple(kept), tuple(reversed(receive)))


def tree_of(steps: Sequence[Step], types: Mapping[str, str], owners: Mapping[str, Sequence[str]]) -> Visit:
    """The visits of a run of Steps. `owners` are the modules whose parameters a stable value is made of."""
    root = Visit("", "model")
    stack, left = [root], set[str]()
    for step in steps:
        if step.kernel == DEALLOCATE:
            stack[-1].items.append(step)
            continue
        chain = _chain(_module_of(step, owners), types)
        shared = 0
        while shared < min(len(chain), len(stack) - 1) and stack[shared + 1].path == chain[shared]:
            shared += 1
        if _strays(step):
            chain = chain[: next((i for i in range(shared, len(chain)) if chain[i] in left), len(chain))]
        left.update(visit.path for visit in stack[shared + 1 :])
        del stack[shared + 1 :]
        for path in chain[shared:]:
            parent = stack[-1]
            visit = Visit(path, attribute_of(path.removeprefix(f"{parent.path}.")))
            parent.items.append(visit)
            stack.append(visit)
        stack[-1].items.append(step)
    _dissolve(root)
    for visit in (root, *root.visits()):
        _number(visit)
    return root


def _number(visit: Visit) -> None:
    """Names for a module's second visit and those after it."""
    counts: dict[str, int] = {}
    for item in visit.items:
        if isinstance(item, Visit):
            count = counts[item.name] = counts.get(item.name, 0) + 1
            item.name += f"_{count}" if count > 1 else ""


def _dissolve(visit: Visit) -> None:
    """Visits that compute nothing become their parent's: what is left where a fusion took the rest elsewhere."""
    items: list[Step | Visit] = []
    for item in visit.items:
        if isinstance(item, Visit):
            _dissolve(item)
            idle = all(_strays(step) or step.kernel == DEALLOCATE for step in item.steps())
            items += item.items if idle else [item]
        else:
            items.append(item)
    visit.items = items


def _strays(step: Step) -> bool:
    """Whether passes move such calls about: alone they do not make a second visit of a module."""
    row = None if step.on_host else kernels()[step.kernel]
    return row is not None and (row.moves or row.kind == "cast")


def _chain(module: str, types: Mapping[str, str]) -> list[str]:
    """The modules around a Step that are called, outermost first."""
    parts = module.split(".") if module else []
    paths = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return [p for p in paths if types.get(p, "") and types[p] not in CONTAINERS]


def _module_of(step: Step, owners: Mapping[str, Sequence[str]]) -> str:
    """A fused call belongs where its parameters do: a linear with its activation to the linear, a merged product to
    the module around all of its parts."""
    module = step.origin.module
    modules = [owner for name in step.uses for owner in owners.get(name, ())]
    if not modules:
        return module
    home = innermost(modules)
    siblings = home.rpartition(".")[0] == module.rpartition(".")[0]
    return home if home and (siblings or module.startswith(f"{home}.")) else module
