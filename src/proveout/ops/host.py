"""Why an op without a row stays on the host: by its nature, where it has one, or because nobody wrote the row yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from proveout.reasons import CUSTOM_OP, DYNAMIC_SHAPE, NO_ROW, NOT_A_DTYPE, RANDOM, TO_PYTHON, Kind, Reason

TAGS = {
    torch.Tag.nondeterministic_seeded: RANDOM,
    torch.Tag.dynamic_output_shape: DYNAMIC_SHAPE,
    torch.Tag.data_dependent_output: TO_PYTHON,
}
"""What PyTorch itself says of an op."""

NAMES = {
    Kind("empty-memory", "makes memory without values, so there is nothing to compute"): (
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    ),
    Kind("strided-view", "a view by strides, which only the memory of its base can give"): (
        *("as_strided", "as_strided_copy", "as_strided_scatter"),
    ),
    Kind(
        "factorisation",
        "a factorisation, whose steps depend on the data: ttnn has no kernel for it",
        "leave it on the host, at the model's start or end: the chip's part is then one piece",
    ): (
        *("_linalg_svd", "_linalg_eigh", "linalg_eig", "linalg_qr", "geqrf", "cholesky", "linalg_cholesky_ex"),
        *("linalg_lu", "linalg_lu_factor_ex", "linalg_ldl_factor_ex", "linalg_lstsq", "linalg_inv_ex"),
        *("_linalg_solve_ex", "_linalg_det", "_linalg_slogdet"),
    ),
    Kind("assertion", "an assertion: the host raises it"): (
        *("_assert_async", "_assert_tensor_metadata", "_assert_scalar"),
    ),
}
"""What its tags do not say."""

_KINDS = {name: kind for kind, names in NAMES.items() for name in names}


def why_on_host(op: torch._ops.OpOverload[..., Any], dtypes: Iterable[str]) -> Reason:
    """The reason for an op that has no row; `dtypes` are those of its tensors, given and made."""
    if op.namespace != "aten":
        return CUSTOM_OP(namespace=op.namespace)
    for tag, kind in TAGS.items():
        if tag in op.tags:
            return kind()
    name = op._schema.name.removeprefix("aten::")
    unknown = next((d for d in dtypes if d.startswith("complex")), None)
    if unknown and name not in _KINDS:
        return NOT_A_DTYPE(dtype=unknown)
    return _KINDS.get(name, NO_ROW)()
