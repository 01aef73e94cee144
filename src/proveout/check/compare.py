"""How close one tensor is to its reference: PCC, relative L2, largest difference, and a verdict with its reason."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from proveout.types import Comparison, Origin

CLOSE_RTOL, CLOSE_ATOL = 2e-2, 1e-3
"""Where PCC is undefined (a constant tensor), closeness decides; the absolute part is of the reference's largest."""


SCALE_LIMIT = 0.5
"""PCC does not see a wrong scale or offset; a relative L2 beyond this does."""


def l2_of_pcc(pcc: float) -> float:
    """The relative L2 of an output with this PCC whose scale and offset are right: what else it is off by is noise."""
    return math.sqrt(max(0.0, 1 / pcc**2 - 1)) if pcc > 0 else math.inf


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
        both = _finite(actual, wanted, ulp_of or _coarser(actual.dtype, wanted.dtype))
        if isinstance(both, str):
            passed, reason = False, both
        elif both.want.numel() == 0:
            passed, reason = True, "nothing finite, and the same"
        else:
            passed, reason = _judged(both, threshold)
            pcc, rel_l2, max_abs, max_ulp = both.pcc, both.rel_l2, both.max_abs, both.max_ulp
            within = both.share_within()
    return Comparison(
        scope, name, pcc, rel_l2, max_abs, threshold, passed, reason, accumulated_pcc, origin, max_ulp, within
    )


Verdict = tuple[bool, str]


@dataclass(frozen=True)
class Difference:
    """Two vectors' finite elements against each other, in float64. Every Step is judged by this, so each number is
    made in few passes, and each pass a block at a time: whole vectors of float64 cost ten times as much to fill."""

    got: torch.Tensor
    want: torch.Tensor
    ulp_of: torch.dtype | None = None
    """The dtype whose units in the last place differences are told in."""

    @functools.cached_property
    def size(self) -> torch.Tensor:
        return (self.got.double() - self.want.double()).abs_()

    @functools.cached_property
    def _distances(self) -> tuple[float, float, float, float, float]:
        """The largest difference and the largest wanted value, the squared norms of both, and the largest difference
        in units of the last place at the wanted value."""
        most = largest = off = norm = units = 0.0
        for got, want, products in blocks(self.got, self.want):
            got.sub_(want)
            off += float(torch.mul(got, got, out=products).sum())
            norm += float(torch.mul(want, want, out=products).sum())
            low, high = torch.aminmax(want)
            largest = max(largest, -float(low), float(high))
            off_by = float(got.abs_().max())
            most = max(most, off_by)
            if off_by and self.ulp_of is not None:
                units = max(units, float(got.div_(ulp_of_values(want, self.ulp_of)).max()))
        return most, largest, off, norm, units

    @property
    def max_abs(self) -> float:
        return self._distances[0]

    @property
    def largest(self) -> float:
        return self._distances[1]

    @property
    def rel_l2(self) -> float | None:
        most, _, off, norm, _ = self._distances
        return math.sqrt(off) / math.sqrt(norm) if norm else (0.0 if most == 0 else None)

    @functools.cached_property
    def pcc(self) -> float | None:
        return pearson(self.got, self.want)

    @property
    def max_ulp(self) -> float:
        return self._distances[4]

    def share_within(self) -> float:
        """The share of elements that are close."""
        absolute = CLOSE_ATOL * (self.largest or 1.0)
        if self.max_abs <= absolute:
            return 1.0
        outside = 0
        for got, want, _ in blocks(self.got, self.want):
            off = got.sub_(want).abs_()
            outside += int(torch.count_nonzero(off > want.abs_().mul_(CLOSE_RTOL).add_(absolute)))
        return 1.0 - outside / self.want.numel()


BLOCK = 2**14
"""Elements of a block: so few that blocks in float64 stay in a core's cache, and that torch keeps to one thread."""


def blocks(*vectors: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Vectors of one length in float64, a block of each at a time, and one block to write to; the next ones lie in the
    same place. Sums of products, not `dot`: libraries spread that over threads, which wait longer than they work."""
    length = vectors[0].numel()
    held = [torch.empty(min(BLOCK, length), dtype=torch.float64, device=v.device) for v in (*vectors, vectors[0])]
    for start in range(0, length, BLOCK):
        filled = [h[: length - start].copy_(v[start : start + BLOCK]) for h, v in zip(held, vectors)]
        yield [*filled, held[-1][: length - start]]


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


def _finite(actual: torch.Tensor, wanted: torch.Tensor, ulp_of: torch.dtype | None = None) -> Difference | str:
    """The finite elements, or the reason where others differ."""
    got, want = (_flat(t) for t in (actual, wanted))
    if _is_finite(got) and _is_finite(want):
        return Difference(got, want, ulp_of)
    got, want = got.double(), want.double()
    strange = ~torch.isfinite(want)
    if not torch.equal(strange, ~torch.isfinite(got)) or not _same_specials(got[strange], want[strange]):
        same = (got == want) | (got.isnan() & want.isnan())
        first = int(torch.nonzero((strange | ~torch.isfinite(got)) & ~same)[0])
        return f"not finite in other places, first at element {first}"
    return Difference(got[~strange], want[~strange], ulp_of)


def _judged(both: Difference, threshold: float) -> Verdict:
    if both.pcc is None:
        largest = both.largest
        if torch.allclose(both.got.double(), both.want.double(), rtol=CLOSE_RTOL, atol=CLOSE_ATOL * (largest or 1.0)):
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


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).flatten()


def _is_finite(vector: torch.Tensor) -> bool:
    """So is every element, if its sum is; finite ones whose sum is not are looked at one by one."""
    return math.isfinite(float(vector.sum()))


def pearson(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Pearson's correlation of two vectors; None where one has no variance.

    Means and products of what is left of each vector once a number near its mean is taken off."""
    if not a.numel():
        return None
    shifts = [_near_mean(v) for v in (a, b)]
    totals = [0.0] * 5
    for x, y, products in blocks(a, b):
        x.sub_(shifts[0]), y.sub_(shifts[1])
        sums = [float(x.sum()), float(y.sum())]
        sums += [float(torch.mul(v, w, out=products).sum()) for v, w in ((x, x), (y, y), (x, y))]
        totals = [total + part for total, part in zip(totals, sums)]
    num, (sum_x, sum_y, xx, yy, xy) = a.numel(), totals
    square_x, square_y = xx - sum_x * sum_x / num, yy - sum_y * sum_y / num
    scale = math.sqrt(max(square_x, 0.0)) * math.sqrt(max(square_y, 0.0))
    if scale == 0 or not math.isfinite(scale):
        return None
    return max(-1.0, min(1.0, (xy - sum_x * sum_y / num) / scale))


def _near_mean(vector: torch.Tensor) -> float:
    """The first block's mean; where all of it is one number, exactly that one."""
    block = vector[:BLOCK].double()
    low, high = torch.aminmax(block)
    return float(low) if low == high else float(block.mean())
