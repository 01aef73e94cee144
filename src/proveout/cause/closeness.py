"""Outputs by more measures than PCC, and a warning where those show what PCC hides."""

from __future__ import annotations

import math
from typing import Any

import torch

from proveout.cause.findings import ULP_BINS, Closeness
from proveout.check.compare import Difference, l2_of_pcc, ulp_of_values
from proveout.check.outputs import leaves

TOLERANCE = 2e-2
"""Of an element's size, or of the median size where that is larger: the largest's would forgive all beside it."""
FEW_WITHIN, FEW_SAME, MANY_FLIPS = 0.9, 0.99, 0.02
SCALE = 3.0
"""How many times the relative L2 may be what the PCC lets expect."""
VOCABULARY = 1000
"""Rows of at least so many numbers are taken for scores of classes, as are outputs of two dimensions and logits."""


def closeness(outputs: Any, wanted: Any, least_pcc: float) -> tuple[Closeness, ...]:
    """Every floating-point output of a model, matched by its place."""
    got = dict(leaves(outputs))
    pairs = [(name, got.get(name), want) for name, want in leaves(wanted) if isinstance(want, torch.Tensor)]
    return tuple(
        close(name, have, want, least_pcc)
        for name, have, want in pairs
        if isinstance(have, torch.Tensor) and have.shape == want.shape and want.is_floating_point() and want.numel()
    )


def close(name: str, output: torch.Tensor, wanted: torch.Tensor, least_pcc: float) -> Closeness:
    flat, should = output.detach().double().flatten(), wanted.detach().double().flatten()
    finite = torch.isfinite(flat) & torch.isfinite(should)
    both = Difference(flat[finite], should[finite])
    if not both.want.numel():
        return Closeness(name, None, None, None, None, (0,) * (len(ULP_BINS) + 1), 0, None, None)
    size = both.want.abs()
    tolerance = size.clamp(min=float(size.median())) * TOLERANCE
    within = float((both.size <= tolerance).double().mean())
    flips = int((both.got * both.want < 0).sum())
    top1, top5 = _agreement(output, wanted) if _are_scores(name, wanted) else (None, None)
    lost = int(finite.numel() - int(finite.sum()) - int((torch.isnan(flat) & torch.isnan(should)).sum()))
    lost -= int((torch.isinf(flat) & (flat == should)).sum())
    warnings = _warnings(both, within, flips, top1, lost, least_pcc)
    return Closeness(
        name, both.pcc, both.rel_l2, both.max_abs, within, _histogram(both), flips, top1, top5, tuple(warnings)
    )


def _histogram(both: Difference) -> tuple[int, ...]:
    ulps = both.size / ulp_of_values(both.want, torch.bfloat16)
    edges = torch.tensor([float(b) for b in ULP_BINS], dtype=torch.float64)
    places = torch.bucketize(ulps, edges)  # at most an edge counts as that edge's
    return tuple(int(n) for n in torch.bincount(places, minlength=len(ULP_BINS) + 1))


def _are_scores(name: str, wanted: torch.Tensor) -> bool:
    rows = wanted.dim() >= 2 and wanted.shape[-1] >= 2
    return rows and ("logits" in name or wanted.dim() == 2 or wanted.shape[-1] >= VOCABULARY)


def _agreement(output: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float]:
    """Share of rows whose largest is the same, and whose largest is among the five largest found."""
    got, want = (t.detach().double().nan_to_num(nan=-math.inf).reshape(-1, t.shape[-1]) for t in (output, wanted))
    right = want.argmax(-1, keepdim=True)
    first = float((got.argmax(-1, keepdim=True) == right).double().mean())
    five = got.topk(min(5, got.shape[-1]), -1).indices
    return first, float((five == right).any(-1).double().mean())


def _warnings(
    both: Difference, within: float, flips: int, top1: float | None, lost: int, least_pcc: float
) -> list[str]:
    if lost:
        return [f"{lost} elements are not finite on one side; every number here leaves them out"]
    if both.pcc is None or both.pcc < least_pcc:
        return []
    out = []
    words = f"PCC {both.pcc:.7f} passes, but"
    if both.rel_l2 is not None and both.rel_l2 > max(0.01, SCALE * l2_of_pcc(both.pcc)):
        out.append(f"{words} the relative L2 is {both.rel_l2:.2%}: off in scale or offset, which PCC does not see")
    if within < FEW_WITHIN:
        out.append(f"{words} {1 - within:.0%} of the elements are off by more than {TOLERANCE:.0%} of their size")
    if top1 is not None and top1 < FEW_SAME:
        out.append(f"{words} {1 - top1:.1%} of the rows have another largest element")
    if flips > MANY_FLIPS * both.want.numel():
        out.append(f"{words} {flips / both.want.numel():.0%} of the elements have the other sign")
    return out
