"""Which ATen ops are taken apart before we see them: PyTorch's core table, less the ops we have rows for and less
those whose decomposition does not compute what the op itself computes."""

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
    return {op: rule for op, rule in table.items() if not _kept(op)}


ROUNDS_OTHERWISE = frozenset({"linspace", "logspace"})
"""Their decompositions give other numbers than their own kernels, found with PyTorch's operator samples."""


def _kept(op: Any) -> bool:
    """Random ops are kept too: taken apart they would draw other numbers than eager."""
    if not isinstance(op, torch._ops.OpOverload):
        return False
    name = op._schema.name.removeprefix("aten::")
    return str(op) in ops() or name in ROUNDS_OTHERWISE or torch.Tag.nondeterministic_seeded in op.tags
