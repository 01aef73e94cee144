"""How close one tensor is to its reference: PCC, relative L2, largest difference, and a verdict with its reason."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import torch

from proveout.types import Comparison, Origin

CLOSE_RTOL, CLOSE_ATOL = 2e-2, 1e-3
"""Where PCC is undefined (a constant tensor), closeness decides; the absolute part is of the reference's largest."""


SCALE_LIMIT = 0.5
"""PCC does not see a wrong scale or offset; a relative L2 beyond this does."""


def compare(
    actual: torch.Tensor,
    wanted: torch.Tensor,
    *,
    name: str,
    threshold: float,
    scope: Literal["step", "output"] = "output",
    origin: Origin = Origin(),
    accumulated_pcc: float | None = None,
    ulp_of: torch.dtype | None = None,
) -> Comparison:
    """Floating-point tensors by PCC against `threshold`; integers and bools exactly; NaN and Inf in the same places.
    `ulp_of` names the dtype whose units in the last place differences are told in."""
    pcc = rel_l2 = max_abs = max_ulp = within = None
    if actual.shape != wanted.shape:
        passed, reason = False, f"shape {tuple(actual.shape)} instead of {tuple(wanted.shape)}"
    elif actual.is_complex() != wanted.is_complex():
        passed, reason = False, f"{actual.dtype} instead of {wanted.dtype}"
    elif not (wanted.is_floating_point() or wanted.is_complex()):
        wrong = int((actual != wanted).sum())
        passed, reason = wrong == 0, f"{wrong} of {wanted.numel()} integers differ" if wrong else "equal"
        max_abs = float((actual.double() - wanted.double()).abs().max()) if wanted.numel() else 0.0
    elif wanted.numel() == 0:
        passed, reason = True, "no element"
    else:
        both = _finite(actual, wanted)
        if isinstance(both, str):
            passed, reason = False, both
        elif both.want.numel() == 0:
            passed, reason = True, "nothing finite, and the same"
        else:
            passed, reason = _judged(both, threshold)
            pcc, rel_l2, max_abs = both.pcc, both.rel_l2, both.max_abs
            max_ulp = both.max_ulp(ulp_of or _coarser(actual.dtype, wanted.dtype))
            within = both.share_within()
    return Comparison(
        scope, name, pcc, rel_l2, max_abs, threshold, passed, reason, accumulated_pcc, origin, max_ulp, within
    )


Verdict = tuple[bool, str]


@dataclass(frozen=True)
class Difference:
    """Two tensors' finite elements against each other, in float64. Every Step is judged by this, so each number is
    made in as few passes as it can be."""

    got: torch.Tensor
    want: torch.Tensor

    @functools.cached_property
    def off(self) -> torch.Tensor:
        return self.got - self.want

    @functools.cached_property
    def size(self) -> torch.Tensor:
        return self.off.abs()

    @functools.cached_property
    def max_abs(self) -> float:
        return float(self.size.max())

    @functools.cached_property
    def largest(self) -> float:
        low, high = torch.aminmax(self.want)
        return max(abs(float(low)), abs(float(high)))

    @functools.cached_property
    def rel_l2(self) -> float | None:
        norm = _norm(self.want)
        return _norm(self.off) / norm if norm else (0.0 if self.max_abs == 0 else None)

    @functools.cached_property
    def pcc(self) -> float | None:
        return pearson(self.got, self.want)

    def max_ulp(self, dtype: torch.dtype) -> float:
        """The largest difference in units of the last place that `dtype` has at the wanted value."""
        return float((self.size / ulp_of_values(self.want, dtype)).max()) if self.max_abs else 0.0

    def share_within(self) -> float:
        """The share of elements that are close."""
        absolute = CLOSE_ATOL * (self.largest or 1.0)
        if self.max_abs <= absolute:
            return 1.0
        outside = int(torch.count_nonzero(self.size > self.want.abs().mul_(CLOSE_RTOL).add_(absolute)))
        return 1.0 - outside / self.want.numel()


def pcc_between(actual: torch.Tensor, wanted: torch.Tensor) -> float | None:
    """PCC alone; None where it is undefined, or the tensors differ in shape or in where they are not finite."""
    if actual.shape != wanted.shape or not (wanted.is_floating_point() or wanted.is_complex()) or not wanted.numel():
        return None
    if actual.is_complex() != wanted.is_complex():
        return None
    both = _finite(actual, wanted)
    return both.pcc if isinstance(both, Difference) and both.want.numel() else None


def relative_l2(actual: torch.Tensor, wanted: torch.Tensor) -> float | None:
    """The difference's norm over the wanted one's; None where they are not finite in the same places."""
    both = _finite(actual, wanted)
    if isinstance(both, str):
        return None
    return both.rel_l2 if both.want.numel() else 0.0


def _finite(actual: torch.Tensor, wanted: torch.Tensor) -> Difference | str:
    """The finite elements, or the reason where others differ."""
    got, want = (_as_double(t).flatten() for t in (actual, wanted))
    if math.isfinite(float(got.sum())) and math.isfinite(float(want.sum())):  # so is every element
        return Difference(got, want)
    strange = ~torch.isfinite(want)
    if not torch.equal(strange, ~torch.isfinite(got)) or not _same_specials(got[strange], want[strange]):
        same = (got == want) | (got.isnan() & want.isnan())
        first = int(torch.nonzero((strange | ~torch.isfinite(got)) & ~same)[0])
        return f"not finite in other places, first at element {first}"
    return Difference(got[~strange], want[~strange])


def _judged(both: Difference, threshold: float) -> Verdict:
    if both.pcc is None:
        largest = both.largest
        if torch.allclose(both.got, both.want, rtol=CLOSE_RTOL, atol=CLOSE_ATOL * (largest or 1.0)):
            return True, "constant: PCC is undefined, closeness decides"
        return False, f"constant: PCC is undefined, and values up to {largest:.3g} are off by up to {both.max_abs:.3g}"
    if both.pcc < threshold:
        return False, f"PCC {both.pcc:.6f} is below {threshold}"
    if both.rel_l2 is not None and both.rel_l2 > SCALE_LIMIT:
        return False, f"PCC {both.pcc:.6f}, but off in scale or offset: relative L2 {both.rel_l2:.2f}"
    return True, ""


def ulp_of_values(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance from each float64 value to the next larger one of a dtype, down to its subnormals: its own power
    of two, which is what its exponent's bits say, times the dtype's epsilon."""
    info = torch.finfo(dtype)
    powers = values.abs().clamp_(min=info.smallest_normal).view(torch.int64).bitwise_and_(EXPONENT)
    return powers.view(torch.float64).mul_(info.eps)


EXPONENT = 0x7FF << 52
"""The bits of a float64's exponent."""


def _coarser(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    real = [d.to_real() if d.is_complex else d for d in (one, other) if d.is_floating_point or d.is_complex]
    return max(real, key=lambda d: torch.finfo(d).eps)


def _same_specials(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.nan_to_num(nan=7.0), b.nan_to_num(nan=7.0))


def _as_double(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj()
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()


def pearson(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Pearson's correlation of two float64 vectors; None where one has no variance."""
    a, b = a - a.mean(), b - b.mean()
    scale = _norm(a) * _norm(b)
    if scale == 0 or not math.isfinite(scale):
        return None
    return max(-1.0, min(1.0, float(torch.dot(a, b)) / scale))


def _norm(vector: torch.Tensor) -> float:
    return math.sqrt(float(torch.dot(vector, vector)))
