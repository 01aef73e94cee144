"""Draws a graph of boxes as SVG: layers by longest path, crossings reduced by barycentres, light and dark.

Work grows with boxes and edges: an edge that would cross many layers is not drawn but named at its reader.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from proveout.report.drawing.element import Html, el
from proveout.types import GraphNode, Place

WIDTH, HEIGHT, GAP_X, GAP_Y = 216, 40, 18, 26
LANE = 14
"""Room for an edge that passes a layer."""
MARGIN, HEAD = 24, 64
LONGEST = 16
"""Layers that an edge may cross; a longer one is named at its reader instead."""
LETTER, SMALL_LETTER = 7.3, 6.4
"""Widths in the drawing's two sizes of type."""
CHARACTERS, SMALL_CHARACTERS = (int((WIDTH - 18) / letter) for letter in (LETTER, SMALL_LETTER))
SWEEPS = 6

PLACES: dict[Place, str] = {
    "input": "input",
    "device": "ops",
    "layout": "moves and casts",
    "transfer": "transfers",
    "host": "on the host",
    "output": "output",
}
"""What each colour stands for."""

STYLE = """
svg { --page: #fff; --ink: #1c2430; --soft: #5b6675; --edge: #a3adba;
  --input: #e4f4e8; --input-line: #3b8f55; --output: #e4f4e8; --output-line: #3b8f55;
  --device: #e3edfb; --device-line: #3d72b8; --layout: #eef0f3; --layout-line: #8a94a3;
  --transfer: #fdeed4; --transfer-line: #c07a12; --host: #fbe2e2; --host-line: #c23b3b;
  background: var(--page); font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media (prefers-color-scheme: dark) { svg { --page: #14181f; --ink: #e6eaf0; --soft: #9aa5b4; --edge: #566173;
  --input: #173523; --input-line: #5fb57b; --output: #173523; --output-line: #5fb57b;
  --device: #172a45; --device-line: #6ea3e6; --layout: #232932; --layout-line: #7b8696;
  --transfer: #3d2c0d; --transfer-line: #dfa046; --host: #431c1c; --host-line: #e57373; } }
text { fill: var(--ink); } .note { fill: var(--soft); font-size: 10.5px; } a .note { text-decoration: underline; }
.name { font-weight: 600; font-size: 15px; }
path { fill: none; stroke: var(--edge); stroke-width: 1.3; }
rect { stroke-width: 1.3; } .host rect { stroke-dasharray: 5 3; stroke-width: 1.8; }
g:hover > rect { stroke-width: 2.6; }
""" + "\n".join(f".{p} rect {{ fill: var(--{p}); stroke: var(--{p}-line); }}" for p in PLACES)


def draw(nodes: Sequence[GraphNode], title: str = "") -> str:
    """One SVG document. Nodes come in an order in which none uses a later one."""
    layout = _Layout(nodes)
    width = max(int(layout.width) + 2 * MARGIN, 900)
    height = int(layout.num_layers * (HEIGHT + GAP_Y)) + HEAD + MARGIN
    shift = (width - layout.width) / 2
    parts = [
        el("style", Html(STYLE)),
        *_heading(nodes, title),
        el(
            "g",
            *(el("path", d=d) for d in layout.edges()),
            *(_box(node, layout) for node in nodes),
            transform=f"translate({shift:.0f} {HEAD})",
        ),
    ]
    size = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    return f"{el('svg', *parts, xmlns='http://www.w3.org/2000/svg', role='img', aria_label=title, **size)}\n"


def _heading(nodes: Sequence[GraphNode], title: str) -> list[Html]:
    counts = Counter(node.place for node in nodes)
    legend, x = [], MARGIN
    for place, words in PLACES.items():
        if counts[place] and place not in ("input", "output"):
            text = f"{counts[place]} {words}"
            swatch = el("rect", x=x, y=36, width=12, height=12, rx=3)
            legend.append(el("g", swatch, el("text", text, x=x + 18, y=46), class_=place))
            x += 44 + 7 * len(text)
    return [el("text", title, x=MARGIN, y=24, class_="name"), *legend]


def _box(node: GraphNode, layout: _Layout) -> Html:
    x, y = layout.corner(node.name)
    label = _cut(node.label)
    room = int((WIDTH - 26 - LETTER * len(label)) / SMALL_LETTER)
    named = _cut(node.name, room) if node.place not in ("input", "output") and room > 5 else ""
    far = [name for name in node.uses if (name, node.name) in layout.far]
    lines = [
        el("title", node.title or node.label),
        el("rect", x=f"{x:.0f}", y=y, width=WIDTH, height=HEIGHT, rx=6),
        el("text", label, x=f"{x + 9:.0f}", y=y + (17 if node.note else 24)),
        _soft(named, x + WIDTH - 9, y + 17, text_anchor="end"),
        _soft(_cut(node.note, SMALL_CHARACTERS), x + 9, y + 32),
    ]
    for number, name in enumerate(far):
        link = _soft(_cut(f"↑ {name}", 18), x + WIDTH, y - 5 - 11 * number, text_anchor="end")
        lines.append(el("a", link, href=f"#{name}"))
    return el("g", *lines, class_=node.place, id=node.name)


def _soft(text: str, x: float, y: int, **more: str) -> Html:
    """Small print; nothing where there is nothing to say."""
    return el("text", text, x=f"{x:.0f}", y=y, class_="note", **more) if text else Html("")


def _cut(text: str, most: int = CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass
class _Cell:
    """A place in a layer: a box, or the lane of an edge that passes."""

    layer: int
    order: int
    is_box: bool
    follows: bool
    """Whether it follows from an input; what does not (weights on their way) is drawn beside what does."""
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> float:
        return WIDTH + GAP_X if self.is_box else LANE


class _Layout:
    """Where boxes and edges lie. Boxes are cells in the order of the nodes; lanes follow."""

    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        self.index = {node.name: i for i, node in enumerate(nodes)}
        layers, follows = _layers(nodes, self.index)
        self.cells = [_Cell(layer, i, True, follows[i]) for i, layer in enumerate(layers)]
        self.far: set[tuple[str, str]] = set()
        self.chains: list[list[int]] = []
        for node in nodes:
            for name in node.uses:
                if name in self.index:
                    self._connect(name, node.name)
        self.num_layers = max(layers, default=-1) + 1
        self.rows: list[list[int]] = [[] for _ in range(self.num_layers)]
        for number, cell in enumerate(self.cells):
            self.rows[cell.layer].append(number)
        self._order()
        self._place()

    def _connect(self, source: str, target: str) -> None:
        first, last = self.index[source], self.index[target]
        span = range(self.cells[first].layer + 1, self.cells[last].layer)
        if len(span) > LONGEST:
            self.far.add((source, target))
            return
        lanes = []
        for layer in span:
            lanes.append(len(self.cells))
            self.cells.append(_Cell(layer, self.cells[last].order, False, self.cells[first].follows))
        chain = [first, *lanes, last]
        for upper, lower in itertools.pairwise(chain):
            self.cells[upper].below.append(lower)
            self.cells[lower].above.append(upper)
        self.chains.append(chain)

    def _order(self) -> None:
        """Sort each layer by the mean position of its neighbours, down and up in turn."""
        position: dict[int, int] = {}
        for row in self.rows:
            row.sort(key=lambda c: self.cells[c].order)
            position.update((c, i) for i, c in enumerate(row))
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else self.rows[::-1]:
                keys = {}
                for c in row:
                    near = self._near(c, down)
                    keys[c] = sum(position[n] for n in near) / len(near) if near else position[c]
                row.sort(key=lambda c: keys[c])
                position.update((c, i) for i, c in enumerate(row))

    def _place(self) -> None:
        """Pull each cell towards its neighbours; the mean of packing leftwards and rightwards keeps them apart."""
        for row in self.rows:
            x = 0.0
            for c in row:
                self.cells[c].x = x + self.cells[c].width / 2
                x += self.cells[c].width
        for sweep in range(2 * SWEEPS):
            for row in self.rows if sweep % 2 == 0 else self.rows[::-1]:
                self._pull(row, down=sweep % 2 == 0)
        left = min((c.x - c.width / 2 for c in self.cells), default=0.0)
        for cell in self.cells:
            cell.x -= left
        self.width = max((c.x + c.width / 2 for c in self.cells), default=0.0)

    def _near(self, c: int, down: bool) -> list[int]:
        """The neighbours that a cell goes by: those that follow from an input, where there are any."""
        near = self.cells[c].above if down else self.cells[c].below
        return [n for n in near if self.cells[n].follows] or near

    def _pull(self, row: list[int], down: bool) -> None:
        cells = [self.cells[c] for c in row]
        wanted = []
        for c, cell in zip(row, cells, strict=True):
            near = self._near(c, down) or self._near(c, not down)
            wanted.append(sum(self.cells[n].x for n in near) / len(near) if near else cell.x)
        room = [(a.width + b.width) / 2 for a, b in itertools.pairwise(cells)]
        right, left = wanted[:], wanted[:]
        for i, r in enumerate(room):
            right[i + 1] = max(right[i + 1], right[i] + r)
        for i, r in reversed(list(enumerate(room))):
            left[i] = min(left[i], left[i + 1] - r)
        for cell, a, b in zip(cells, left, right, strict=True):
            cell.x = (a + b) / 2

    def corner(self, name: str) -> tuple[float, int]:
        cell = self.cells[self.index[name]]
        return cell.x - WIDTH / 2, cell.layer * (HEIGHT + GAP_Y)

    def edges(self) -> list[str]:
        """Each edge as a path: down the gaps in curves, straight past the layers between."""
        paths = []
        for chain in self.chains:
            cells = [self.cells[c] for c in chain]
            y = cells[0].layer * (HEIGHT + GAP_Y) + HEIGHT
            parts = [f"M{cells[0].x:.0f} {y}"]
            for upper, lower in itertools.pairwise(cells):
                end, middle = y + GAP_Y, y + GAP_Y / 2
                parts.append(f"C{upper.x:.0f} {middle:.0f} {lower.x:.0f} {middle:.0f} {lower.x:.0f} {end}")
                y = end + HEIGHT
                if not lower.is_box:
                    parts.append(f"V{y}")
            paths.append("".join(parts))
        return paths


def _layers(nodes: Sequence[GraphNode], index: dict[str, int]) -> tuple[list[int], list[bool]]:
    """Longest path from above, but what follows from no input stands right above its first reader, as do inputs."""
    layers = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    follows = [node.place == "input" for node in nodes]
    for i, node in enumerate(nodes):
        for s in (index[name] for name in node.uses if name in index):
            layers[i] = max(layers[i], layers[s] + 1)
            follows[i] |= follows[s]
            readers[s].append(i)
    for i, node in reversed(list(enumerate(nodes))):
        if readers[i] and (node.place == "input" or not follows[i]):
            layers[i] = min(layers[r] for r in readers[i]) - 1
    return layers, follows
