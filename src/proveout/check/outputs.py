"""A model's outputs against eager's, one Comparison each."""

from __future__ import annotations

from typing import Any

from proveout.check.compare import compare, tensors_in
from proveout.types import Comparison


def compare_outputs(found: Any, wanted: Any, threshold: float) -> list[Comparison]:
    """Outputs are matched by their place in the structure; a missing or extra one fails."""
    got, want = dict(tensors_in(found)), dict(tensors_in(wanted))
    out = []
    for name, tensor in want.items():
        if name in got:
            out.append(compare(got[name], tensor, name=name, threshold=threshold))
        else:
            out.append(Comparison("output", name, None, None, None, threshold, False, "this output is missing"))
    for name in got.keys() - want.keys():
        out.append(Comparison("output", name, None, None, None, threshold, False, "eager has no such output"))
    return out
