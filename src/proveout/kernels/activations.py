"""Functions that a matrix product applies to its result, by the names that ttnn's `activation` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from proveout.program import Construct, Name

Tensor = torch.Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def fused_in(config: Any) -> str | None:
    """The activation that a conv or program config has its kernel run on each result, by its name here; None for
    none."""
    fields = config.by_name if isinstance(config, Construct) else {}
    unary = fields.get("activation") or fields.get("fused_activation")
    return _known(unary) if unary else None


def named(unary: Any) -> str | None:
    """The name here of an activation as an argument gives it; None for those that run as calls of their own."""
    first = unary.by_place[0] if isinstance(unary, Construct) and unary.by_place else unary
    name = first.text.rpartition(".")[2].lower() if isinstance(first, Name) else ""
    return name if name in ACTIVATIONS else None


def listed(values: Any) -> tuple[str, ...]:
    """The names of a list of activations, as binary kernels take them before and after their arithmetic; ValueError
    for one that no kernel runs inside, which a forged Program may hold."""
    return tuple(map(_known, values)) if isinstance(values, tuple | list) else (_known(values),) if values else ()


def _known(unary: Any) -> str:
    name = named(unary)
    if name is None:
        raise ValueError(f"{str(unary)[:80]!r} is no activation that runs inside a kernel")
    return name


def after(config: Any, result: Tensor) -> Tensor:
    """A result as the activation in its config leaves it."""
    name = fused_in(config)
    return ACTIVATIONS[name](result) if name else result


def activated(operand: Any, activations: Any) -> Any:
    """An operand or a result as a list of activations leaves it."""
    for name in listed(activations):
        operand = ACTIVATIONS[name](operand)
    return operand
