"""Operator samples where PyTorch's own result is the odd one: (operator, dtype) -> why."""

from __future__ import annotations

KNOWN: dict[tuple[str, str], str] = {}
