"""Operator samples that differ from eager beyond PyTorch's default tolerance: (operator, dtype) -> why."""

from __future__ import annotations

ATTENTION = (
    "eager's fused kernel sums in another order: one sample in each dtype, 2 of 384 elements just past the tolerance"
)

DECOMPOSED = "PyTorch's own decomposition, run in eager, differs from the op by as much"

KNOWN: dict[tuple[str, str], str] = {
    ("nn.functional.scaled_dot_product_attention", "float32"): ATTENTION,
    ("nn.functional.scaled_dot_product_attention", "bfloat16"): ATTENTION,
    ("masked.logsumexp", "bfloat16"): DECOMPOSED,
}
