"""A model's outputs against eager's, one Comparison each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import SUPPORTED_NODES, keystr, tree_flatten_with_path

from proveout.check.compare import compare
from proveout.types import Comparison

DEPTH = 4
"""How deep objects that PyTorch does not know as containers are looked into."""


def compare_outputs(actual: Any, wanted: Any, threshold: float, ulp_of: torch.dtype | None = None) -> list[Comparison]:
    """Outputs are matched by their place in the structure; a missing or extra one fails, and so does nothing at all."""
    got, want = dict(leaves(actual)), dict(leaves(wanted))
    out = []
    for name, value in want.items():
        if name not in got:
            out.append(_verdict(name, threshold, False, "this output is missing"))
        elif isinstance(value, torch.Tensor) and isinstance(got[name], torch.Tensor):
            out.append(compare(got[name], value, name=name, threshold=threshold, ulp_of=ulp_of))
        elif not _same(got[name], value):
            out.append(_verdict(name, threshold, False, f"{got[name]!r} instead of {value!r}"))
    out += [_verdict(n, threshold, False, "eager has no such output") for n in got.keys() - want.keys()]
    if not want:
        out.append(_verdict("output", threshold, False, NOTHING_TO_COMPARE))
    return out


NOTHING_TO_COMPARE = "the model gives nothing that can be compared"

NOTHING_COMPARED = "nothing was compared: on these inputs the model's outputs hold no finite number"


def holds_numbers(wanted: Any) -> bool:
    """Whether there is a finite number in a tensor of eager's outputs: without any, their equality says nothing."""
    return any(isinstance(leaf, torch.Tensor) and bool(leaf.isfinite().any()) for _, leaf in leaves(wanted))


def leaves(value: Any, path: str = "", depth: int = DEPTH) -> Iterator[tuple[str, Any]]:
    """The tensors, numbers and texts of an output, each with its path; objects are looked into by their attributes."""
    for keys, leaf in tree_flatten_with_path(value, is_leaf=_is_nameless)[0]:
        name = path + keystr(keys)
        if _is_nameless(leaf):
            children = SUPPORTED_NODES[type(leaf)].flatten_fn(leaf)[0]
            for key, inner in zip(leaf if isinstance(leaf, Mapping) else range(len(children)), children):
                yield from leaves(inner, f"{name}[{key!r}]", depth)
        elif isinstance(leaf, (torch.Tensor, bool, int, float, complex, str)):
            yield name.strip(".") or "output", leaf
        elif isinstance(leaf, (np.ndarray, np.generic)) and np.asarray(leaf).dtype.kind in "biufc":
            yield name.strip(".") or "output", torch.from_numpy(np.array(leaf))
        elif depth and not isinstance(leaf, type):
            for attribute, inner in _attributes(leaf):
                yield from leaves(inner, f"{name}.{attribute}", depth - 1)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """An object's public attributes, wherever it keeps them."""
    slots = [slot for kind in type(value).__mro__ for slot in _named(getattr(kind, "__slots__", ()))]
    for name in (*getattr(value, "__dict__", ()), *slots):
        if not name.startswith("_") and hasattr(value, name):
            yield name, getattr(value, name)


def _named(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _is_nameless(value: Any) -> bool:
    """Whether PyTorch was told how to open this container, but not what its parts are called (diffusers' outputs)."""
    node = SUPPORTED_NODES.get(type(value))
    return node is not None and node.flatten_with_keys_fn is None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-6) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


def _verdict(name: str, threshold: float, passed: bool, reason: str) -> Comparison:
    return Comparison("output", name, None, None, None, threshold, passed, reason)
