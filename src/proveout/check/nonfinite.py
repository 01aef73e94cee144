"""Finds the first Step that makes a NaN or an infinity out of numbers that are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proveout.check.walk import walk
from proveout.kernels.pieces import Pieces
from proveout.program import Loaded, Step
from proveout.types import Origin


@dataclass(frozen=True)
class NonFinite:
    """Where it happened."""

    kernel: str
    value: str
    kind: str
    """`NaN` or `infinity`."""
    count: int
    of: int
    origin: Origin

    def __str__(self) -> str:
        where = ", ".join(filter(None, (self.origin.aten, self.origin.module, self.origin.source)))
        return (
            f"{self.kernel} gives the first {self.kind}: {self.count} of {self.of} elements of %{self.value} ({where})"
        )


def first_nonfinite(loaded: Loaded, inputs: Sequence[Any]) -> NonFinite | None:
    """Run the body Step by Step. Masks hold infinities on purpose: a Step that only hands them on is not blamed."""
    for step, values, results in walk(loaded, inputs):
        if all(_strange(values[name]) is None for name in step.uses):
            for name, result in zip(step.outputs, results):
                strange = _strange(result)
                if strange is not None:
                    return _nonfinite(step, name, *strange)
    return None


def _nonfinite(step: Step, name: str, kind: str, count: int, of: int) -> NonFinite:
    return NonFinite(step.kernel, name, kind, count, of, step.origin)


def _strange(value: Any) -> tuple[str, int, int] | None:
    """What a value holds that is no number, how often, of how many."""
    parts = list(value) if isinstance(value, Pieces) else [value]
    tensors = [p for p in parts if isinstance(p, torch.Tensor) and (p.is_floating_point() or p.is_complex())]
    wrong = sum(int((~torch.isfinite(t)).sum()) for t in tensors)
    if not wrong:
        return None
    kind = "NaN" if any(bool(t.isnan().any()) for t in tensors) else "infinity"
    return kind, wrong, sum(t.numel() for t in tensors)
