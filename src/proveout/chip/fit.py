"""Fits the time model on the committed tables: `python -m proveout.chip.fit` writes `data/fit.json` and the page.

Errors are cross-validated over shapes: all rows of one shape are held out together, whatever their dtype or device.
The loss is robust and logarithmic (a factor of two too long is as bad as two too short); every parameter is held
weakly at its guess from the engines' rates, so that what the tables cannot tell stays physical.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proveout.chip.families import FORMS, features_of, predict
from proveout.chip.features import GUESSES, Features
from proveout.chip.matmul import MODE_PARAMETERS, START, blocks_for, call_ns, features
from proveout.chip.specs import CHIPS
from proveout.chip.tables import GemmRow, OpRow, committed, gemm_row, op_row
from proveout.errors import EnvironmentFault

Array = np.ndarray[Any, Any]
SCHEMA = 1
MODES = ("out of the box", "tuned")
ROBUST = 0.12
"""Log errors beyond this count linearly."""
HELD = 0.05
"""Weight of a parameter's distance (in log) from its guess, against one row's log error; more with few rows."""
BOUNDS = {"dram": (1.0, 3.0), "throttle": (0.01, 0.5)}
"""What cannot be: faster than DRAM's peak rate, a clock that stops."""
CALIBRATED_ROWS = 10
"""A family is calibrated on a chip's architecture from this many measured rows on."""
INTERVAL = (0.1, 0.9)
"""Quantiles of the cross-validated residuals that an interval spans."""
BORROWED = {"attention": "softmax"}
"""Families without a row take the costs of their nearest relative."""
SMALL_PAGE = 256
"""Bytes of a page up to which the host's work on it decides the rate of a transfer."""
MATMUL_FOLDS, FAMILY_FOLDS = 5, 10


@dataclass(frozen=True)
class Residuals:
    """Cross-validated predictions of the rows of one family, architecture and mode."""

    family: str
    arch: str
    mode: str
    measured: Array
    predicted: Array
    sizes: Array
    """Tile products of a matmul, ns of anything else: the range that calibration reaches."""
    shapes: int

    def summary(self) -> dict[str, Any]:
        error = np.abs(self.predicted / self.measured - 1)
        ratio = self.measured / self.predicted
        low, high = np.quantile(ratio, INTERVAL) if len(ratio) >= CALIBRATED_ROWS else (None, None)
        return {
            "family": self.family,
            "arch": self.arch,
            "mode": self.mode,
            "rows": len(self.measured),
            "shapes": self.shapes,
            "median_error": _short(np.median(error)),
            "p90_error": _short(np.quantile(error, 0.9)),
            "low": _short(low),
            "high": _short(high),
            "calibrated": len(self.measured) >= CALIBRATED_ROWS,
            "least": _short(self.sizes.min()),
            "most": _short(self.sizes.max()),
        }


@dataclass(frozen=True)
class Fit:
    """Everything that is committed, and the residuals behind it."""

    document: dict[str, Any]
    residuals: tuple[Residuals, ...]
    left_out: tuple[str, ...]


def fit_all() -> Fit:
    """Fit every family on the committed tables."""
    gemm = [gemm_row(r, f"gemm.csv line {i}") for i, r in enumerate(committed("gemm.csv"), 2)]
    listed = [(i, op_row(r, f"op_times.csv line {i}")) for i, r in enumerate(committed("op_times.csv"), 2)]
    residuals: list[Residuals] = []
    matmul: dict[str, Any] = {}
    for arch in ("wormhole_b0", "blackhole"):
        rows = [r for r in gemm if r.chip.arch == arch]
        matmul[arch] = _fit_matmul(rows)
        residuals += _validate_matmul(rows, arch)
    families: dict[str, dict[str, float]] = {}
    guesses: list[Array] = []
    left_out: list[str] = []
    for family in FORMS:
        ops = [(i, r) for i, r in listed if r is not None and r.op.family == family and r.ns is not None]
        impossible = [i for i, r in ops if features_of(r.op, r.chip).get("dram", 0.0) > _ns(r)]
        left_out += [f"op_times.csv line {i} ({family}): faster than the peak rate of DRAM" for i in impossible]
        rows_here = [r for i, r in ops if i not in impossible]
        families[family] = _fit_family(rows_here)
        if rows_here:
            residuals += _validate_family(family, rows_here)
            if len(rows_here) >= CALIBRATED_ROWS:
                stacked, measured = _stack([features_of(r.op, r.chip) for r in rows_here]), _measured(rows_here)
                guesses.append(measured / predict(stacked, GUESSES))
    families |= {family: families[relative] for family, relative in BORROWED.items()}
    low, high = np.quantile(np.concatenate(guesses), INTERVAL)
    document = {
        "schema": SCHEMA,
        "interval": list(INTERVAL),
        "matmul": matmul,
        "families": {k: {n: _short(v) for n, v in costs.items()} for k, costs in families.items()},
        "errors": [r.summary() for r in residuals],
        "uncalibrated": {"low": _short(low), "high": _short(high)},
        "transfer": _fit_transfers(),
    }
    return Fit(document, tuple(residuals), tuple(left_out))


# ---- matrix products -------------------------------------------------------------------------------------------------


def _fit_matmul(rows: Sequence[GemmRow]) -> dict[str, dict[str, float]]:
    """One set of parameters for an architecture, some of them apart for each mode."""
    start = START[rows[0].chip.arch]
    shared = [k for k in start if k not in MODE_PARAMETERS]
    names = shared + [f"{k}/{mode}" for k in MODE_PARAMETERS for mode in MODES]
    guess = np.log([start[n.partition("/")[0]] for n in names])
    stacked, measured = _stack_products(rows), _measured(rows)
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


def _validate_matmul(rows: Sequence[GemmRow], arch: str) -> list[Residuals]:
    shapes = sorted({r.shape for r in rows}, key=lambda s: (s[0] * s[1] * s[2], s))
    held_out = np.zeros(len(rows))
    for fold in range(MATMUL_FOLDS):
        hidden = set(shapes[fold::MATMUL_FOLDS])
        fitted = _fit_matmul([r for r in rows if r.shape not in hidden])
        for i, row in enumerate(rows):
            if row.shape in hidden:
                held_out[i] = call_ns(_stack_products([row]), fitted[row.mode])[0]
    found = []
    for mode in MODES:
        here = [i for i, r in enumerate(rows) if r.mode == mode]
        measured = _measured([rows[i] for i in here])
        sizes = np.array([float(np.prod(rows[i].shape)) for i in here])
        shapes_here = len({rows[i].shape for i in here})
        found.append(Residuals("matmul", arch, mode, measured, held_out[here], sizes, shapes_here))
    return found


def _stack_products(rows: Sequence[GemmRow]) -> dict[str, Array]:
    stacked = _stack([features(r.product, blocks_for(r.product, r.chip, r.tuned)) for r in rows])
    return stacked | {
        "ghz": np.array([r.chip.clock_ghz for r in rows]),
        "traced": np.array([float(r.traced) for r in rows]),
    }


# ---- other families --------------------------------------------------------------------------------------------------


def _fit_family(rows: Sequence[OpRow]) -> dict[str, float]:
    """Costs of the features that occur; of the others the guesses."""
    if not rows:
        return dict(GUESSES)
    stacked, measured = _stack([features_of(r.op, r.chip) for r in rows]), _measured(rows)
    names = [n for n, v in stacked.items() if v.any()]
    x = _solve(
        lambda x: np.log(predict(stacked, GUESSES | dict(zip(names, np.exp(x), strict=True))) / measured),
        np.log([GUESSES[n] for n in names]),
        names,
    )
    return {n: GUESSES[n] for n in stacked} | dict(zip(names, (float(v) for v in np.exp(x)), strict=True))


def _validate_family(family: str, rows: Sequence[OpRow]) -> list[Residuals]:
    shapes = sorted({r.shape for r in rows})
    folds = min(FAMILY_FOLDS, len(shapes))
    held_out = np.zeros(len(rows))
    for fold in range(folds):
        hidden = set(shapes[fold::folds])
        known = [r for r in rows if r.shape not in hidden]
        costs = GUESSES | _fit_family(known)
        for i, row in enumerate(rows):
            if row.shape in hidden:
                held_out[i] = predict(features_of(row.op, row.chip), costs)
    found = []
    for arch in ("wormhole_b0", "blackhole"):
        here = [i for i, r in enumerate(rows) if r.chip.arch == arch]
        if here:
            measured, count = _measured([rows[i] for i in here]), len({rows[i].shape for i in here})
            found.append(Residuals(family, arch, "in models", measured, held_out[here], measured, count))
    return found


# ---- transfers -------------------------------------------------------------------------------------------------------


def _fit_transfers() -> dict[str, Any]:
    """Host time of a page in each direction, from the small pages; large ones go at the bus's rate."""
    found: dict[str, Any] = {}
    table = committed("transfer.csv")
    for word, arch in (("wormhole", "wormhole_b0"), ("blackhole", "blackhole")):
        chip = next(c for c in CHIPS.values() if c.arch == arch)
        found[arch] = {}
        for direction, rate in (("write", chip.pcie_write_gb_s), ("read", chip.pcie_read_gb_s)):
            rows = [r for r in table if r["arch"] == word and r["direction"] == direction]
            page = np.array([float(r["page_bytes"]) for r in rows])
            measured = page / np.array([float(r["gb_s"]) for r in rows])
            page_ns = float(np.median(measured[page <= SMALL_PAGE]))
            low, high = np.quantile(measured / np.maximum(page / rate, page_ns), INTERVAL)
            found[arch][direction] = {"page_ns": _short(page_ns), "low": _short(low), "high": _short(high)}
    return found


# ---- the solver ------------------------------------------------------------------------------------------------------


def _solve(log_error: Callable[[Array], Array], guess: Array, names: Sequence[str]) -> Array:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise EnvironmentFault("fitting the time model needs scipy. Run: pip install scipy") from None

    held = HELD * max(1.0, CALIBRATED_ROWS / len(log_error(guess)))

    def residual(x: Array) -> Array:
        error = log_error(x)
        softened = np.sign(error) * ROBUST * np.sqrt(2 * (np.sqrt(1 + (error / ROBUST) ** 2) - 1))
        return np.concatenate([softened, held * (x - guess)])

    spans = np.array(
        [
            np.log(BOUNDS[n.partition("/")[0]]) if n.partition("/")[0] in BOUNDS else (g - 4, g + 4)
            for n, g in zip(names, guess, strict=True)
        ]
    )
    found: Array = least_squares(residual, guess, bounds=(spans[:, 0], spans[:, 1])).x
    return found


def _stack(rows: Sequence[Features]) -> dict[str, Array]:
    return {name: np.array([float(r[name]) for r in rows]) for name in rows[0]}


def _measured(rows: Sequence[GemmRow] | Sequence[OpRow]) -> Array:
    return np.array([_ns(r) for r in rows])


def _ns(row: GemmRow | OpRow) -> float:
    assert row.ns is not None, "a row without a time cannot be fitted"
    return row.ns


def _short(value: Any) -> Any:
    return None if value is None else float(f"{float(value):.4g}")


def main() -> int:
    from proveout.chip.fit_page import write_page

    try:
        found = fit_all()
    except EnvironmentFault as fault:
        print(f"proveout.chip.fit: error: {fault}", file=sys.stderr)
        return fault.exit_code
    here = Path(__file__).resolve().parent
    (here / "data" / "fit.json").write_text(json.dumps(found.document, indent=1) + "\n", encoding="utf-8")
    docs = here.parents[2] / "docs"
    if docs.is_dir():
        write_page(found, docs)
    for row in found.document["errors"]:
        print(
            f"{row['family']:24} {row['arch']:12} {row['mode']:15} {row['rows']:4} rows  median "
            f"{100 * row['median_error']:5.1f} %  p90 {100 * row['p90_error']:5.1f} %"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
