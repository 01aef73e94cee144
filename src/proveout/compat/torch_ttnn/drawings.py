"""`gen_graphviz`: each graph after every pass as Graphviz' text and as a drawing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from torch.fx import GraphModule

from proveout.compiler.dump import DumpFolder, Observe, graph_nodes, program_nodes
from proveout.program import Program
from proveout.report.drawing.graph import draw
from proveout.types import GraphNode, Place

COLOURS: dict[Place, str] = {
    "input": "#dddddd",
    "output": "#dddddd",
    "device": "#aaffaa",
    "layout": "#ffeeaa",
    "transfer": "#ffddaa",
    "host": "#ffaaaa",
}


class Drawings(DumpFolder):
    """`00.origin.dot` and `.dot.svg` in a folder, and so on; a second graph goes to a folder of its name inside."""

    def graph(self, name: str, weights: frozenset[int]) -> Observe:
        folder = self.folder if not self._taken else self.folder / name
        self._taken[name] = self._taken.get(name, 0) + 1
        folder.mkdir(parents=True, exist_ok=True)
        number = 0

        def observe(stage: str, result: GraphModule | Program) -> None:
            nonlocal number
            nodes = program_nodes(result) if isinstance(result, Program) else graph_nodes(result, weights)
            path = folder / f"{number:02}.{stage if number else 'origin'}.dot"
            path.write_text(dot(nodes))
            path.with_suffix(".dot.svg").write_text(draw(nodes, stage))
            number += 1

        return observe


def dot(nodes: Sequence[GraphNode]) -> str:
    """Graphviz' text: a box a node, an edge a use."""
    lines = ["digraph {", '  node [shape=box, style="rounded,filled"]']
    for node in nodes:
        label = json.dumps(f"{node.label}\n{node.note}" if node.note else node.label)
        lines.append(f'  {json.dumps(node.name)} [label={label}, fillcolor="{COLOURS[node.place]}"]')
        lines += [f"  {json.dumps(used)} -> {json.dumps(node.name)}" for used in node.uses]
    return "\n".join([*lines, "}"]) + "\n"
