"""Fits transfers between host and chip: what a page costs the host, and how far that is from published rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from proveout.chip.specs import CHIPS
from proveout.chip.tables import committed

SMALL_PAGE = 256
"""Bytes of a page up to which the host's work on it decides the rate of a transfer."""
INTERVAL = (0.1, 0.9)


def fit_transfers() -> dict[str, Any]:
    """Host time of a page in each direction, from the small pages; large ones go at the bus's rate."""
    rates: dict[str, Any] = {}
    table = committed("transfer.csv")
    for word, arch in (("wormhole", "wormhole_b0"), ("blackhole", "blackhole")):
        chip = next(c for c in CHIPS.values() if c.arch == arch)
        rates[arch] = {}
        for direction, rate in (("write", chip.pcie_write_gb_s), ("read", chip.pcie_read_gb_s)):
            rows = [r for r in table if r["arch"] == word and r["direction"] == direction]
            page = np.array([float(r["page_bytes"]) for r in rows])
            measured = page / np.array([float(r["gb_s"]) for r in rows])
            page_ns = float(np.median(measured[page <= SMALL_PAGE]))
            low, high = np.quantile(measured / np.maximum(page / rate, page_ns), INTERVAL)
            rates[arch][direction] = {"page_ns": _short(page_ns), "low": _short(low), "high": _short(high)}
    return rates


def _short(value: Any) -> float:
    return float(f"{float(value):.4g}")
