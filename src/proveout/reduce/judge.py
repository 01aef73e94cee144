"""How a model fails, as a class that stays the same while the model gets smaller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from proveout.check.compare import compare
from proveout.engine.compiled import compile, root_cause
from proveout.errors import OutOfMemory, ProveoutError
from proveout.types import OF_A_CHIP, Settings

Kind = Literal["crash", "refusal", "memory", "nan", "pcc", "slow"]
"""An error that is not one of ours; one of ours that says why not; memory that does not suffice; outputs that are not
finite where eager's are; outputs that are off; a modelled time above the limit."""


@dataclass(frozen=True)
class Failure:
    """One way to fail."""

    kind: Kind
    sign: str
    """What must stay the same beside the kind: an error's class; `low` for a PCC that is, `off` for what PCC does not
    see (scale, constants, shapes, integers). Empty where the kind says all."""
    message: str

    def like(self, other: Failure | None) -> bool:
        return other is not None and (self.kind, self.sign) == (other.kind, other.sign)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Conditions:
    """Under which a model is tried."""

    device: str = "sim"
    settings: Settings = OF_A_CHIP
    slower_than_ns: int | None = None
    """A modelled time above this is a failure of its own."""


def failure(model: torch.nn.Module, inputs: Sequence[Any], under: Conditions) -> Failure | None:
    """Compile and run once, and say how that fails; None where it does not."""
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = model(*inputs)
    try:
        compiled = compile(model, device=under.device, settings=under.settings, call=(tuple(inputs), {}))
        results = compiled(*inputs)
    except OutOfMemory as error:
        return Failure("memory", "", _first_line(error))
    except ProveoutError as error:
        return Failure("refusal", type(error).__name__, _first_line(error))
    except Exception as error:
        cause = root_cause(error)
        if isinstance(cause, ProveoutError):
            kind: Kind = "memory" if isinstance(cause, OutOfMemory) else "refusal"
            return Failure(kind, "" if kind == "memory" else type(cause).__name__, _first_line(cause))
        return Failure("crash", type(cause).__name__, _first_line(cause))
    wrong = _wrong(_tensors(results), _tensors(wanted), under.settings.pcc)
    if wrong is not None:
        return wrong
    ns = compiled.modelled_ns
    if under.slower_than_ns is not None and ns is not None and ns > under.slower_than_ns:
        return Failure("slow", "", f"{ns:,} ns modelled, {under.slower_than_ns:,} allowed")
    return None


def _wrong(outputs: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], least: float) -> Failure | None:
    for got, want in zip(outputs, wanted):
        if want.is_floating_point() and bool(torch.isfinite(want).all()) and not bool(torch.isfinite(got).all()):
            lost = int((~torch.isfinite(got)).sum())
            return Failure("nan", "", f"{lost} of {got.numel()} elements are not finite")
        verdict = compare(got, want, name="output", threshold=least)
        if not verdict.passed:
            low = verdict.pcc is not None and verdict.pcc < least
            return Failure("pcc", "low" if low else "off", verdict.reason)
    return None


def _tensors(outputs: Any) -> list[torch.Tensor]:
    values = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [t for t in values if isinstance(t, torch.Tensor)]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
