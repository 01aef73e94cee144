"""Compiled functions against eager ones: the same values, dtypes, shapes, writes and gradients, or one and the same
error. It needs no pytest: `long.py` beside it takes thousands of seeds on any machine with torch."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from small_programs import arguments, function, source
from torch.utils._pytree import tree_flatten, tree_map

from proveout.engine.backend import backend

TOLERANCE = {"cpu": (1e-4, 1e-4), "sim": (0.05, 0.1)}
BFLOAT16 = (0.01, 0.004)
"""Where a function has numbers of eight bits: a decomposition rounds the last of them elsewhere (seed 7300561)."""
REFUSED = "modified by an inplace operation"
"""Eager counts the writes to a tensor and refuses its gradient; a functional graph still has the value before."""


def differences(seed: int, device: str = "cpu", way: str = "forward") -> str:
    """Why the compiled function is not the eager one; empty where it is."""
    return unlike_another(seed, device, way, function(seed))


def pytorchs_own(seed: int, device: str = "cpu", way: str = "forward") -> bool:
    """Whether a difference is PyTorch's: its functional graph alone, with nothing of ours, does just what we do. It
    knows no memory, makes writes that eager refuses, and refuses some that eager makes."""
    return unlike_another(seed, device, way, torch.compile(function(seed), backend="aot_eager")) == ""


def forward(call: Any, given: list[Any]) -> tuple[list[Any], Any]:
    """What a call gives and leaves in its arguments."""
    with torch.no_grad():
        leaves, structure = tree_flatten(call(*given))
    return [*leaves, *tree_flatten(given)[0]], structure


def backward(call: Any, given: list[Any]) -> tuple[list[Any], Any]:
    """What a call gives, and the gradients of its arguments. It is given copies: a leaf cannot be written to."""
    for leaf in tree_flatten(given)[0]:
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            leaf.requires_grad_()
    leaves, structure = tree_flatten(call(*tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, given)))
    parts = [v for v in leaves if isinstance(v, torch.Tensor) and v.requires_grad]
    if parts:
        generator = torch.Generator().manual_seed(7)
        torch.autograd.backward(parts, [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in parts])
    tensors = [v for v in tree_flatten(given)[0] if isinstance(v, torch.Tensor)]
    return [*leaves, *(torch.zeros_like(v) if v.grad is None else v.grad for v in tensors)], structure


WAYS = {"forward": forward, "backward": backward}


def outcome(way: str, call: Any, given: list[Any]) -> tuple[list[Any], Any] | Exception:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values, structure = WAYS[way](call, given)
    except Exception as error:
        return error
    return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values], structure


def unlike_another(seed: int, device: str, way: str, other: Any) -> str:
    """Why the compiled function is not this other form of it."""
    torch._dynamo.reset()
    compiled = torch.compile(function(seed), backend=backend, options={"device": device})
    for size in (None, 5, 3) if seed % 4 == 0 else (None,):
        wanted = outcome(way, other, arguments(seed, size))
        result = outcome(way, compiled, arguments(seed, size))
        if isinstance(wanted, Exception):  # another size may not fit the function
            if not isinstance(result, Exception) and REFUSED not in str(wanted):
                return f"the other raises {wanted!r}, compiled does not"
            continue
        if isinstance(result, Exception):
            return f"compiled raises {type(result).__name__}: {str(result)[:300]}"
        if wanted[1] != result[1]:
            return f"the outputs are {result[1]}, not {wanted[1]}"
        for index, (ours, theirs) in enumerate(zip(result[0], wanted[0], strict=True)):
            narrow = device == "cpu" and "bfloat16" in source(seed)
            why = unlike(ours, theirs, *(BFLOAT16 if narrow else TOLERANCE[device]))
            if why:
                return f"value {index} at size {size}: {why}"
    return ""


def unlike(ours: Any, theirs: Any, rtol: float, atol: float) -> str:
    if not isinstance(theirs, torch.Tensor) or not isinstance(ours, torch.Tensor):
        return "" if type(ours) is type(theirs) and ours == theirs else f"{ours!r}, not {theirs!r}"
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{tuple(ours.shape)}, not {theirs.dtype}{tuple(theirs.shape)}"
    exact = not (theirs.is_floating_point() or theirs.is_complex())
    close = torch.equal(ours, theirs) if exact else torch.allclose(ours, theirs, rtol, atol, equal_nan=True)
    return "" if close else f"other numbers: {ours.flatten()[:4].tolist()}, not {theirs.flatten()[:4].tolist()}"
