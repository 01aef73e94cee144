"""Operator samples that differ from eager beyond PyTorch's default tolerance: (operator, dtype) -> why."""

from __future__ import annotations

ATTENTION = (
    "eager's fused kernel sums in another order: one sample in each dtype, 2 of 384 elements just past the tolerance"
)

DECOMPOSED = "PyTorch's own decomposition, run in eager, differs from the op by as much"

ORDER = "hundreds of float32 products summed in another order: 1 % of one shape's elements just past the tolerance"

NARROW_STATISTICS = (
    "with statistics in bfloat16 eager sums a variance in it, so that its own 1/σ is off by a last place: where a "
    "difference of two products nearly cancels, 2 of 125 elements are past the tolerance"
)

KNOWN: dict[tuple[str, str], str] = {
    ("nn.functional.scaled_dot_product_attention", "float32"): ATTENTION,
    ("nn.functional.scaled_dot_product_attention", "bfloat16"): ATTENTION,
    ("nn.functional.conv3d", "float32"): ORDER,
    ("nn.functional.conv_transpose3d", "float32"): ORDER,
    ("nn.functional.instance_norm", "bfloat16"): NARROW_STATISTICS,
    ("masked.logsumexp", "bfloat16"): DECOMPOSED,
}

KNOWN_TO_DYNAMO: dict[tuple[str, str], str] = {}
"""The same of samples that go through `torch.compile`."""
