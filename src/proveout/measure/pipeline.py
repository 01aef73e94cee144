"""Pipeline mode: a model cut into two stages, one for each chip of a card, so that both work at once.

The cut is where the slower stage is fastest, by the chip's time model. Stages hand over through the host's memory, as
their Programs do, and that time is in theirs. One call takes the sum of the stages; once the pipeline is full, a result
comes after every slowest stage. Both are modelled.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_flatten, tree_unflatten

from proveout.clock.loops import Arguments
from proveout.engine import structure
from proveout.engine.artifact import Saved, load_compiled
from proveout.engine.compiled import Compiled, compile
from proveout.errors import CaptureError, UsageError
from proveout.measure.models import PIPELINE

SCHEMA = 1
STAGES = 2


class Pipeline:
    """A model in stages; several threads may call it, and each stage serves one of them at a time."""

    def __init__(self, stages: Sequence[Compiled | Saved], results: Any, stage_ns: Sequence[int]) -> None:
        self.stages, self.results, self.stage_ns = list(stages), results, list(stage_ns)
        self._locks = [threading.Lock() for _ in stages]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(args, kwargs)[0]

    @property
    def device(self) -> str:
        return self.stages[0].device

    def call(self, args: Sequence[Any], kwargs: Any) -> tuple[Any, int]:
        """The outputs, and the modelled time of all stages."""
        values: list[Any] = tree_flatten((tuple(args), kwargs))[0]
        spent = 0
        for stage, lock in zip(self.stages, self._locks):
            with lock:
                values = list(stage(*values))
                spent += stage.modelled_ns or 0
        return tree_unflatten(values, self.results), spent

    @property
    def interval_ns(self) -> int:
        """Between two results once the pipeline is full."""
        return max(self.stage_ns)

    def __str__(self) -> str:
        times = " + ".join(f"{ns / 1e3:.1f}" for ns in self.stage_ns)
        return f"stages of {times} µs; one result every {self.interval_ns / 1e3:.1f} µs once filled (modelled)"


def pipelined(
    model: torch.nn.Module, example: Arguments, device: str, size: int, settings: Mapping[str, Any] | None = None
) -> Pipeline:
    """Cut a model in stages of about the same modelled time and compile each for one chip of the device."""
    if size != STAGES:
        raise UsageError(f"a pipeline of {size} chips: the cards that are modelled have {STAGES}.")
    graph, results = _captured(model, example)
    inputs = tree_flatten((example[0], example[1]))[0]
    cuts = _cuts(graph)
    if not cuts:
        raise UsageError("the model cannot be cut in two: no value passes from one part of it to another.")
    best = _bisect(cuts, lambda cut: _modelled(_stages(graph, cut), inputs, device, settings))
    stages = _compiled(_stages(graph, best), inputs, device, settings=settings)
    return Pipeline(stages, results, [int(plan.total_ns) for stage in stages if (plan := stage.plan) is not None])


def save_pipeline(pipeline: Pipeline, path: str | Path) -> Path:
    """Leave a pipeline in a folder: each stage as a saved Compiled, and how its outputs were put together."""
    folder = Path(path)
    folder.mkdir(parents=True)
    for number, stage in enumerate(pipeline.stages):
        assert isinstance(stage, Compiled)
        stage.save(folder / f"stage{number}")
    text = json.dumps({"schema": SCHEMA, "results": structure.encode(pipeline.results)})
    (folder / PIPELINE).write_text(text)
    return folder


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline that `save_pipeline` left there; like every saved model, it is checked before it is handed out."""
    folder = Path(path)
    stages = [load_compiled(folder / f"stage{number}") for number in range(STAGES)]
    try:
        head = json.loads((folder / PIPELINE).read_text())
        if head["schema"] != SCHEMA:
            raise ValueError(f"its schema is {head['schema']!r}; this version reads {SCHEMA}")
        results = structure.decode(head["results"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError(f"{folder} cannot be used: {str(error)[:200]}. Compile the model again.") from error
    if len({stage.device for stage in stages}) > 1:
        raise UsageError(f"{folder} cannot be used: its stages are of different devices. Compile the model again.")
    return Pipeline(stages, results, [stage.modelled_ns or 0 for stage in stages])


def _captured(model: torch.nn.Module, example: Arguments) -> tuple[GraphModule, Any]:
    """The model as one flat graph from tensors to tensors, and the structure of its outputs."""
    args, kwargs = example
    try:
        program = torch.export.export(model, tuple(args), dict(kwargs))
        graph = program.module(check_guards=False)
    except Exception as error:  # PyTorch raises many kinds here; each means that the model is no single graph
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CaptureError(f"a pipeline needs the model as one graph, which torch.export cannot give: {why}") from error
    spec = program.call_spec.out_spec
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    output = next(n for n in graph.graph.nodes if n.op == "output")
    output.args = (tuple(tree_flatten(output.args[0])[0]),)
    for node in [n for n in graph.graph.nodes if n.op == "call_module" and not n.users]:
        graph.graph.erase_node(node)
    graph.recompile()
    return graph, spec


def _cuts(graph: GraphModule) -> list[Node]:
    """Nodes after which as few values as possible cross to the rest, in order."""
    nodes = _calls(graph)
    crossing = [(len(_crossing(graph, node)), node) for node in nodes[:-1]]
    fewest = min((count for count, _ in crossing), default=0)
    return [node for count, node in crossing if count == fewest]


def _calls(graph: GraphModule) -> list[Node]:
    return [n for n in graph.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]


def _crossing(graph: GraphModule, cut: Node) -> list[Node]:
    """Values that exist up to a node and are used after it. Weights do not cross: each stage has its own."""
    place = {node: index for index, node in enumerate(graph.graph.nodes)}
    last = place[cut]
    is_input = {n: n.op == "placeholder" for n in place}
    before = [n for n in place if n.op != "get_attr" and (is_input[n] or place[n] <= last)]
    return [n for n in before if any(place[user] > last for user in n.users)]


def _stages(graph: GraphModule, cut: Node) -> list[GraphModule]:
    """The two parts, each a function from the values that reach it to those that leave it."""
    nodes = _calls(graph)
    at = nodes.index(cut) + 1
    inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
    output = next(n for n in graph.graph.nodes if n.op == "output")
    between = _crossing(graph, cut)
    return [_part(graph, nodes[:at], inputs, between), _part(graph, nodes[at:], between, list(output.args[0]))]


def _part(graph: GraphModule, nodes: Sequence[Node], inputs: Sequence[Node], wanted: Sequence[Any]) -> GraphModule:
    part = torch.fx.Graph()
    names = {node: part.placeholder(node.name) for node in inputs}

    def name_of(node: Node) -> Node:
        if node not in names:
            assert node.op == "get_attr", f"{node} reaches a stage without being handed to it"
            names[node] = part.get_attr(str(node.target))
        return names[node]

    for node in nodes:
        names[node] = part.node_copy(node, name_of)
    part.output(tuple(name_of(one) if isinstance(one, Node) else one for one in wanted))
    return GraphModule(graph, part)


def _bisect(cuts: Sequence[Node], times: Callable[[Node], tuple[int, int]]) -> Node:
    """The first stage grows with the cut and the second shrinks: look where they meet."""
    low, high = 0, len(cuts) - 1
    seen: dict[int, int] = {}
    while low <= high:
        middle = (low + high) // 2
        first, second = times(cuts[middle])
        seen[middle] = max(first, second)
        low, high = (middle + 1, high) if first < second else (low, middle - 1)
    return cuts[min(seen, key=lambda index: seen[index])]


def _modelled(
    stages: Sequence[GraphModule], inputs: Sequence[Any], device: str, settings: Mapping[str, Any] | None
) -> tuple[int, int]:
    first, second = (stage.plan for stage in _compiled(stages, inputs, device, settings, dry_run=True))
    return (first.total_ns if first else 0), (second.total_ns if second else 0)


def _compiled(
    stages: Sequence[GraphModule],
    inputs: Sequence[Any],
    device: str,
    settings: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> list[Compiled]:
    """Each stage for one chip, on what the stage before it gives."""
    values: Sequence[Any] = inputs
    compiled = []
    for stage in stages:
        stage.eval()
        own = {**(settings or {}), "parallel": "none"}
        compiled.append(compile(stage, device=device, settings=own, call=(values, {}), dry_run=dry_run))
        with torch.no_grad():
            values = stage(*values)
    return compiled
