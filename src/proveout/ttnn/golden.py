"""What a call computes in float32: `ttnn.get_golden_function`, as tests hold results against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from proveout.kernels.pieces import Pieces
from proveout.kernels.table import call_meaning, kernels
from proveout.program import Name
from proveout.ttnn.device import Device
from proveout.ttnn.enums import arg_of

NARROW = frozenset(f"ttnn.{dtype}" for dtype in ("bfloat16", "bfloat8_b", "bfloat4_b"))


def get_golden_function(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning of one of our functions on torch tensors, given by name; formats that round are float32 in it."""
    name = f"{getattr(operation, '__module__', '')}.{getattr(operation, '__name__', '')}"
    if name not in kernels():
        raise RuntimeError(f"{operation} does not have a golden function")
    kernel = kernels()[name]

    def golden(**arguments: Any) -> Any:
        with torch.no_grad():
            return call_meaning(kernel, {k: _named(v) for k, v in arguments.items() if v is not None})

    return golden


def _named(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and not isinstance(value, Pieces):
        return tuple(map(_named, value))
    if isinstance(value, Device):
        return Name("device")
    arg = arg_of(value)
    return Name("ttnn.float32") if isinstance(arg, Name) and arg.text in NARROW else arg
