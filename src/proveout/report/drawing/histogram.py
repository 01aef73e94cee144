"""A histogram of sizes in bytes as one SVG file, in bins of powers of two; follows the reader's colour scheme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from proveout.report.drawing.element import Html, el

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 16, 16, 58, 44
STYLE = """
svg { --ground: #fff; --ink: #1b2130; --dim: #5f6879; --line: #e2e5ea; --bar: #1f5fd0; background: var(--ground); }
@media (prefers-color-scheme: dark) {
  svg { --ground: #181c26; --ink: #e7eaf1; --dim: #9aa4b8; --line: #2b3140; --bar: #8ab4ff; }
}
text { font: 12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--dim); }
.title { font-size: 15px; font-weight: 600; fill: var(--ink); }
rect { fill: var(--bar); } line { stroke: var(--line); }
"""


def histogram(title: str, said: str, counts: Mapping[int, int]) -> str:
    """`counts`: how many nodes have each size. A bin holds the sizes from its label up to the next one."""
    binned: Counter[int] = Counter()
    for size, count in counts.items():
        binned[size.bit_length()] += count
    bins = range(min(binned), max(binned) + 1)
    most, step = max(binned.values()), (WIDTH - LEFT - RIGHT) / len(bins)
    every = max(1, round(62 / step))
    base = HEIGHT - BOTTOM
    drawn = []
    for index, exponent in enumerate(bins):
        x, count = LEFT + index * step, binned[exponent]
        height = (base - TOP - 18) * count / most
        if count:
            drawn += [
                el("rect", x=_n(x + 1), y=_n(base - height), width=_n(max(step - 2, 1)), height=_n(height), rx=2),
                _text(f"{count:,}", x + step / 2, base - height - 5),
            ]
        if index % every == 0:
            drawn.append(_text(_bytes(exponent), x + step / 2, base + 18))
    picture = el(
        "svg",
        el("style", Html(STYLE)),
        el("text", title, x=LEFT, y=24, class_="title"),
        el("text", said, x=LEFT, y=43),
        el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        role="img",
        aria_label=f"{title}: {said}",
    )
    return f"{picture}\n"


def _text(words: str, x: float, y: float) -> Html:
    return el("text", words, x=_n(x), y=_n(y), text_anchor="middle")


def _n(value: float) -> str:
    return f"{value:.1f}"


def _bytes(exponent: int) -> str:
    """The least size of a bin: 0 B, 1 B, 2 B … 1 KiB."""
    if exponent == 0:
        return "0 B"
    size, unit = exponent - 1, 0
    while size >= 10:
        size, unit = size - 10, unit + 1
    return f"{1 << size} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"
