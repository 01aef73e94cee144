"""Line charts as inline SVG: a few series over shared axes, each with a colour and a dash of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from proveout.report.drawing.element import Html, el, join

WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 12, 42
LOGARITHMIC_ABOVE = 20.0
"""Ratio between the ends of an axis at which it becomes logarithmic."""
MOST_LINES = 8
DASHES = ("", "7 3", "2 3", "9 3 2 3")

STYLE = """
.lines svg { display: block; width: 100%; height: auto; min-width: 560px; }
.lines text { fill: var(--dim); font-size: 12px; }
.lines .grid { stroke: var(--line); } .lines .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
:root { --c0: #0b7285; --c1: #b4540a; --c2: #5b3fc4; --c3: #2b7a1f;
  --c4: #b02a6b; --c5: #1f5fd0; --c6: #7a6200; --c7: #56606f; }
@media (prefers-color-scheme: dark) { :root { --c0: #57c7d9; --c1: #f2a65a; --c2: #b79cff; --c3: #7fd36f;
  --c4: #f58bbd; --c5: #8ab4ff; --c6: #d9c25a; --c7: #aab4c4; } }
"""


@dataclass(frozen=True)
class Line:
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Axis:
    """Maps values to 0…1. Its ticks are round numbers, or powers of ten where it is logarithmic."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        low, high, at = (math.log10(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return (at - low) / (high - low)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if len(decades) <= 4 else (1,)
            ticks = [m * 10.0**d for d in decades for m in steps]
        else:
            rough = (self.high - self.low) / 5
            base = 10.0 ** math.floor(math.log10(rough))
            step = next(base * m for m in (1, 2, 5, 10) if base * m >= rough)
            ticks = [step * i for i in range(math.floor(self.low / step), math.ceil(self.high / step) + 1)]
        slack = (self.high - self.low) * 1e-9
        return [tick for tick in ticks if self.low - slack <= tick <= self.high + slack]


def axis(values: Sequence[float], *, from_zero: bool = False) -> Axis:
    """An axis that holds these values; logarithmic where they span much and zero need not be shown."""
    low, high = min(values), max(values)
    if not from_zero and low > 0 and high / low > LOGARITHMIC_ABOVE:
        return Axis(low, high, True)
    low = 0.0 if from_zero else low
    return Axis(low, high if high > low else low + (abs(low) or 1.0))


def chart(title: str, lines: Sequence[Line], x: Axis, y: Axis, x_label: str, y_label: str, note: str = "") -> Html:
    """A card with a legend and a picture; the first `MOST_LINES` lines, and how many are left out."""
    shown = [line for line in lines if line.points][:MOST_LINES]
    if not shown:
        return Html("")
    notes = [note, "Logarithmic scale." if x.logarithmic or y.logarithmic else ""]
    if len(lines) > len(shown):
        notes.append(f"{len(shown)} of {len(lines)} are drawn.")
    picture = el(
        "svg",
        *(_vertical(tick, x) for tick in x.ticks()),
        *(_horizontal(tick, y) for tick in y.ticks()),
        el("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle"),
        el("text", y_label, transform=f"translate(13 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)", text_anchor="middle"),
        *(_path(line, index, x, y) for index, line in enumerate(shown)),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}: {x_label} against {y_label}",
    )
    return el(
        "section",
        el("h2", title),
        el("div", *(_key(line, index) for index, line in enumerate(shown)), class_="legend"),
        el("div", picture, class_="scroll"),
        el("p", " ".join(filter(None, notes)), class_="hint"),
        class_="card lines",
    )


def _at(x: Axis, y: Axis, point: tuple[float, float]) -> str:
    across = LEFT + x.share(point[0]) * (WIDTH - LEFT - RIGHT)
    down = HEIGHT - BOTTOM - y.share(point[1]) * (HEIGHT - TOP - BOTTOM)
    return f"{across:.1f},{down:.1f}"


def _path(line: Line, index: int, x: Axis, y: Axis) -> Html:
    points = " ".join(_at(x, y, point) for point in line.points)
    return el("polyline", el("title", line.name), points=points, class_="line", **_look(index))


def _look(index: int) -> dict[str, str | None]:
    return {"style": f"stroke: var(--c{index % 8})", "stroke_dasharray": DASHES[index % len(DASHES)] or None}


def _vertical(tick: float, x: Axis) -> Html:
    across = LEFT + x.share(tick) * (WIDTH - LEFT - RIGHT)
    label = el("text", _number(tick), x=f"{across:.1f}", y=HEIGHT - BOTTOM + 16, text_anchor="middle")
    return join(el("line", x1=f"{across:.1f}", x2=f"{across:.1f}", y1=TOP, y2=HEIGHT - BOTTOM, class_="grid"), label)


def _horizontal(tick: float, y: Axis) -> Html:
    down = HEIGHT - BOTTOM - y.share(tick) * (HEIGHT - TOP - BOTTOM)
    label = el("text", _number(tick), x=LEFT - 6, y=f"{down + 4:.1f}", text_anchor="end")
    return join(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{down:.1f}", y2=f"{down:.1f}", class_="grid"), label)


def _number(tick: float) -> str:
    """`150,000`, `0.05`: ticks are round, so that few digits say all."""
    return f"{tick:,.0f}" if abs(tick) >= 1000 else f"{tick:.4g}"


def _key(line: Line, index: int) -> Html:
    swatch = el(
        "svg",
        el("line", x1=0, x2=26, y1=6, y2=6, class_="line", **_look(index)),
        width=26,
        height=12,
        style="min-width: 0; width: 26px",
        aria_hidden="true",
    )
    return el("span", swatch, line.name, class_="key")
