"""Smaller shapes and plainer values for ops that fail, as long as they fail in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from proveout.reduce.graph import CallGraph, Use

Fails = Callable[[CallGraph], bool]


@dataclass(frozen=True)
class Plain:
    """An input that a line of code makes."""

    code: str
    value: torch.Tensor


def smaller(calls: CallGraph, fails: Fails) -> CallGraph:
    """Each size, wherever it stands in shapes and arguments, made as small as fails."""
    tried: set[tuple[int, int]] = set()
    going = True
    while going:
        going = False
        sizes = sorted({n for t in calls.inputs.values() for n in t.shape if n > 1}, reverse=True)
        for size in sizes:
            for less in dict.fromkeys((1, 2, 32, size // 2)):
                if not 0 < less < size or (size, less) in tried:
                    continue
                tried.add((size, less))
                cut = _resized(calls, size, less)
                if cut is not None and fails(cut):
                    calls, going = cut, True
                    break
            if going:
                break
    return calls


def _resized(calls: CallGraph, size: int, less: int) -> CallGraph | None:
    """Every dimension and every list's number that is `size` as `less`; None where the ops do not run then."""

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        for dim, n in enumerate(tensor.shape):
            if n == size:
                tensor = tensor.narrow(dim, 0, less)
        return tensor.contiguous()

    def renumbered(arg: Any) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)(less if type(a) is int and a == size else renumbered(a) for a in arg)
        return arg

    ops = tuple(replace(op, args=renumbered(op.args), kwargs=dict(op.kwargs)) for op in calls.ops)
    resized = replace(calls, ops=ops, inputs={n: cut(t) for n, t in calls.inputs.items()})
    try:
        resized.values()
    except Exception:  # any op may refuse its new sizes, in its own way
        return None
    return resized


def plainer(calls: CallGraph, fails: Fails) -> tuple[CallGraph, Mapping[str, str]]:
    """Inputs that a line of code makes, where they fail as well; and those lines."""
    codes: dict[str, str] = {}
    for name in calls.inputs:
        for plain in _plain(calls.inputs[name]):
            tried = replace(calls, inputs={**calls.inputs, name: plain.value})
            if torch.equal(plain.value, calls.inputs[name]) or (_runs(tried) and fails(tried)):
                calls, codes[name] = tried, plain.code
                break
    return calls, codes


def _plain(tensor: torch.Tensor) -> Iterator[Plain]:
    shape, dtype = tuple(tensor.shape), tensor.dtype
    if dtype == torch.bool or not (dtype.is_floating_point or dtype.is_complex):
        for code, value in (("zeros", torch.zeros), ("ones", torch.ones)):
            yield Plain(f"torch.{code}({shape}, dtype={dtype})", value(shape, dtype=dtype))
        return
    yield Plain(f"torch.ones({shape}, dtype={dtype})", torch.ones(shape, dtype=dtype))
    for scale in (1.0, 10.0, 0.1):
        drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype) * scale
        code = f"torch.randn({shape}, generator=torch.Generator().manual_seed(0)).to({dtype}) * {scale}"
        yield Plain(code, drawn)
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    yield Plain(f"torch.rand({shape}, generator=torch.Generator().manual_seed(0)).to({dtype})", drawn)


def _runs(calls: CallGraph) -> bool:
    try:
        calls.values()
    except Exception:  # indices out of range and the like
        return False
    return True


def renamed(calls: CallGraph) -> CallGraph:
    """Short names in order: x0, x1 … for inputs, v0, v1 … for results."""
    names = {n: f"x{i}" for i, n in enumerate(calls.inputs)}
    results = [n for op in calls.ops for n in op.outputs if n]
    names.update((n, f"v{i}") for i, n in enumerate(results))

    def rename(arg: Any) -> Any:
        return Use(names[arg.name]) if isinstance(arg, Use) else arg

    ops = []
    for op in calls.ops:
        args, kwargs = tree_map(rename, (op.args, dict(op.kwargs)))
        ops.append(replace(op, args=args, kwargs=kwargs, outputs=tuple(names.get(n, "") for n in op.outputs)))
    inputs = {names[n]: t for n, t in calls.inputs.items()}
    return CallGraph(tuple(ops), inputs, frozenset(names[n] for n in calls.weights if n in names))
