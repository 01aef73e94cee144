"""One visual language for all pages: a style sheet, badges, tiles, empty states and charts, in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import streamlit as st

Tone = Literal["measured", "modelled", "good", "bad", "warn", "plain"]

MEASURED, MODELLED, GOOD, BAD, WARN, PLAIN = "#0f9fb5", "#7c5cff", "#2f9e62", "#d9443f", "#c98a1b", "#7788a0"
COLOURS: dict[str, str] = {
    "measured": MEASURED, "modelled": MODELLED, "good": GOOD, "bad": BAD, "warn": WARN, "plain": PLAIN,
}  # fmt: skip
"""One colour a meaning, everywhere: in badges, tiles and charts. All can be read on light and on dark ground."""

# Colours are mixed with `currentColor`, which Streamlit sets to its theme's text: one sheet serves light and dark.
_STYLE = """
.block-container { max-width: 1240px; padding-top: 4.2rem; padding-bottom: 4rem; }
.po-head { margin: 0 0 .2rem; }
.po-head h1 { padding: 0; margin: 0 0 .25rem; letter-spacing: -.02em; }
.po-head p, .po-dim { color: color-mix(in srgb, currentColor 68%, transparent); margin: 0; }
.po-row { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; margin: .1rem 0 .3rem; }
.po-badge { --c: #7788a0; display: inline-flex; align-items: center; gap: .3em; padding: .12em .6em;
  border-radius: 99px; font-size: .78rem; font-weight: 600; line-height: 1.6; max-width: 100%;
  color: color-mix(in srgb, var(--c) 72%, currentColor); background: color-mix(in srgb, var(--c) 15%, transparent);
  border: 1px solid color-mix(in srgb, var(--c) 32%, transparent); }
.po-badge code { background: none; color: inherit; padding: 0; font-size: .95em; }
.po-big { font-size: 1.7rem; font-weight: 700; letter-spacing: -.02em; line-height: 1.2; overflow-wrap: anywhere;
  margin-right: .3rem; }
.po-tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: .7rem;
  margin: .2rem 0 .6rem; }
.po-tile { --c: color-mix(in srgb, currentColor 30%, transparent); padding: .75rem .9rem .7rem; border-radius: .7rem;
  border: 1px solid color-mix(in srgb, currentColor 13%, transparent); border-top: 3px solid var(--c);
  background: color-mix(in srgb, currentColor 2.5%, transparent); min-width: 0; }
.po-tile .name { font-size: .8rem; color: color-mix(in srgb, currentColor 68%, transparent); }
.po-tile .value { font-size: 1.5rem; font-weight: 680; letter-spacing: -.02em; font-variant-numeric: tabular-nums;
  line-height: 1.25; overflow-wrap: anywhere; }
.po-tile .value small { font-size: .9rem; font-weight: 550; }
.po-tile .note { font-size: .76rem; color: color-mix(in srgb, currentColor 68%, transparent); overflow-wrap: anywhere; }
.po-bars { display: grid; grid-template-columns: minmax(0, max-content) minmax(0, 1fr); gap: .3rem .6rem;
  align-items: center; font-size: .8rem; margin: .4rem 0; }
.po-bars .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; text-align: right; }
.po-bars .line { display: flex; align-items: center; gap: .4rem; font-variant-numeric: tabular-nums; }
.po-bars .bar { --c: #7788a0; height: 1.15rem; border-radius: .15rem; background-color: var(--c); }
.po-bars .bar.modelled { background-image: repeating-linear-gradient(135deg, rgba(255, 255, 255, .45) 0 2px,
  transparent 2px 7px); }
.po-lines { width: 100%; table-layout: fixed; border-collapse: collapse; font-size: .88rem; }
.po-lines th, .po-lines td { text-align: left; vertical-align: top; padding: .4rem .5rem .4rem 0;
  overflow-wrap: anywhere; border-bottom: 1px solid color-mix(in srgb, currentColor 12%, transparent); }
.po-lines th { font-weight: 600; color: color-mix(in srgb, currentColor 68%, transparent); }
.po-empty { text-align: center; padding: 3.2rem 1.2rem; border-radius: .9rem;
  border: 1.5px dashed color-mix(in srgb, currentColor 22%, transparent); }
.po-empty b { display: block; font-size: 1.15rem; margin-bottom: .3rem; }
.po-empty code { display: inline-block; margin-top: .8rem; overflow-wrap: anywhere; white-space: normal; }
.po-stages { display: flex; gap: .35rem; margin: .1rem 0 .5rem; }
.po-stage { flex: 1; min-width: 0; font-size: .78rem; padding-top: .4rem; overflow: hidden; text-overflow: ellipsis;
  border-top: 4px solid color-mix(in srgb, currentColor 15%, transparent);
  color: color-mix(in srgb, currentColor 55%, transparent); }
.po-stage.done { border-top-color: #2f9e62; color: inherit; }
.po-stage.now { border-top-color: #7c5cff; color: inherit; font-weight: 650; animation: po-pulse 1.4s infinite; }
.po-stage.look { border-top-color: #c98a1b; color: inherit; font-weight: 650; }
.po-stage.failed { border-top-color: #d9443f; color: inherit; font-weight: 650; }
@keyframes po-pulse { 50% { border-top-color: color-mix(in srgb, #7c5cff 35%, transparent); } }
@media (prefers-reduced-motion: reduce) { .po-stage.now { animation: none; } }
.po-answer { padding: .8rem 1rem; border-radius: .7rem; line-height: 1.65; overflow-wrap: anywhere;
  white-space: pre-wrap;
  background: color-mix(in srgb, currentColor 4%, transparent); }
.po-answer mark { background: color-mix(in srgb, #7c5cff 30%, transparent); color: inherit; border-radius: .25em;
  padding: .05em .2em; font-weight: 650; }
.po-answer .given { color: color-mix(in srgb, currentColor 62%, transparent); }
[data-testid="stStatusWidget"] { display: none; }
/* Streamlit's own CSV of a table has formulas of strangers; each table has a button of ours below it. */
[data-testid="stElementToolbarButton"]:has([aria-label^="Download as CSV"]) { display: none; }
@media (max-width: 640px) {
  [data-testid="stColumn"]:has(.po-stages) { order: -1; }
  .block-container { padding-left: 1rem; padding-right: 1rem; padding-top: 4.2rem; }
  .po-tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; }
  .po-tile .value { font-size: 1.2rem; }
}
""" + "\n".join(
    f".po-badge.{tone}, .po-tile.{tone}, .po-bars .bar.{tone} {{ --c: {colour}; }}"
    for tone, colour in COLOURS.items()
    if tone != "plain"
)


def apply() -> None:
    """The style sheet; once a run of the script."""
    st.html(f"<style>{_STYLE}</style>")


def head(title: str, text: str) -> None:
    """A page's title with one sentence."""
    st.html(f'<div class="po-head"><h1>{escape(title)}</h1><p>{escape(text)}</p></div>')


def badge(text: str, tone: Tone = "plain", *, title: str = "") -> str:
    """A small label as HTML; `title` is what a pointer resting on it shows."""
    return f'<span class="po-badge {tone}" title="{escape(title)}">{escape(text)}</span>'


def answer(text: str, note: str) -> None:
    """What a model said, large, with how sure it is."""
    st.html(f'<div class="po-row"><span class="po-big">{escape(text)}</span>{badge(note)}</div>')


def row(*parts: str) -> None:
    """Badges side by side."""
    st.html(f'<div class="po-row">{"".join(parts)}</div>')


@dataclass(frozen=True)
class Tile:
    """One figure: its name, the figure with its unit, where it comes from, and what kind it is."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    tone: Tone = "plain"


def tiles(figures: Sequence[Tile]) -> None:
    """Figures side by side; as many in a row as the window holds."""
    cells = "".join(
        f'<div class="po-tile {t.tone}"><div class="name">{escape(t.name)}</div>'
        f'<div class="value">{escape(t.value)}{f" <small>{escape(t.unit)}</small>" if t.unit else ""}</div>'
        f'<div class="note">{escape(t.note)}</div></div>'
        for t in figures
    )
    st.html(f'<div class="po-tiles">{cells}</div>')


@dataclass(frozen=True)
class Bar:
    """One bar: what it is of, its share of the longest, the figure beside it and what a pointer on it shows."""

    name: str
    share: float
    figure: str
    title: str = ""


def bars(values: Sequence[Bar], tone: Tone) -> None:
    """Bars under each other; modelled ones are hatched: the kind is never told by colour alone."""
    cells = "".join(
        f'<div class="name" title="{escape(b.title)}">{escape(b.name)}</div><div class="line">'
        f'<div class="bar {tone}" style="width: {85 * b.share:.1f}%" title="{escape(b.title)}"></div>'
        f"{escape(b.figure)}</div>"
        for b in values
    )
    st.html(f'<div class="po-bars">{cells}</div>')


def empty(title: str, text: str, command: str = "") -> None:
    """What a page shows where there is nothing yet, and what to do about it."""
    code = f"<code>{escape(command)}</code>" if command else ""
    st.html(f'<div class="po-empty"><b>{escape(title)}</b><span class="po-dim">{escape(text)}</span><br>{code}</div>')


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis for these values with ticks that can be read: 0.05, 20, 1,000; Plotly's own say 2, 5, 2, 5."""
    known = [value for value in values if value > 0]
    if not known:
        return {"type": "log"}
    low, high = math.log10(min(known)), math.log10(max(known))
    room = max(0.08 * (high - low), 0.06)
    low, high = low - room, high + room
    steps = (1,) if high - low > 3 else (1, 2, 5) if high - low > 0.7 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ticks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    text = [f"{tick:,.0f}" if tick >= 1000 else f"{tick:.6g}" if tick >= 1e-4 else f"{tick:.0e}" for tick in ticks]
    return {"type": "log", "range": [low, high], "tickmode": "array", "tickvals": ticks, "ticktext": text}


def chart(figure: Any, *, height: int = 300, key: str | None = None) -> None:
    """A Plotly figure in the app's look; Streamlit lends it the fonts and grounds of the theme."""
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 28, "b": 8},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        hovermode="closest",
    )
    st.plotly_chart(figure, width="stretch", key=key, config={"displayModeBar": False, "displaylogo": False})
