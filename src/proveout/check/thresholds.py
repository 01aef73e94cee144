"""The PCC that one call must reach, by what it computes and in which format, each with where the figure comes from.

A relative error of r (root mean square, independent of the values) leaves a PCC of about 1 - r²/2.
"""

from __future__ import annotations

from dataclasses import dataclass

EXACT = 1.0


@dataclass(frozen=True)
class Threshold:
    """A lowest PCC, and why it is that."""

    pcc: float
    origin: str


MOVES = frozenset(
    f"ttnn.{name}"
    for name in (
        "reshape", "permute", "transpose", "slice", "concat", "pad", "to_layout", "to_memory_config", "embedding",
        "repeat", "expand", "clone", "unsqueeze", "squeeze", "tilize", "untilize",
        "transformer.split_query_key_value_and_split_heads", "transformer.concatenate_heads",
    )
)  # fmt: skip
"""Calls that move numbers and compute none."""
PRODUCTS = frozenset({"ttnn.matmul", "ttnn.linear", "ttnn.conv2d", "ttnn.conv_transpose2d"})

BY_DTYPE: dict[str, Threshold] = {
    "float32": Threshold(0.9999, "float32 in and out; the matrix unit keeps 19 bits of it: r ≈ 2⁻¹¹, PCC ≈ 1 - 1e-7"),
    "bfloat16": Threshold(0.999, "8 significant bits: r ≈ 2⁻⁹, PCC ≈ 1 - 2e-6; the rest is for functions that cancel"),
    "bfloat8_b": Threshold(0.99, "7 bits under an exponent shared by 16: r ≈ 2⁻⁷ of the block's largest"),
    "bfloat4_b": Threshold(0.95, "3 bits under an exponent shared by 16: r ≈ 2⁻³ of the block's largest"),
}
BY_FIDELITY: dict[str, Threshold] = {
    "LoFi": Threshold(0.99, "one phase: 5 bits of one factor times 7 of the other; r ≈ 2⁻⁵"),
    "HiFi2": Threshold(0.999, "two phases: all of one factor, 5 bits less of the other; r ≈ 2⁻⁸"),
}
"""Of products, where lower than the format's own."""


def threshold(kernel: str, dtype: str = "bfloat16", fidelity: str | None = None) -> Threshold:
    """The lowest PCC that one call passes with."""
    by_dtype = BY_DTYPE.get(dtype)
    if by_dtype is None:
        return Threshold(EXACT, "integers are compared exactly")
    if kernel in MOVES:
        return Threshold(by_dtype.pcc, f"moves numbers; only storing them rounds: {by_dtype.origin}")
    told = BY_FIDELITY.get(fidelity or "")
    return told if told and kernel in PRODUCTS and told.pcc < by_dtype.pcc else by_dtype
