"""Where the error comes from, at a glance: a bar for each op that matters, in the order of the graph, coloured by what
the op does to the error."""

from __future__ import annotations

from proveout.cause.findings import Contribution, Explanation
from proveout.report.cause.text import percent
from proveout.report.drawing.element import Html, el

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 26, 330, 90, 78
MOST = 16
COLOURS = {"adds": "--adds", "magnifies": "--magnifies", "passes on": "--passes", "several": "--several"}
STYLE = """
svg { --ground: #fff; --ink: #1b2130; --dim: #5f6879; --line: #e2e5ea; background: var(--ground);
      --adds: #1f5fd0; --magnifies: #c2410c; --passes: #6b8fc9; --several: #9aa4b8; }
@media (prefers-color-scheme: dark) {
  svg { --ground: #181c26; --ink: #e7eaf1; --dim: #9aa4b8; --line: #2b3140;
        --adds: #8ab4ff; --magnifies: #ff9d5c; --passes: #5877ad; --several: #5f6879; }
}
text { font: 12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--dim); }
.title { font-size: 15px; font-weight: 600; fill: var(--ink); } .op { fill: var(--ink); }
line { stroke: var(--line); }
"""


def picture(name: str, graph: Explanation) -> str:
    """One SVG file that follows the reader's colour scheme."""
    parts = sorted(graph.contributions[:MOST], key=lambda part: part.position)
    parts = [part for part in parts if graph.whole and abs(part.share) > 0.001 * graph.whole]
    height = TOP + ROW * max(len(parts), 1) + 20
    most = max((abs(part.share) for part in parts), default=1.0) or 1.0
    said = graph.said[0] if graph.said else ""
    title = f"{name}: relative L2 {percent(graph.rel_l2)} against {graph.against}"
    drawn = [shape for number, part in enumerate(parts) for shape in _row(part, number, graph.whole, most)]
    drawing = el(
        "svg",
        el("style", Html(STYLE)),
        el("text", title, x=16, y=24, class_="title"),
        el("text", said[:130], x=16, y=44),
        *_legend(),
        el("line", x1=LEFT, x2=LEFT, y1=TOP - 6, y2=height - 12),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        role="img",
        aria_label=f"{title}. {said}",
    )
    return f"{drawing}\n"


def _row(part: Contribution, number: int, whole: float, most: float) -> list[Html]:
    y = TOP + ROW * number
    width = max(1.0, (WIDTH - LEFT - RIGHT) * abs(part.share) / most)
    label = f"{part.op}  {part.origin.module}".strip()
    label = label if len(label) <= 50 else f"{label[:24]}…{label[-25:]}"
    note = f"{part.share / whole:.0%}" + (f"  × {part.gain:.1f}" if part.role == "magnifies" and part.gain else "")
    told = f"{label}: {part.share / whole:.2%} of the error, {part.role}; {part.origin.source}"
    fill = f"fill: var({COLOURS[part.role]}); fill-opacity: {1.0 if part.share > 0 else 0.35}"
    shape = el("rect", el("title", told), x=LEFT, y=y, width=f"{width:.1f}", height=ROW - 8, rx=2, style=fill)
    return [
        el("text", label, x=LEFT - 10, y=y + 13, text_anchor="end", class_="op"),
        shape,
        el("text", note, x=f"{LEFT + width + 8:.1f}", y=y + 13),
    ]


def _legend() -> list[Html]:
    words = {
        "adds": "adds",
        "magnifies": "magnifies what comes in",
        "passes on": "mostly passes on",
        "several": "several ops",
    }
    out, x = [], 16.0
    for role, told in words.items():
        out.append(el("rect", x=x, y=54, width=11, height=11, rx=2, style=f"fill: var({COLOURS[role]})"))
        out.append(el("text", told, x=x + 16, y=64))
        x += 40 + 6.6 * len(told)
    return out
