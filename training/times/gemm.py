"""Fits large matrix products, which the host times: parameters for ttnn's own configs and for tuned ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proveout.chip.matmul import MODE_PARAMETERS, START, call_ns, features
from proveout.chip.program_config import blocks_for
from proveout.chip.tables import GemmRow
from proveout.errors import EnvironmentFault
from times.solve import ARCHES, Array

MODES = ("out of the box", "tuned")
FAMILY = "matmul"
ROBUST = 0.12
HELD = 0.05
BOUNDS = {"throttle": (0.01, 0.5)}
FOLDS = 5
INTERVAL = (0.1, 0.9)


@dataclass(frozen=True)
class Held:
    """Predictions of the products of one architecture and mode, each without its shape."""

    arch: str
    mode: str
    measured: Array
    predicted: Array
    sizes: Array
    """Tile products: the range that calibration reaches."""
    shapes: Array


def fit(rows: Sequence[GemmRow]) -> tuple[dict[str, Any], tuple[Held, ...]]:
    """Parameters by architecture and mode, and the rows predicted with their shapes left out."""
    parameters: dict[str, Any] = {}
    held: list[Held] = []
    for arch in ARCHES:
        here = [r for r in rows if r.chip.arch == arch and r.ns is not None]
        parameters[arch] = fit_arch(here)
        held += validate(here, arch)
    return parameters, tuple(held)


def fit_arch(rows: Sequence[GemmRow]) -> dict[str, dict[str, float]]:
    """One set of parameters for an architecture, some of them apart for each mode."""
    start = START[rows[0].chip.arch]
    shared = [k for k in start if k not in MODE_PARAMETERS]
    names = shared + [f"{k}/{mode}" for k in MODE_PARAMETERS for mode in MODES]
    guess = np.log([start[n.partition("/")[0]] for n in names])
    stacked, measured = _stack(rows), _measured(rows)
    mode = np.array([MODES.index(r.mode) for r in rows])
    counts = np.bincount(mode, minlength=len(MODES))
    weight = np.sqrt(len(rows) / len(MODES) / np.maximum(counts, 1))[mode]

    def parameters(x: Array) -> dict[str, Any]:
        value = dict(zip(names, np.exp(x), strict=True))
        apart = {k: np.array([value[f"{k}/{m}"] for m in MODES])[mode] for k in MODE_PARAMETERS}
        return {k: value[k] for k in shared} | apart

    x = _solve(lambda x: np.log(call_ns(stacked, parameters(x)) / measured) * weight, guess, names)
    value = dict(zip(names, np.exp(x), strict=True))
    return {m: {k: _short(value[k if k in value else f"{k}/{m}"]) for k in start} for m in MODES}


def validate(rows: Sequence[GemmRow], arch: str) -> list[Held]:
    shapes = sorted({r.shape for r in rows}, key=lambda s: (s[0] * s[1] * s[2], s))
    held_out = np.zeros(len(rows))
    for fold in range(FOLDS):
        hidden = set(shapes[fold::FOLDS])
        fitted = fit_arch([r for r in rows if r.shape not in hidden])
        for i, row in enumerate(rows):
            if row.shape in hidden:
                held_out[i] = call_ns(_stack([row]), fitted[row.mode])[0]
    checked = []
    for mode in MODES:
        here = [i for i, r in enumerate(rows) if r.mode == mode]
        sizes = np.array([float(np.prod(rows[i].shape)) for i in here])
        keys = np.array([shapes.index(rows[i].shape) for i in here])
        checked.append(Held(arch, mode, _measured([rows[i] for i in here]), held_out[here], sizes, keys))
    return checked


def summaries(held: Sequence[Held]) -> list[dict[str, Any]]:
    """One source gives all of these products, so what holds is told by shapes alone."""
    rows = []
    for h in held:
        error = np.abs(h.predicted / h.measured - 1)
        ratio = h.measured / h.predicted
        low, high = np.quantile(ratio, INTERVAL)
        inside = _inside(h)
        rows.append(
            {
                "family": FAMILY,
                "arch": h.arch,
                "mode": h.mode,
                "rows": len(h.measured),
                "shapes": len(np.unique(h.shapes)),
                "sources": 1,
                "median_error": _short(np.median(error)),
                "p90_error": _short(np.quantile(error, 0.9)),
                "source_median_error": _short(np.median(error)),
                "source_p90_error": _short(np.quantile(error, 0.9)),
                "low": _short(low),
                "high": _short(high),
                "cover": _short(inside.mean()),
                "source_cover": _short(inside.mean()),
                "calibrated": True,
                "least": _short(h.sizes.min()),
                "most": _short(h.sizes.max()),
            }
        )
    return rows


def _inside(held: Held) -> Array:
    """Whether each row is inside the interval of the other shapes."""
    ratio = held.measured / held.predicted
    inside = np.zeros(len(ratio), dtype=bool)
    for shape in np.unique(held.shapes):
        here = held.shapes == shape
        low, high = np.quantile(ratio[~here], INTERVAL)
        inside[here] = (ratio[here] >= low) & (ratio[here] <= high)
    return inside


def _solve(log_error: Callable[[Array], Array], guess: Array, names: Sequence[str]) -> Array:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise EnvironmentFault("fitting the time model needs scipy. Run: pip install scipy") from None

    def residual(x: Array) -> Array:
        error = log_error(x)
        softened = np.sign(error) * ROBUST * np.sqrt(2 * (np.sqrt(1 + (error / ROBUST) ** 2) - 1))
        return np.concatenate([softened, HELD * (x - guess)])

    spans = [np.log(BOUNDS[n]) if n in BOUNDS else (g - 4, g + 4) for n, g in zip(names, guess, strict=True)]
    low, high = np.array([s[0] for s in spans]), np.array([s[1] for s in spans])
    solution: Array = least_squares(residual, guess, bounds=(low, high)).x
    return solution


def _stack(rows: Sequence[GemmRow]) -> dict[str, Array]:
    each = [features(r.product, blocks_for(r.product, r.chip, r.tuned)) for r in rows]
    return {name: np.array([float(f[name]) for f in each]) for name in each[0]} | {
        "ghz": np.array([r.chip.clock_ghz for r in rows]),
        "traced": np.array([float(r.traced) for r in rows]),
    }


def _measured(rows: Sequence[GemmRow]) -> Array:
    return np.array([r.ns for r in rows], dtype=float)


def _short(value: Any) -> float:
    return float(f"{float(value):.4g}")
