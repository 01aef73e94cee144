"""How calls may be divided, for kernels' rows: the dimensions along which the pieces' results, joined, are the whole's.

Only dimensions along which no number depends on another are here, so a cut is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proveout.kernels.row import Cut, Specs, flat_specs
from proveout.types import TensorSpec

Outputs = Sequence[TensorSpec]


def elementwise(specs: Specs, outputs: Outputs) -> list[Cut]:
    """Any dimension; an operand that is broadcast along it stays whole."""
    shape = outputs[0].shape
    cuts = []
    for dim, extent in enumerate(shape):
        operands = {}
        for name, value in specs.items():
            for spec in flat_specs(value):
                own = dim - (len(shape) - len(spec.shape))
                if own >= 0 and spec.shape[own] == extent:
                    operands[name] = own
        cuts.append(Cut(extent, operands, dim))
    return [cut for cut in cuts if cut.operands]


def rows_of(operand: str, *fixed: int | str) -> Callable[[Specs, Outputs], list[Cut]]:
    """Dimensions of one operand but those the kernel works along: given, or named by an attribute."""

    def rule(specs: Specs, outputs: Outputs) -> list[Cut]:
        spec: TensorSpec = specs[operand]
        rank = len(spec.shape)
        along = {d % rank for f in fixed for d in _dims(specs.get(f, -1) if isinstance(f, str) else f, rank)}
        return [Cut(n, {operand: d}, d) for d, n in enumerate(spec.shape) if d not in along]

    return rule


def _dims(value: Any, rank: int) -> tuple[int, ...]:
    if value is None:
        return tuple(range(rank))
    return (value,) if isinstance(value, int) else tuple(value)


def reduction(specs: Specs, outputs: Outputs) -> list[Cut]:
    spec: TensorSpec = specs["input_tensor"]
    rank = len(spec.shape)
    reduced = {d % rank for d in _dims(specs.get("dim"), rank)} if rank else set()
    gone = set() if specs.get("keepdim") else reduced
    kept = [d for d in range(rank) if d not in reduced]
    return [Cut(spec.shape[d], {"input_tensor": d}, d - sum(g < d for g in gone)) for d in kept]


def product(specs: Specs, outputs: Outputs) -> list[Cut]:
    """Rows of A, columns of B (with the bias), or the batch that both have."""
    a, b, bias = specs["input_tensor_a"], specs["input_tensor_b"], specs.get("bias")
    rank = len(outputs[0].shape)
    if len(a.shape) < 2 or len(b.shape) < 2:
        return []
    cuts = []
    for dim in range(rank - 2):
        operands = {}
        for name, spec in (("input_tensor_a", a), ("input_tensor_b", b), ("bias", bias)):
            own = dim - (rank - len(spec.shape)) if spec is not None else -1
            if spec is not None and own >= 0 and spec.shape[own] == outputs[0].shape[dim]:
                operands[name] = own
        cuts.append(Cut(outputs[0].shape[dim], operands, dim))
    row = len(a.shape) - (1 if specs.get("transpose_a") else 2)
    column = len(b.shape) - (2 if specs.get("transpose_b") else 1)
    rows, columns = {"input_tensor_a": row}, {"input_tensor_b": column}
    if bias is not None:
        columns["bias"] = len(bias.shape) - 1
        if len(bias.shape) > 1 and bias.shape[-2] > 1:
            rows["bias"] = len(bias.shape) - 2
    return [*cuts, Cut(a.shape[row], rows, rank - 2), Cut(b.shape[column], columns, rank - 1)]


def lookup(specs: Specs, outputs: Outputs) -> list[Cut]:
    """Rows of indices, or columns of the table."""
    table: TensorSpec = specs["weight"]
    rows = [Cut(n, {"input_tensor": d}, d) for d, n in enumerate(specs["input_tensor"].shape)]
    return [*rows, Cut(table.shape[-1], {"weight": len(table.shape) - 1}, len(outputs[0].shape) - 1)]


def images(height: str, width: str) -> Callable[[Specs, Outputs], list[Cut]]:
    """Whole images of a batch that lies flattened in the third dimension."""

    def rule(specs: Specs, outputs: Outputs) -> list[Cut]:
        image = specs[height] * specs[width]
        extent = specs["batch_size"] * image
        return [Cut(extent, {"input_tensor": 2}, 2, image, lambda length: {"batch_size": length // image})]

    return rule


def convolution(specs: Specs, outputs: Outputs) -> list[Cut]:
    """Images of the batch, or output channels; where they are in groups, whole groups of as many channels in as out."""
    cuts = images("input_height", "input_width")(specs, outputs)
    groups, channels = specs.get("groups", 1), specs["out_channels"]
    operands = {"weight_tensor": 0}
    if specs.get("bias_tensor") is not None:
        operands["bias_tensor"] = len(specs["bias_tensor"].shape) - 1
    if groups == 1:
        cuts.append(Cut(channels, operands, 3, attrs=lambda length: {"out_channels": length}))
    elif specs["in_channels"] == channels:
        size = channels // groups
        cuts.append(
            Cut(
                channels,
                {"input_tensor": 3, **operands},
                3,
                size,
                lambda length: {"in_channels": length, "out_channels": length, "groups": length // size},
            )
        )
    return cuts


def attention(specs: Specs, outputs: Outputs) -> list[Cut]:
    """The batch, or the heads where each query head has its own keys."""
    q, k = specs["input_tensor_q"], specs["input_tensor_k"]
    mask = specs.get("attn_mask")
    cuts = []
    for dim in (0, 1):
        if q.shape[dim] == k.shape[dim]:
            operands = {f"input_tensor_{x}": dim for x in "qkv"}
            if mask is not None and mask.shape[dim] == q.shape[dim]:
                operands["attn_mask"] = dim
            cuts.append(Cut(q.shape[dim], operands, dim))
    return cuts


def permutation(specs: Specs, outputs: Outputs) -> list[Cut]:
    shape = specs["input_tensor"].shape
    return [Cut(shape[d], {"input_tensor": d}, out) for out, d in enumerate(d % len(shape) for d in specs["dims"])]


def transposition(specs: Specs, outputs: Outputs) -> list[Cut]:
    shape = specs["input_tensor"].shape
    a, b = (specs[name] % len(shape) for name in ("dim1", "dim2"))
    return [Cut(n, {"input_tensor": d}, {a: b, b: a}.get(d, d)) for d, n in enumerate(shape)]


def same_first(specs: Specs, outputs: Outputs) -> list[Cut]:
    """A reshape that keeps the first dimension."""
    before, after = specs["input_tensor"].shape, outputs[0].shape
    if not before or not after or before[0] != after[0]:
        return []
    return [Cut(before[0], {"input_tensor": 0}, 0, attrs=lambda length: {"shape": (length, *after[1:])})]


def concatenation(specs: Specs, outputs: Outputs) -> list[Cut]:
    shape = outputs[0].shape
    along = specs.get("dim", 0) % len(shape)
    return [Cut(n, {"tensors": d}, d) for d, n in enumerate(shape) if d != along]
