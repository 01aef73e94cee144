"""A bar chart of compiled run times as inline SVG; measured and modelled differ in colour and in pattern."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from proveout.columns.table import Row
from proveout.columns.words import called, kind_of, number, numbers
from proveout.report.drawing.element import Html, el, join
from proveout.types import Source

SOURCES: tuple[Source, ...] = get_args(Source)

MOST_BARS = 12
"""Of each kind."""
WIDEST = 58.0
"""Per cent of the width that the longest bar takes; the rest is for its figure, also on a telephone."""
LINE = 40
AXIS = 20
LINEAR_UP_TO = 50.0
"""Largest ratio between bars that a linear scale still shows."""


def bars(rows: Sequence[Row]) -> Html:
    """The slowest models of each kind, measured ones first; empty when no model has a compiled time."""
    timed = sorted((r for r in rows if r.compiled_ms), key=lambda r: (-_ms(r), r.model, r.key))
    shown = [r for source in SOURCES for r in [r for r in timed if r.compiled_kind == source][:MOST_BARS]]
    if not shown:
        return Html("")
    share = _scale([_ms(r) for r in shown])
    notes = ["Median time of one call, in ms."]
    if share.logarithmic:
        notes.append("Logarithmic scale.")
    if len(timed) > len(shown):
        notes.append(f"The slowest {len(shown)} of {len(timed)}.")
    height = LINE * len(shown) + 4
    picture = el(
        "svg",
        el("defs", _hatch()),
        *(_grid_line(decade, share, height) for decade in (_decades(shown) if share.logarithmic else ())),
        *(_bar(flat, LINE * index, share(_ms(flat))) for index, flat in enumerate(shown)),
        width="100%",
        height=height + AXIS,
        role="img",
        aria_label="Bar chart of compiled run times; the table holds the same figures",
    )
    keys = [_legend(source) for source in SOURCES if any(flat.compiled_kind == source for flat in shown)]
    return el(
        "section",
        el("h2", "Compiled run time"),
        el("div", *keys, el("span", " ".join(notes), class_="hint"), class_="legend"),
        el("figure", picture),
        class_="card",
        id="chart",
    )


def _ms(flat: Row) -> float:
    """Its bar's length: only timed rows have one."""
    return flat.compiled_ms or 0.0


def _scale(values: Sequence[float]) -> _Share:
    most, least = max(values), min(values)
    if most / least <= LINEAR_UP_TO:
        return _Share(0.0, most, False)
    return _Share(math.floor(math.log10(least)) - 0.3, math.log10(most), True)


@dataclass(frozen=True)
class _Share:
    """Maps a time to the per cent of the width that its bar takes."""

    low: float
    high: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        position = math.log10(value) if self.logarithmic else value
        return WIDEST * (position - self.low) / (self.high - self.low)


def _decades(rows: Sequence[Row]) -> list[float]:
    exponents = [math.log10(_ms(r)) for r in rows]
    return [10.0**e for e in range(math.floor(min(exponents)), math.floor(max(exponents)) + 1)]


def _grid_line(value: float, share: _Share, height: int) -> Html:
    x = f"{share(value):.2f}%"
    label = el("text", f"{value:g}", x=x, y=height + AXIS - 6, text_anchor="middle", class_="dim")
    return join(el("line", x1=x, x2=x, y1=0, y2=height, class_="grid"), label)


def _bar(flat: Row, y: int, width: float) -> Html:
    label = f"{number(flat.compiled_ms)} ms {flat.compiled_kind}"
    return el(
        "g",
        el("title", f"{called(flat)} on {flat.device}: {label}"),
        el("text", called(flat), el("tspan", f"  {flat.device} {numbers(flat)}", class_="dim"), x=0, y=y + 14),
        el("rect", x=0, y=y + 19, width=f"{width:.2f}%", height=14, rx=3, class_=_bar_class(flat.compiled_kind)),
        el("text", label, x=f"{width:.2f}%", dx=6, y=y + 30, class_="value"),
    )


def _hatch() -> Html:
    return el(
        "pattern",
        el("rect", width=7, height=7, class_="hatch-ground"),
        el("rect", width=3, height=7, class_="hatch-line"),
        id="hatch",
        width=7,
        height=7,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )


def _bar_class(source: Source | None) -> str:
    return f"bar {kind_of(source)}"


def _legend(source: Source) -> Html:
    swatch = el(
        "svg", el("rect", width=22, height=12, rx=3, class_=_bar_class(source)), width=22, height=12, aria_hidden="true"
    )
    return el("span", join(swatch, source), class_="key")
