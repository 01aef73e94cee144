"""From a model that fails to the smallest part of it that fails in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from proveout.reduce.file import source
from proveout.reduce.graph import CallGraph, fewest, flatten, part
from proveout.reduce.judge import Conditions, Failure, failure
from proveout.reduce.shrink import plainer, renamed, smaller


@dataclass(frozen=True)
class Minimized:
    """What is left."""

    failure: Failure
    """As the file shows it."""
    ops_before: int
    ops: tuple[str, ...]
    elements_before: int
    elements: int
    tried: int
    text: str
    """The file."""


def minimize(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], under: Conditions, preamble: str = ""
) -> Minimized | None:
    """None where the model, as a list of ATen calls, does not fail at all."""
    whole = flatten(model, args, kwargs)
    wanted = _judged(whole, under)
    if wanted is None:
        return None
    tried = 1

    def fails(calls: CallGraph) -> bool:
        nonlocal tried
        tried += 1
        return bool(calls.outputs) and wanted.like(_judged(calls, under))

    values = whole.values()
    kept = fewest(len(whole.ops), lambda chosen: fails(part(whole, chosen, values)))
    small = smaller(part(whole, kept, values), fails)
    plain, codes = plainer(small, fails)
    short = renamed(plain)
    named = {new: codes[old] for old, new in zip(plain.inputs, short.inputs) if old in codes}
    last = _judged(short, under) or wanted
    return Minimized(
        last, len(whole.ops), tuple(str(op.target) for op in short.ops), _elements(whole), _elements(short), tried,
        source(short, named, last, under, preamble),
    )  # fmt: skip


def _judged(calls: CallGraph, under: Conditions) -> Failure | None:
    return failure(calls.module(), [t.clone() for t in calls.given], under)


def _elements(calls: CallGraph) -> int:
    return sum(t.numel() for t in calls.inputs.values())
