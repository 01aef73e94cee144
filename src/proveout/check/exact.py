"""What a Step means in float32, nothing rounded: the reference that Steps and whole Programs are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from proveout.devices.execute import aten_op, on_chips, run_step, unrounded
from proveout.kernels.pieces import Pieces
from proveout.program import Arg, Name, Step

NARROW = {f"ttnn.{d}" for d in ("bfloat16", "bfloat8_b", "bfloat4_b")} | {"torch.bfloat16", "torch.float16"}
"""As Steps name them: ttnn's, and PyTorch's in Programs for the CPU and GPUs."""


def exactly(step: Step, values: Mapping[str, Any], results: tuple[Any, ...], chips: int) -> tuple[Any, ...]:
    """A Step in float32. A host op that draws random numbers is not run again: its results are what they are."""
    if draws(step):
        return results
    widened = step if step.on_host else _widened(step)
    return run_step(widened, {n: values[n] for n in step.uses}, on_chips(unrounded, chips))


def draws(step: Step) -> bool:
    """Whether a Step draws random numbers."""
    return step.on_host and torch.Tag.nondeterministic_seeded in aten_op(step.kernel).tags  # type: ignore[attr-defined]


def joined(value: Any) -> Any:
    """All chips' pieces as one tensor."""
    return torch.stack(value) if isinstance(value, Pieces) else value


def wide(value: Any) -> Any:
    """A value in a format that float32 meanings take."""
    if isinstance(value, Pieces):
        return Pieces(map(wide, value))
    narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if narrow else value


def _widened(step: Step) -> Step:
    def widen(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(widen, arg))
        if not isinstance(arg, Name) or arg.text not in NARROW:
            return arg
        return Name("torch.float32" if arg.text.startswith("torch.") else "ttnn.float32")

    return Step(step.kernel, tuple((k, widen(v)) for k, v in step.attrs), step.outputs, step.origin)
