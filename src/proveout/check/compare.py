"""How close one tensor is to its reference: PCC, relative L2, largest difference, and a verdict with its reason."""

from __future__ import annotations

from typing import Literal

import torch

from proveout.types import Comparison, Origin

CLOSE_RTOL, CLOSE_ATOL = 2e-2, 1e-3
"""Where PCC is undefined (a constant tensor), closeness decides; the absolute part is of the reference's largest."""


SCALE_LIMIT = 0.5
"""PCC does not see a wrong scale or offset; a relative L2 beyond this does."""


def compare(
    found: torch.Tensor,
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
    if found.shape != wanted.shape:
        passed, reason = False, f"shape {tuple(found.shape)} instead of {tuple(wanted.shape)}"
    elif found.is_complex() != wanted.is_complex():
        passed, reason = False, f"{found.dtype} instead of {wanted.dtype}"
    elif not (wanted.is_floating_point() or wanted.is_complex()):
        wrong = int((found != wanted).sum())
        passed, reason = wrong == 0, f"{wrong} of {wanted.numel()} integers differ" if wrong else "equal"
        max_abs = float((found.double() - wanted.double()).abs().max()) if wanted.numel() else 0.0
    elif wanted.numel() == 0:
        passed, reason = True, "no element"
    else:
        passed, reason, numbers = _floats(found, wanted, threshold)
        pcc, rel_l2, max_abs = numbers
        max_ulp, within = _ulp_and_share(found, wanted, ulp_of or _coarser(found.dtype, wanted.dtype))
    return Comparison(
        scope, name, pcc, rel_l2, max_abs, threshold, passed, reason, accumulated_pcc, origin, max_ulp, within
    )


Numbers = tuple[float | None, float | None, float | None]


def _floats(found: torch.Tensor, wanted: torch.Tensor, threshold: float) -> tuple[bool, str, Numbers]:
    got, want = (_as_double(t).flatten() for t in (found, wanted))
    strange = ~torch.isfinite(want)
    if not torch.equal(strange, ~torch.isfinite(got)) or not _same_specials(got[strange], want[strange]):
        same = (got == want) | (got.isnan() & want.isnan())
        first = int(torch.nonzero((strange | ~torch.isfinite(got)) & ~same)[0])
        return False, f"not finite in other places, first at element {first}", (None, None, None)
    got, want = got[~strange], want[~strange]
    if want.numel() == 0:
        return True, "nothing finite, and the same", (None, None, None)
    difference = got - want
    max_abs = float(difference.abs().max())
    norm = float(want.norm())
    rel_l2 = float(difference.norm()) / norm if norm else (0.0 if max_abs == 0 else None)
    pcc = pearson(got, want)
    if pcc is None:
        largest = float(want.abs().max())
        if torch.allclose(got, want, rtol=CLOSE_RTOL, atol=CLOSE_ATOL * (largest or 1.0)):
            return True, "constant: PCC is undefined, closeness decides", (None, rel_l2, max_abs)
        reason = f"constant: PCC is undefined, and values up to {largest:.3g} are off by up to {max_abs:.3g}"
        return False, reason, (None, rel_l2, max_abs)
    if pcc < threshold:
        return False, f"PCC {pcc:.6f} is below {threshold}", (pcc, rel_l2, max_abs)
    if rel_l2 is not None and rel_l2 > SCALE_LIMIT:
        return False, f"PCC {pcc:.6f}, but off in scale or offset: relative L2 {rel_l2:.2f}", (pcc, rel_l2, max_abs)
    return True, "", (pcc, rel_l2, max_abs)


def ulp_of_values(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance from each value to the next larger one of a dtype, down to its subnormals."""
    info = torch.finfo(dtype)
    exponent = torch.frexp(values.abs().clamp(min=info.smallest_normal)).exponent - 1
    return torch.ldexp(torch.full_like(values, info.eps), exponent)


def _ulp_and_share(found: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype) -> tuple[float | None, float | None]:
    got, want = (_as_double(t).flatten() for t in (found, wanted))
    finite = torch.isfinite(got) & torch.isfinite(want)
    if not bool(finite.any()):
        return None, None
    got, want = got[finite], want[finite]
    difference = (got - want).abs()
    tolerance = CLOSE_ATOL * (float(want.abs().max()) or 1.0) + CLOSE_RTOL * want.abs()
    return float((difference / ulp_of_values(want, dtype)).max()), float((difference <= tolerance).double().mean())


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
    scale = float(a.norm() * b.norm())
    if scale == 0 or not torch.isfinite(torch.tensor(scale)):
        return None
    return max(-1.0, min(1.0, float(torch.dot(a, b)) / scale))
