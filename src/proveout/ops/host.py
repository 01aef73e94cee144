"""Why an op without a row stays on the host: by its nature, where it has one, or because nobody wrote the row yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

NO_ROW = "no row in the op table"

TAGS = {
    torch.Tag.nondeterministic_seeded: "draws eager's own random numbers, in eager's order",
    torch.Tag.dynamic_output_shape: "how large its result is depends on the data",
    torch.Tag.data_dependent_output: "hands a number to Python, which decides by it",
}
"""What PyTorch itself says of an op."""

NAMES = {
    "makes memory without values, so there is nothing to compute": (
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    ),
    "a view by strides, which only the memory of its base can give": (
        *("as_strided", "as_strided_copy", "as_strided_scatter"),
    ),
    "a factorisation, whose steps depend on the data: ttnn has no kernel for it": (
        *("_linalg_svd", "_linalg_eigh", "linalg_eig", "linalg_qr", "geqrf", "cholesky", "linalg_cholesky_ex"),
        *("linalg_lu", "linalg_lu_factor_ex", "linalg_ldl_factor_ex", "linalg_lstsq", "linalg_inv_ex"),
        *("_linalg_solve_ex", "_linalg_det", "_linalg_slogdet"),
    ),
    "an assertion: the host raises it": ("_assert_async", "_assert_tensor_metadata", "_assert_scalar"),
}
"""What its tags do not say."""

_REASONS = {name: reason for reason, names in NAMES.items() for name in names}


def why_on_host(op: torch._ops.OpOverload[..., Any], dtypes: Iterable[str]) -> str:
    """The reason for an op that has no row; `dtypes` are those of its tensors, given and made."""
    if op.namespace != "aten":
        return f"an op of {op.namespace}, not of ATen: only its own code says what it computes"
    for tag, reason in TAGS.items():
        if tag in op.tags:
            return reason
    name = op._schema.name.removeprefix("aten::")
    unknown = next((d for d in dtypes if d.startswith("complex")), None)
    if unknown and name not in _REASONS:
        return f"{unknown} is not a dtype of this device"
    return _REASONS.get(name, NO_ROW)
