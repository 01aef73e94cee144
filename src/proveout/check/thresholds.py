"""The PCC that one call must reach, by what it computes and in which format, each with where the figure comes from.

A relative error of r (root mean square, independent of the values) leaves a PCC of about 1 - r²/2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from proveout.check.compare import pearson
from proveout.kernels import blockfloat
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.table import kernels
from proveout.program import Step
from proveout.types import TensorSpec

EXACT = 1.0


@dataclass(frozen=True)
class Threshold:
    """A lowest PCC, and why it is that."""

    pcc: float
    origin: str


BY_DTYPE: dict[str, Threshold] = {
    "float64": Threshold(0.9999, "float64 in and out, judged like float32"),
    "float32": Threshold(0.9999, "float32 in and out; the matrix unit keeps 19 bits of it: r ≈ 2⁻¹¹, PCC ≈ 1 - 1e-7"),
    "float16": Threshold(0.9999, "11 significant bits: r ≈ 2⁻¹², PCC ≈ 1 - 3e-8"),
    "bfloat16": Threshold(0.999, "8 significant bits: r ≈ 2⁻⁹, PCC ≈ 1 - 2e-6; the rest is for functions that cancel"),
    "bfloat8_b": Threshold(0.99, "7 bits under an exponent shared by 16: r ≈ 2⁻⁷ of the block's largest"),
    "bfloat4_b": Threshold(0.95, "3 bits under an exponent shared by 16: r ≈ 2⁻³ of the block's largest"),
}
BY_FIDELITY: dict[str, Threshold] = {
    "LoFi": Threshold(0.99, "one phase: 5 bits of one factor times 7 of the other; r ≈ 2⁻⁵"),
    "HiFi2": Threshold(0.999, "two phases: all of one factor, 5 bits less of the other; r ≈ 2⁻⁸"),
}
"""Of products, where lower than the format's own."""


def step_threshold(step: Step, specs: Mapping[str, TensorSpec], fidelity: str | None = None) -> Threshold:
    """The lowest PCC that one Step passes with, on the device's own operands: by the coarsest format of its results.

    Every Step is judged by this, wherever it is: `check`, `benchmark`, bring-up.
    """
    kinds = [_real(specs[name].dtype) for name in step.outputs if name in specs]
    known = [dtype for dtype in kinds if dtype in BY_DTYPE]
    coarsest = min(known, key=lambda dtype: BY_DTYPE[dtype].pcc, default=kinds[0] if kinds else "float32")
    return threshold(step.kernel, coarsest, fidelity)


def _real(dtype: str) -> str:
    """Complex numbers are judged as the reals they are made of."""
    return {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def threshold(kernel: str, dtype: str = "bfloat16", fidelity: str | None = None) -> Threshold:
    """The lowest PCC that one call passes with."""
    by_dtype = BY_DTYPE.get(dtype)
    if by_dtype is None:
        return Threshold(EXACT, "integers are compared exactly")
    row = kernels().get(kernel)
    if row is not None and row.moves:
        return Threshold(by_dtype.pcc, f"moves numbers; only storing them rounds: {by_dtype.origin}")
    limit = BY_FIDELITY.get(fidelity or "")
    multiplies = row is not None and row.kind in MATRIX_UNIT
    return limit if limit and multiplies and limit.pcc < by_dtype.pcc else by_dtype


ROUNDINGS = 2
"""Times that a call rounds: its operands and its result."""


def of_these_numbers(least: Threshold, wanted: torch.Tensor, dtype: str) -> Threshold:
    """A threshold for numbers that lie far from zero and close together, as a cosine's of small angles do: there the
    format itself rounds off more of what they differ in than its threshold leaves."""
    finite = wanted[torch.isfinite(wanted)].float()
    stored = blockfloat.quantise(finite, dtype) if dtype in blockfloat.FORMATS else finite.to(getattr(torch, dtype))
    closest = pearson(stored.double(), finite.double())
    reachable = 1 - ROUNDINGS**2 * (1 - closest) if closest is not None else least.pcc
    if reachable >= least.pcc:
        return least
    return replace(
        least, pcc=round(max(0.0, reachable), 4), origin=f"storing these numbers in {dtype} gives {closest:.4f}"
    )
