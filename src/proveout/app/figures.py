"""The figures of one result as tiles: times of a call with their kinds, and the PCC."""

from __future__ import annotations

from collections.abc import Iterator

from proveout.app import theme
from proveout.columns.table import Row
from proveout.columns.words import kind_of, number, pcc_text

TONES: dict[str, theme.Tone] = {
    "passed": "good", "compiled": "plain", "failed": "bad", "expected_failure": "warn", "partial": "warn",
}  # fmt: skip


def call_tiles(flat: Row, eager: str) -> Iterator[theme.Tile]:
    """`eager` names the time of the original model."""
    times = (("Compiled", flat.compiled_ms, flat.compiled_kind), (eager, flat.original_ms, flat.original_kind))
    for name, ms, source in times:
        if ms is not None and (kind := kind_of(source)) is not None:
            yield theme.Tile(name, number(ms) or "", "ms", f"a call, median; {source}", kind)
    if flat.pcc is not None:
        yield theme.Tile("PCC", pcc_text(flat.pcc) or "", note="lowest of the outputs", tone=TONES[flat.status])
