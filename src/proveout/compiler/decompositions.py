"""Which ATen ops are taken apart before we see them: PyTorch's core table, less the ops we have rows for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

from proveout.ops.table import ops


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    table = core_aten_decompositions()
    return {op: rule for op, rule in table.items() if not _has_row(op)}


def _has_row(op: Any) -> bool:
    return isinstance(op, torch._ops.OpOverload) and str(op) in ops()
