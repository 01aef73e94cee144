"""Draws predictions against measurements, as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass

from times.solve import Array

NAMES = {"wormhole_b0": "Wormhole", "blackhole": "Blackhole"}


@dataclass(frozen=True)
class Group:
    """Rows drawn in one colour."""

    label: str
    measured: Array
    predicted: Array


def scatter(groups: list[Group], title: str) -> str:
    """Predicted against measured on logarithmic axes, with the diagonal and bands at a factor of 1.2, as SVG."""
    width, height, edge = 760, 520, 60
    values = [float(v) for g in groups for v in (*g.measured, *g.predicted)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(ns: float) -> float:
        return edge + (math.log10(ns) - low) / (high - low) * (height - 2 * edge)

    def y(ns: float) -> float:
        return height - x(ns)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{edge}" y="24" font-size="15">{title}: cross-validated prediction against measurement</text>',
    ]
    for power in range(low, high + 1):
        at, label = 10.0**power, _duration(power)
        parts.append(f'<path d="M{x(at):.1f} {y(10.0**low):.1f}V{y(10.0**high):.1f}" stroke="#e9ecef"/>')
        parts.append(f'<path d="M{x(10.0**low):.1f} {y(at):.1f}H{x(10.0**high):.1f}" stroke="#e9ecef"/>')
        parts.append(f'<text x="{x(at):.1f}" y="{height - edge + 18}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{edge - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{label}</text>')
    start, end = 10.0**low, 10.0**high
    for factor, dash in ((1.0, "none"), (1.2, "4 4"), (1 / 1.2, "4 4")):
        first, last = max(start, start / factor), min(end, end / factor)
        parts.append(
            f'<path d="M{x(first):.1f} {y(first * factor):.1f}L{x(last):.1f} {y(last * factor):.1f}" '
            f'stroke="#868e96" stroke-dasharray="{dash}"/>'
        )
    for index, group in enumerate(groups):
        colour = f"hsl({360 * index // len(groups)} {70 - 25 * (index % 2)}% {38 + 10 * (index % 3)}%)"
        for measured, predicted in zip(group.measured, group.predicted, strict=True):
            parts.append(
                f'<circle cx="{x(measured):.1f}" cy="{y(predicted):.1f}" r="3" fill="{colour}" opacity="0.6"/>'
            )
        line = 60 + 18 * index
        parts.append(f'<circle cx="{height - 40}" cy="{line}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{height - 30}" y="{line + 4}">{group.label}</text>')
    middle = height / 2
    parts.append(f'<text x="{middle}" y="{height - 14}" text-anchor="middle">measured</text>')
    parts.append(f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">predicted</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _duration(power: int) -> str:
    for unit, exponent in (("s", 9), ("ms", 6), ("µs", 3)):
        if power >= exponent:
            return f"{10 ** (power - exponent)} {unit}"
    return f"{10**power} ns"
