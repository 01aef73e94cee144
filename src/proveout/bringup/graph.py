"""Stage 3: the model's graph, compiled and checked call by call: what became of each op, how exact, how long.

Leaves `graph.json`, which later stages read, a picture of the modules, and a page in which modules open.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from proveout.bringup.data import GraphData
from proveout.bringup.graph_page import render
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.check.steps import replay
from proveout.compiler import CompiledGraph
from proveout.compiler.lower import origin_of, variation
from proveout.errors import CaptureError
from proveout.kernels.cost import step_times
from proveout.kernels.table import dtype_name
from proveout.program import DEALLOCATE
from proveout.report.drawing.graph import draw
from proveout.types import Comparison, GraphNode, OpStatus, Place, short_dtype
from proveout.words import counted

MOST_BOXES = 120
"""In the picture; modules close until no more are left. The page has them all."""


@dataclass
class GraphOp:
    """One ATen op of the model, an input or an output, with what became of it."""

    id: int
    graph: int
    node: str
    aten: str
    module: str
    state: str
    reason: str = ""
    inputs: str = ""
    shape: str = ""
    source: str = ""
    calls: tuple[str, ...] = ()
    """The ttnn functions that do its work, where it has Steps of its own."""
    pcc: float | None = None
    accumulated_pcc: float | None = None
    threshold: float | None = None
    ns: int | None = None
    """Modelled kernel time of its Steps."""
    uses: list[int] = field(default_factory=list)


def run(subject: Subject, files: Files) -> StageResult:
    compiled = subject.compiled()
    if not compiled.graphs:
        why = "; ".join(compiled.coverage.graph_breaks) or "the model calls no op"
        raise CaptureError(f"PyTorch captured nothing of the model: {why}.")
    fidelity = subject.bringup.settings.math_fidelity
    comparisons = [replay(run.variant.ready(run.arguments), run.inputs, fidelity) for run in subject.runs()]
    ops = _ops(compiled.captured, compiled.graphs, comparisons)
    name = subject.bringup.workload.name
    types = {path: type(module).__name__ for path, module in subject.model.named_modules()}
    coverage = compiled.coverage
    files.json("graph.json", {"ops": ops, "modules": types, "graph_breaks": coverage.graph_breaks})
    files.text(
        "graph.svg",
        draw(_boxes(ops, types), f"{name}: modules, {counted(sum(o.state == 'host' for o in ops), 'op')} on the host"),
    )
    files.text("graph.html", render(name, subject.bringup.device, ops, types))
    for number, program in enumerate(compiled.programs):
        # Named by its place: a process that compiled other models before counts on.
        replace(program, name=f"graph{number}").save(files.path(f"programs/{number}/program.json").parent)
    return _result(subject, ops, coverage.graph_breaks, comparisons)


def _result(
    subject: Subject, ops: Sequence[GraphOp], breaks: Sequence[str], comparisons: Sequence[Sequence[Comparison]]
) -> StageResult:
    states = Counter(op.state for op in ops)
    total, on_host = sum(states[s] for s in ("converted", "host", "removed")), states["host"]
    low = [op for op in ops if op.pcc is not None and op.threshold is not None and op.pcc < op.threshold]
    findings = [
        f"{states['converted']} ops become ttnn calls, {states['removed']} fold away, {on_host} stay on the host"
    ]
    findings += [f"{counted(len(breaks), 'graph break')}: {breaks[0]}"] if breaks else []
    findings += [f"%{op.node} ({op.aten} in {op.module or 'the model'}): PCC {op.pcc:.5f} alone" for op in low[:5]]
    modelled = sum(p.total_ns for p in subject.compiled().plans)
    step = f"See the stage 'missing' for {counted(on_host, 'op')} on the host." if on_host else ""
    if breaks:
        step = "Look at the first graph break: what runs between graphs is in none of them, and runs on the host."
    if low:
        step = "Look at the calls below their threshold in graph.html, coloured by PCC."
    return StageResult(
        f"{counted(total, 'ATen op')} in {counted(len(comparisons), 'graph')}, {on_host} on the host",
        tuple(findings),
        step,
        attention=bool(low or breaks or on_host),
        data=GraphData(
            ops=total, states=dict(states), graphs=len(comparisons), modelled_ns=modelled,
            lowest_pcc=min((op.pcc for op in ops if op.pcc is not None), default=None),
            graph_breaks=tuple(breaks), low=tuple(op.node for op in low), memory=subject.compiled().memory,
        ),
    )  # fmt: skip


def _ops(
    captured: Sequence[GraphModule], graphs: Sequence[CompiledGraph], comparisons: Sequence[Sequence[Comparison]]
) -> list[GraphOp]:
    ops: list[GraphOp] = []
    for number, (gm, compiled) in enumerate(zip(captured, graphs)):
        checked = comparisons[number] if number < len(comparisons) else ()
        _add_graph(ops, number, gm, compiled, checked)
    return ops


def _add_graph(
    ops: list[GraphOp], number: int, gm: GraphModule, compiled: CompiledGraph, checked: Sequence[Comparison]
) -> None:
    statuses = {status.node: status for status in compiled.coverage.ops}
    kernels: dict[str, list[str]] = defaultdict(list)
    for step in compiled.program.body:
        if step.kernel != DEALLOCATE:
            kernels[step.origin.node].append(step.kernel)
    ns: dict[str, int] = defaultdict(int)
    for time in step_times(compiled.program, compiled.chip, compiled.settings) if compiled.chip else ():
        ns[time.step.origin.node] += time.ns
    exact: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in checked:
        exact[comparison.origin.node].append(comparison)
    weights = {i for i, _ in enumerate(gm.graph.nodes)} & set(compiled.weight_positions)
    ids: dict[str, int] = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for node in gm.graph.nodes:
        if node in placeholders and (placeholders.index(node) in weights or not node.users):
            continue
        if node.target is operator.getitem:  # one result of several: its op stands for it
            ids[node.name] = ids[node.args[0].name]
            continue
        op = _op(len(ops), number, node, statuses.get(node.name))
        compared = [c for c in exact[node.name] if c.pcc is not None]
        worst = min(compared, key=lambda c: (c.pcc or 0.0) - c.threshold, default=None)
        op.calls, op.ns = tuple(kernels[node.name]), ns.get(node.name)
        if worst is not None:
            op.pcc, op.accumulated_pcc = worst.pcc, worst.accumulated_pcc
            op.threshold = worst.threshold
        op.uses = list(dict.fromkeys(ids[source.name] for source in node.all_input_nodes if source.name in ids))
        ids[node.name] = op.id
        ops.append(op)


def _op(number: int, graph: int, node: Node, status: OpStatus | None) -> GraphOp:
    if node.op == "output":
        return GraphOp(number, graph, "output", "output", "", "output")
    shape = _shape(node.meta.get("val"))
    if node.op == "placeholder":
        return GraphOp(number, graph, node.name, "input", "", "input", shape=shape)
    if not isinstance(node.target, torch._ops.OpOverload):
        return GraphOp(
            number, graph, node.name, str(getattr(node.target, "__name__", node.target)), "", "removed", shape=shape
        )
    origin = origin_of(node)
    state = status.state if status else "removed"
    reason = status.reason if status else ""
    return GraphOp(
        number, graph, node.name, origin.aten, origin.module, state, reason, variation(node), shape, origin.source
    )


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{short_dtype(dtype_name(value.dtype))}[{','.join(map(str, value.shape))}]"
    return ", ".join(map(_shape, value)) if isinstance(value, (list, tuple)) else ""


PLACES: dict[str, Place] = {
    "input": "input",
    "output": "output",
    "converted": "device",
    "removed": "layout",
    "host": "host",
}


def _boxes(ops: Sequence[GraphOp], types: Mapping[str, str]) -> list[GraphNode]:
    """Modules as boxes, closed from the deepest up until the picture can be read."""
    depth = max((op.module.count(".") + 1 for op in ops if op.module), default=0)
    while depth > 1 and len({_closed(op, depth) for op in ops}) > MOST_BOXES:
        depth -= 1
    stays = stays_of(ops, lambda op: _closed(op, depth))
    home = {op.id: number for number, (_, members) in enumerate(stays) for op in members}
    keys = _told_apart([name for name, _ in stays])
    several = {name for name, count in Counter(name for name, _ in stays).items() if count > 1}
    boxes = []
    for number, (name, members) in enumerate(stays):
        sources = dict.fromkeys(home[i] for op in members for i in op.uses)
        states = Counter(op.state for op in members)
        worst = next((s for s in ("host", "converted", "removed") if states[s]), members[0].state)
        single = members[0] if len(members) == 1 else None
        label = single.aten.removeprefix("aten.") if single and not single.module else name.rsplit("/", 1)[-1]
        if single and name in several:
            label = f"{label} {single.aten.split('.')[1] if single.aten.count('.') else single.aten}"
        pccs = [op.pcc for op in members if op.pcc is not None]
        title = f"{types.get(name, '')} {counted(len(members), 'op')}, {states['host']} on the host"
        title += f", lowest PCC {min(pccs):.5f}" if pccs else ""
        note = members[-1].shape if single else f"{types.get(name, 'module')} · {counted(len(members), 'op')}"
        used = tuple(keys[s] for s in sources if s != number)
        boxes.append(GraphNode(keys[number], label, PLACES[worst], note, title, used))
    return _sources_first(boxes)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Each by its name, the second of the same name with its number."""
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def _sources_first(boxes: Sequence[GraphNode]) -> list[GraphNode]:
    """Boxes in an order in which each comes after what it reads; where two read each other, the first does not."""
    left, placed = {box.name: box for box in boxes}, dict[str, GraphNode]()
    while left:
        ready = next((box for box in left.values() if placed.keys() >= set(box.uses)), None)
        box = ready or next(iter(left.values()))
        placed[box.name] = replace(left.pop(box.name), uses=tuple(name for name in box.uses if name in placed))
    return list(placed.values())


def stays_of(ops: Sequence[GraphOp], name_of: Callable[[GraphOp], str]) -> list[tuple[str, list[GraphOp]]]:
    """The ops by their stay in a module. One that is called again, as one ReLU after every layer, stays anew: in one
    box, its calls would draw flows between layers that are not there."""
    stays: list[tuple[str, list[GraphOp]]] = []
    above: list[set[int]] = []  # the stays that each one's values come from, however far up
    latest: dict[str, int] = {}
    home: dict[int, int] = {}
    for op in ops:
        name = name_of(op)
        sources = {home[i] for i in op.uses if i in home}
        number = latest.get(name)
        if number is not None and _begins_again(op, number, sources, stays, above):
            number = None
        if number is None:
            number = latest[name] = len(stays)
            stays.append((name, []))
            above.append(set())
        stays[number][1].append(op)
        home[op.id] = number
        others = sources - {number}
        above[number] |= others.union(*(above[s] for s in others))
    return stays


def _begins_again(
    op: GraphOp, number: int, sources: set[int], stays: Sequence[tuple[str, list[GraphOp]]], above: Sequence[set[int]]
) -> bool:
    """Whether an op is of another call of its module: it comes after what the stay led to, or starts it anew."""
    if any(number in above[s] for s in sources):
        return True
    first = stays[number][1][0]
    return bool(sources) and number not in sources and op.aten == first.aten


def _closed(op: GraphOp, depth: int) -> str:
    return ".".join(op.module.split(".")[:depth]) if op.module else f"{op.graph}/{op.node}"
