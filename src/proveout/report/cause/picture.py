"""Where the error comes from, at a glance: a bar for each op that matters, in the order of the graph, coloured by what
the op does to the error."""

from __future__ import annotations

import textwrap

from proveout.cause.findings import Contribution, Explanation
from proveout.report.cause.text import ops, percent
from proveout.report.drawing.element import Html, el

WIDTH, ROW, LEFT = 860, 26, 330
LETTER = 7.4
"""Width of one of a note's, in bold."""
LINE, COLUMNS = 17, 128
"""Of the sentences above the bars: height of a line, and characters in it."""
MOST = 16
LEAST = 0.005
"""Part of the whole below which an op has no bar."""
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
.most { font-weight: 600; fill: var(--ink); }
line { stroke: var(--line); }
"""


def picture(name: str, graph: Explanation) -> str:
    """One SVG file that follows the reader's colour scheme."""
    sides = list(dict.fromkeys(part.side for part in graph.contributions))
    parts = sorted(graph.contributions[:MOST], key=lambda part: (sides.index(part.side), part.position))
    parts = [part for part in parts if graph.whole and (part.is_suspect or abs(part.share) >= LEAST * graph.whole)]
    said = [line for sentence in graph.said for line in textwrap.wrap(sentence, COLUMNS)]
    rest = sum(part.share for part in graph.contributions if part not in parts)
    hidden = sum(part.ops for part in graph.contributions if part not in parts) if graph.whole else 0
    legend = 36 + LINE * len(said)
    top = legend + 40
    end = top + ROW * max(len(parts), 1)
    height = end + (ROW if hidden else 0) + 16
    most = max((abs(part.share) for part in parts), default=1.0) or 1.0
    # The longest bar is as long as all notes leave it.
    scale = min((_room(part, graph.whole) / max(abs(part.share), 1e-9 * most) for part in parts), default=1.0)
    title = f"{name}: relative L2 {percent(graph.rel_l2)} against {graph.against}"
    drawn = [
        shape for number, part in enumerate(parts) for shape in _row(part, top + ROW * number, graph.whole, most, scale)
    ]
    drawing = el(
        "svg",
        el("style", Html(STYLE)),
        el("text", title, x=16, y=24, class_="title"),
        *(el("text", line, x=16, y=44 + LINE * number, class_="op") for number, line in enumerate(said)),
        *_legend({part.role for part in parts}, legend),
        el("text", "ops in the order they run ↓", x=LEFT - 10, y=top - 10, text_anchor="end"),
        el("text", "share of the error of the outputs", x=LEFT, y=top - 10),
        el("line", x1=LEFT, x2=LEFT, y1=top - 4, y2=end + 4),
        *drawn,
        *(
            [el("text", f"{ops(hidden, 'other ')}: {round(rest / graph.whole, 2) + 0:.0%}", x=LEFT, y=end + 17)]
            if hidden
            else []
        ),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        aria_label=f"{title}. {' '.join(graph.said)}",
    )
    return f"{drawing}\n"


def _room(part: Contribution, whole: float) -> float:
    """What its note leaves for an op's bar."""
    return WIDTH - LEFT - 20 - LETTER * len(_note(part, whole))


def _note(part: Contribution, whole: float) -> str:
    share = f"{part.share / whole:.0%}" if part.share > 0 else f"cancels {-part.share / whole:.0%}"
    share += f", {part.stands_out}" if part.is_suspect else ""
    return share + (f", makes it {part.gain:.1f} × larger" if part.role == "magnifies" and part.gain else "")


def _row(part: Contribution, y: int, whole: float, most: float, scale: float) -> list[Html]:
    """One op: its name, its bar, and what to read off it; one that cancels error has a pale bar and says so."""
    width = max(1.0, scale * abs(part.share))
    label = "  ".join(filter(None, (part.side, part.op, part.origin.module)))
    label = label if len(label) <= 50 else f"{label[:24]}…{label[-25:]}"
    tooltip = f"{label}: {part.share / whole:.2%} of the error, {part.role}; {part.origin.source}"
    fill = f"fill: var({COLOURS[part.role]}); fill-opacity: {1.0 if part.share > 0 else 0.35}"
    shape = el("rect", el("title", tooltip), x=LEFT, y=y, width=f"{width:.1f}", height=ROW - 8, rx=2, style=fill)
    return [
        el("text", label, x=LEFT - 10, y=y + 13, text_anchor="end", class_="op"),
        shape,
        el(
            "text",
            _note(part, whole),
            x=f"{LEFT + width + 8:.1f}",
            y=y + 13,
            class_="most" if part.is_suspect or abs(part.share) == most else "share",
        ),
    ]


def _legend(roles: set[str], y: int) -> list[Html]:
    """What the colours mean that are there."""
    words = {
        "adds": "adds error of its own",
        "magnifies": "magnifies what comes in",
        "passes on": "passes on more than it adds",
        "several": "several ops together",
    }
    out, x = [], 16.0
    for role, words_of_role in words.items():
        if role in roles:
            out.append(el("rect", x=x, y=y, width=11, height=11, rx=2, style=f"fill: var({COLOURS[role]})"))
            out.append(el("text", words_of_role, x=x + 16, y=y + 10))
            x += 40 + 6.6 * len(words_of_role)
    return out
